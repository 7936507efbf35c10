//! Model output and agent steps: malformed, truncated or filtered output, loops, step limits.

use super::{CLEAR, HINT, LIKELY, Rule, SURE};
use crate::classify::evidence::FailurePlace::{Broker, Database, Framework, Human, Infrastructure, Llm, Tool, Validation};
use crate::reason::Reason::{
    ContentFiltered, DataIntegrity, HallucinationLoop, InvalidRequest, MalformedOutput, MaxIterations,
    OutputTruncated, SchemaMismatch,
};

pub(super) static RULES: &[Rule] = &[
    Rule::new("builtin.truncated.finish", OutputTruncated, SURE + 1, &[
        "finish reason length", "finish reason ~ length", "stop reason max tokens", "stop reason ~ max tokens",
        "finish reason max tokens", "finish reason ~ max tokens", "done reason length", "length finish reason",
        "length limit was reached", "incomplete ~ max output tokens", "reason max output tokens", "model length",
        "output was truncated", "output truncated", "response was truncated", "response truncated",
        "truncated response", "truncated output", "completion was truncated", "was truncated at", "truncated due to",
        "truncated because", "got truncated", "been truncated", "response too long", "response is too long",
        "output too long", "output is too long", "output limit reached", "output token limit", "output token maximum",
        "maximum output", "max output tokens reached", "max output tokens exceeded", "exceeded ~ output token",
        "response exceeded", "response was cut off", "response cut off", "output was cut off", "was cut off",
        "got cut off", "max tokens reached", "max tokens limit", "max tokens was reached", "max token limit",
        "maximum token limit", "hit max tokens", "reached max tokens", "reached the max tokens",
        "exceeded while generating", "incomplete tool call", "incomplete output", "incomplete response",
        "before the response was complete", "hit the token limit", "reached maximum tokens", "length limit reached",
        "ran out of tokens", "token limit ~ before", "stopped due to max tokens", "tool call was truncated",
        "truncated tool call", "truncated json", "incomplete json", "json is truncated", "reached its output limit",
        "token limit reached",
    ])
    .unless(&["prompt is too long", "input was truncated"])
    .note("OpenAI: finish_reason length; Anthropic: max_tokens; Pydantic AI: IncompleteToolCall; openai: \
         LengthFinishReasonError")
    .example("Could not parse response content as the length limit was reached"),
    Rule::new("builtin.truncated.json", OutputTruncated, CLEAR + 4, &[
        "unterminated string", "unexpected end of json", "eof while parsing", "unexpected end of input",
        "unexpected end of data", "unclosed string", "json input ended", "unexpected eof while parsing",
    ])
    .at(&[Llm, Framework, Validation])
    .note("JSON that ends inside a string or an object, from a model's answer")
    .example("SyntaxError: Unexpected end of JSON input"),
    Rule::new("builtin.integrity.json", DataIntegrity, CLEAR + 3, &[
        "unterminated string", "unexpected end of json", "unexpected eof while parsing", "unexpected end of data",
    ])
    .at(&[Database, Broker, Infrastructure])
    .note("an unparsable stored document is broken data, not a model's answer")
    .example("JSONDecodeError: Unterminated string starting at: line 1 column 9"),
    Rule::new("builtin.malformed.code", MalformedOutput, SURE, &[
        "malformed function call", "malformed response", "malformed tool use", "malformed tool call",
        "malformed model output", "unexpected tool call", "tool use failed", "failed to call a function",
        "failed generation", "json validate failed", "no choices", "contained no choices", "choices is empty",
        "empty choices", "could not parse llm output", "could not parse tool", "parse llm output",
        "invalid response from llm", "none or empty", "missing action", "invalid format missing",
        "could not parse the response", "no valid json", "did not return valid json", "did not return json",
        "not return a valid", "invalid or incomplete response", "failed to parse model", "failed to parse llm",
        "failed to parse tool call", "failed to parse function", "failed to parse response as json",
        "unable to parse model", "unable to parse the model", "failed to parse agent", "error parsing tool call",
        "failed to parse tool", "could not extract json", "no json found", "no json object", "unparseable",
        "unparsable", "model returned empty", "empty response from", "received empty response",
        "returned an empty response", "empty completion", "no candidates", "invalid tool call format",
        "tool call ~ not valid json", "arguments ~ not valid json", "arguments are not valid json",
        "invalid function arguments json", "output parser", "output parsing", "not properly formatted",
        "empty model response", "model output ~ could not be parsed", "no tool call found", "malformed json",
        "no response from model", "argument parsing failed", "neither content nor tool", "empty message content",
        "returned no content", "returned empty content",
    ])
    .unless(&["validation error for", "validation errors for"])
    .note("Gemini: MALFORMED_FUNCTION_CALL; Groq: tool_use_failed; LangChain: OUTPUT_PARSING_FAILURE; CrewAI: None \
         or empty; Agent Framework: Argument parsing failed")
    .example("OutputParserException: Could not parse LLM output: `I think the answer is`"),
    Rule::new("builtin.malformed.json", MalformedOutput, CLEAR - 6, &[
        "json decode error", "json parse error", "json parsing error", "is not valid json", "not valid json",
        "invalid json", "unexpected token ~ in json", "unexpected token ~ is not valid", "expecting value",
        "expecting property name", "expecting delimiter", "extra data line", "json parse exception",
        "failed to parse json", "error parsing json", "cannot parse json", "unable to parse json",
        "failed to decode json", "bad control character in string", "unexpected non whitespace character after json",
        "unexpected character ~ json", "serde json", "expected property name or", "expected ~ after property",
        "expected value at line", "no object generated", "json syntax error", "json marshaling", "failed to parse",
        "could not parse", "unable to parse", "cannot parse", "parse error", "parsing error", "parsing failed",
        "parser error", "invalid character ~ looking for beginning", "invalid control character",
        "unterminated string", "unexpected end of json", "json reader exception", "json mapping exception",
        "unexpected end of input",
    ])
    .unless(&["config file", "yaml"])
    .note("JSON parsers of Python, JavaScript, Rust, Go, Java; Vercel AI SDK: NoObjectGenerated")
    .example("JSONDecodeError: Expecting value: line 1 column 1 (char 0)"),
    Rule::new("builtin.schema.retries", SchemaMismatch, SURE, &[
        "retries ~ for output validation", "retries for output validation", "exceeded maximum output retries",
        "maximum retries ~ for result validation", "exceeded maximum retries ~ for result",
        "error max structured output retries", "structured output retries", "did not match schema",
        "does not match schema", "doesn't match schema", "not match the schema", "does not match the expected schema",
        "does not match ~ schema", "doesn't conform to", "does not conform to", "not conform to ~ schema",
        "response validation error", "json schema validation error", "schema validation failed",
        "schema validation error", "failed schema validation", "violates ~ schema", "type validation failed",
        "type validation error", "failed to validate json", "structured output validation", "against the schema",
        "output validation failed",
    ])
    .unless(&["invalid schema for", "invalid request error"])
    .note("Pydantic AI: Exceeded maximum output retries; Claude Agent SDK: error_max_structured_output_retries; \
         LiteLLM: JSONSchemaValidationError; Vercel: type validation")
    .example("UnexpectedModelBehavior: Exceeded maximum retries (1) for output validation"),
    Rule::new("builtin.schema.arguments", SchemaMismatch, CLEAR + 12, &[
        "invalid arguments for tool", "invalid arguments for function", "invalid tool input",
        "invalid tool arguments", "invalid tool parameters", "invalid tool call", "tool input validation",
        "tool arguments ~ invalid", "invalid input for tool", "invalid parameters for tool", "input validation error",
        "must have required property", "missing required parameter", "missing required argument",
        "required parameter ~ missing", "missing required field", "missing required property", "missing required key",
        "required field ~ missing", "required property ~ missing", "is a required property",
        "arguments validation failed", "argument validation failed", "parameter validation failed",
        "failed to validate tool", "invalid arguments provided", "arguments did not match",
        "error invoking tool ~ with kwargs", "invalid input to tool", "invalid parameters provided", "invalid params",
        "unknown argument", "unknown parameter ~ tool", "parameters failed validation", "input schema",
        "invalid function call arguments", "error validating tool",
    ])
    .at(&[Tool, Framework, Validation])
    .unless(&["schema must have", "invalid schema", "invalid request error"])
    .note("MCP: -32602; LangChain: Tool input validation error; Vercel: InvalidToolInput; CrewAI: invalid_input")
    .example("Invalid arguments for tool create_ticket: title must be a string"),
    Rule::new("builtin.schema.pydantic", SchemaMismatch, CLEAR, &[
        "validation error for", "validation errors for", "input should be", "extra inputs are not permitted",
        "extra fields not permitted", "type missing input value", "field required", "value is not a valid",
        "additional properties", "additional property", "unrecognized key", "zod error", "invalid type ~ expected",
        "expected ~ received", "is not of type", "is not one of", "is not a valid enum", "failed validation",
        "jsonschema", "json schema validation", "schema mismatch", "schema violation", "must be equal to one of",
        "must be string", "must be object", "must be array", "must be number", "must be integer", "must be boolean",
        "should be string", "missing field", "unknown field", "invalid enum value", "invalid type string",
        "invalid_type", "struct validation error", "type mismatch", "unexpected type", "expected type", "wrong type",
        "missing keys", "missing required", "required property", "pydantic validation", "validation error",
        "validation failed", "validation exception", "failed to validate", "expected an object", "expected a string",
        "expected object but", "expected array but", "cannot deserialize value", "guardrail ~ validation",
    ])
    .unless(&[
        "invalid request error", "foreign key", "schema must have", "unexpected keyword argument",
        "schema description",
    ])
    .note("Pydantic, JSON Schema, Ajv, Zod, serde, Jackson: parsable, of the wrong shape")
    .example("2 validation errors for Invoice: total Input should be a valid number"),
    Rule::new("builtin.schema.sent", InvalidRequest, CLEAR + 14, &[
        "input should be", "extra inputs are not permitted", "field required", "is not of type",
        "additional properties", "validation exception", "is a required property", "missing required parameter",
        "missing required field", "validation error", "is not one of", "unknown field",
        "unrecognized request argument", "unprocessable entity", "missing field", "validation failed",
        "invalid type for", "expected a string", "expected an object", "expected an array", "but got an",
        "expected one of",
    ])
    .at(&[Llm, Tool])
    .on(&[400, 422])
    .unless(&["failed generation", "too long", "output parser"])
    .note("a provider that refuses the shape of our request: Anthropic and Mistral 400/422 with a path")
    .example("messages.1.content.0: Input should be 'text' or 'image'"),
    Rule::new("builtin.schema.ours", InvalidRequest, SURE, &[
        "schema must have", "schema description may not", "invalid schema for", "invalid json schema",
        "schema is invalid", "schema missing items", "unsupported schema", "schema not supported",
        "invalid function parameters", "invalid tool schema", "tool schema", "is not a valid schema",
        "input schema ~ invalid", "schema does not support", "function declaration", "tools 0 custom",
        "invalid response format", "too many states for serving", "unknown keyword ~ schema", "unsupported keyword",
        "schema too complex", "failed validation schema",
    ])
    .unless(&["invalid arguments for tool"])
    .note("OpenAI: invalid_function_parameters; a schema that we sent and the other side rejects")
    .example("Invalid schema for function 'lookup': array schema missing items"),
    Rule::new("builtin.filtered.code", ContentFiltered, SURE + 2, &[
        "content filter", "content filtering", "content filtered", "content policy violation", "content policy",
        "content management policy", "responsible ai policy", "safety system", "violating our usage policy",
        "violates our usage", "violate our usage", "violates ~ usage policies", "usage policies", "bio policy",
        "guardrail intervened", "blocked by guardrail", "guardrail tripwire", "guardrail raised",
        "guardrail violation", "guardrails ~ blocked", "prohibited content", "finish reason safety",
        "finish reason ~ safety", "finish reason ~ recitation", "recitation", "blocked due to safety",
        "blocked by safety", "safety filter", "safety reasons", "safety policy", "safety check", "safety concerns",
        "prompt was blocked", "prompt blocked", "prompt was flagged", "response was blocked", "response blocked",
        "output blocked", "candidate was blocked", "blocked content", "content blocked", "content was blocked",
        "content was flagged", "inappropriate content", "data inspection failed", "sensitive content",
        "sensitive words", "spii", "image safety", "model armor", "finish reason refusal", "stop reason refusal",
        "stop reason ~ refusal", "model refusal error", "refused to answer", "refused to respond", "model refused",
        "cannot fulfill this request", "can't assist with that", "cannot assist with", "content exists risk",
        "content risk", "invalid prompt ~ policy", "prompt injection detected", "prompt attack", "pii detected",
        "unsafe content", "unable to respond to this", "nsfw", "against our policies", "rejected request error",
        "violates ~ policy", "violates our ~ polic*", "flagged by our", "model refusal", "block reason ~ safety",
        "block reason ~ prohibited", "block reason ~ blocklist", "block reason ~ other", "copyrighted material",
        "jailbreak detected", "flagged by content", "moderation flagged", "flagged by moderation",
    ])
    .unless(&["content filter error", "connection refused", "moderation service unavailable", "robot"])
    .at(&[Llm, Framework, Validation, Human])
    .note("OpenAI: content_policy_violation; Azure: content_filter; Anthropic: Output blocked by content filtering \
         policy; Gemini: SAFETY, RECITATION; Bedrock: guardrail_intervened")
    .example("The response was filtered due to the prompt triggering the content management policy"),
    Rule::new("builtin.filtered.anywhere", ContentFiltered, CLEAR + 10, &[
        "content filter", "content policy violation", "content filtering policy", "content management policy",
        "blocked by safety", "safety system", "guardrail tripwire", "guardrail intervened", "prohibited content",
        "block reason ~ safety", "responsible ai policy", "content moderation", "rejected by ~ moderation",
        "input guardrail", "output guardrail", "flagged by moderation", "finish reason ~ safety",
        "finish reason safety", "finish reason ~ recitation", "output blocked by", "response blocked",
        "content was flagged", "flagged for",
    ])
    .note("the same, where the caller does not say that a model was asked")
    .example("InputGuardrailTripwireTriggered: Guardrail InputGuardrail triggered tripwire"),
    Rule::new("builtin.filtered.word", ContentFiltered, LIKELY + 7, &[
        "safety settings", "safety ratings", "flagged as", "flagged by", "moderation", "harm category", "jailbreak",
        "blocklist", "toxic", "copyrighted", "copyright", "usage policy", "block reason", "policy violation",
    ])
    .at(&[Llm, Framework, Validation])
    .unless(&["content filter error"])
    .note("words of safety that an answer carries even when nothing was stopped")
    .example("Reply withheld: jailbreak"),
    Rule::new("builtin.truncated.hint", OutputTruncated, HINT + 4, &[
        "max tokens", "max output tokens", "maximum tokens",
    ])
    .at(&[Llm])
    .unless(&["max tokens must", "max tokens ~ must"])
    .note("a stop reason without its name: MAX_TOKENS")
    .example("MAX_TOKENS"),
    Rule::new("builtin.malformed.hint", MalformedOutput, HINT + 6, &[
        "empty response", "no output", "empty output", "invalid response", "unexpected response", "blank response",
        "unexpected model behavior", "model behavior error", "no response",
    ])
    .at(&[Llm, Framework, Validation])
    .note("OpenAI Agents: ModelBehaviorError; an answer that nobody can use")
    .example("ModelBehaviorError: odd"),
    Rule::new("builtin.schema.hint", SchemaMismatch, LIKELY - 6, &[
        "invalid argument", "invalid arguments", "invalid parameters", "invalid input", "bad arguments",
        "wrong arguments",
    ])
    .at(&[Tool, Validation])
    .note("arguments that the model wrote and the tool refuses")
    .example("Error: bad arguments, try again"),
    Rule::new("builtin.loop.detected", HallucinationLoop, SURE + 2, &[
        "loop detected", "loop was detected", "detected a loop", "detected loop", "loop detection", "potential loop",
        "possible loop", "tool loop", "infinite loop", "endless loop", "stuck in a loop", "stuck in loop",
        "doom loop", "repetitive tool call", "repetitive", "repeated tool call", "repeating the same",
        "repeated the same", "repeated identical", "identical tool call", "same tool call",
        "same tool ~ times in a row", "same action ~ times", "same action repeated", "same input ~ must stop",
        "reusing the same input", "same arguments ~ times", "with the same arguments", "identical arguments",
        "with identical arguments", "consecutive identical", "identical consecutive", "same output ~ times",
        "same error ~ times in a row", "same call ~ times", "no progress", "not making progress",
        "cycle detected in agent", "ping pong", "agent is looping", "keeps calling", "kept calling",
        "called ~ times in a row", "finish reason repetition", "finish reason ~ repetition", "repetition detected",
        "degenerate repetition", "duplicate tool call", "repeated call", "stuck agent", "agent stuck",
        "same command ~ times", "same response ~ times", "over and over", "exact call", "exact same",
        "been made ~ times", "been called ~ times", "repeat the same", "same tool ~ consecutive",
        "same ~ consecutive rounds", "stop reason stuck", "consecutive duplicate", "looks like a loop",
    ])
    .unless(&["event loop", "reference cycle"])
    .note("crush, gemini-cli, CrewAI: loop markers; vLLM: finish repetition; the detectors of this product")
    .example("Loop detected: the agent called search with the same arguments five times"),
    Rule::new("builtin.steps.max", MaxIterations, SURE, &[
        "max turns", "maximum turns", "maximum number of turns", "max iterations", "max iteration",
        "maximum iterations", "maximum number of iterations", "iteration limit", "iterations exceeded",
        "iterations reached", "turn limit", "turns exceeded", "error max turns", "recursion limit", "graph recursion",
        "step limit", "steps limit", "max steps", "maximum steps", "maximum number of steps", "need more steps",
        "max step", "too many steps", "tool call limit", "tool calls limit", "tool call limits", "tool use limit",
        "too many tool calls", "maximum tool calls", "max tool calls", "maximum number of tool calls",
        "max tool iterations", "tool round limit", "max tool rounds", "request limit of", "requests limit of",
        "exceed the request limit", "model call limit", "model call limits", "max consecutive", "maximum consecutive",
        "consecutive failures", "consecutive errors", "consecutive mistakes", "consecutive tool failures",
        "too many consecutive", "max rounds", "maximum rounds", "max round", "max depth", "maximum depth of agent",
        "max delegation", "handoff limit", "too many handoffs", "max loops", "max agent steps", "max cycles",
        "max replans", "reached the maximum number of", "maximum number of attempts", "max actions", "action limit",
        "max number of turns", "exceeded maximum number of turns", "too many iterations",
        "maximum allowed iterations", "max function calls", "maximum function calls", "max llm calls",
        "maximum number of llm calls", "too many turns", "maximum execution steps", "step budget", "iteration budget",
        "exceeded ~ iterations", "reached ~ iterations", "exceeded ~ steps", "subagent depth",
        "nesting depth limit ~ agent", "max auto reply", "maximum auto replies", "max reflections",
    ])
    .unless(&["maximum recursion depth", "max retries exceeded with url", "rate limit"])
    .note("OpenAI Agents: MaxTurnsExceeded; LangGraph: GraphRecursionError; LangChain, AutoGen, Claude Agent SDK: \
         cap texts; Pydantic AI: request_limit")
    .example("Agent stopped due to iteration limit or time limit."),
    Rule::new("builtin.steps.attempts", MaxIterations, CLEAR - 26, &[
        "gave up after", "giving up after", "retry limit exceeded", "retries exhausted", "retry limit reached",
        "max attempts", "maximum attempts", "too many retries",
    ])
    .note("attempts used up without a word on why")
    .example("giving up after 5 tries"),
];
