//! The input is more than the model takes.

use crate::classify::place::Place::Llm;
use crate::classify::rule::{CLEAR, LIKELY, Rule, SURE};
use crate::reason::Reason::ContextOverflow;

/// What looks like an overflow and is a limit of rate.
const THROTTLES: &[&str] = &["rate limit", "ratelimit", "too many requests", "throttling exception", "throttling error", "per minute", "per min", "per day", "please wait before", "tpm"];

pub(super) static RULES: &[Rule] = &[
    Rule::new("builtin.context.code", ContextOverflow, SURE + 3, &[
        "context length exceeded", "context window exceeded", "model context window exceeded",
        "context window exceeded error", "context overflow", "context limit exceeded", "exceeds context window",
        "exceed context size", "exceeded context length", "exceeded context window", "exceed context limit",
        "exceeds the context", "exceed the context", "exceeded the context", "exceeds the available context",
        "exceeds the model's context", "exceeds the model's maximum context", "exceeds model context",
        "context size exceeded", "context size has been exceeded", "context window is full", "context is too long",
        "context too long", "context length is only", "context window exceeds limit", "maximum context length",
        "max context length", "maximum context size", "maximum context window", "context window of this model",
        "larger than the context", "larger than ~ context", "greater than the context length",
        "longer than the model's context", "longer than ~ context length", "longer than the context",
        "too large for ~ context", "too long for ~ context", "bigger than ~ context", "beyond the context",
        "context length of only", "exceeds context length", "exceed max context", "does not fit ~ context",
        "doesn't fit ~ context", "fit in ~ context window", "out of context", "model context length",
        "exceed ~ context window", "exceeds ~ context size", "over the context", "context_length",
        "exceeds ~ context length",
    ])
    .unless(&["rate limit", "too many requests"])
    .note("OpenAI: context_length_exceeded; LiteLLM: ContextWindowExceededError; Anthropic: \
         model_context_window_exceeded; llama.cpp, LM Studio, Ollama, vLLM wordings")
    .example("This model's maximum context length is 4096 tokens. However, your messages resulted in 5000 tokens."),
    Rule::new("builtin.context.prompt", ContextOverflow, SURE, &[
        "prompt is too long", "prompt too long", "prompt is too large", "input is too long", "input too long",
        "input is too large", "input length exceeds", "input tokens exceed", "input token count ~ exceeds",
        "token count ~ exceeds", "too many input tokens", "maximum prompt length", "prompt token count",
        "exceeded model token limit", "exceeds model token limit", "tokens exceed", "tokens exceeds",
        "maximum number of tokens allowed", "more than max tokens allowed", "maximum allowed input length",
        "prompt contains ~ tokens ~ too large", "reduce the length of the messages", "reduce the length of your",
        "reduce your prompt", "reduce the prompt", "shorten your", "shorten the", "inputs tokens ~ must be",
        "max new tokens must be", "must have less than ~ tokens", "too many tokens ~ prompt",
        "size limit exceeded by", "message is too long", "messages too long", "conversation is too long",
        "conversation too long", "exceed ~ max model len", "max model len", "max seq len", "exceeds max length",
        "exceeds maximum length ~ tokens", "input length ~ exceeds", "prompt length", "exceeds the maximum ~ tokens",
        "exceeds maximum ~ token", "exceeds the token limit", "exceeds token limit", "token limit exceeded",
        "input exceeds", "prompt exceeds", "request exceeds the maximum ~ tokens", "exceeds the limit of ~ tokens",
        "current length is ~ while limit is", "text is too long", "input is longer", "maximum input length",
        "too long for requested model", "too many tokens in", "history is too long", "input tokens limit ~ model",
        "range of input length", "input validation error ~ tokens",
    ])
    .unless(&[
        "rate limit", "too many requests", "per minute", "while generating", "output token limit",
        "usage limit exceeded",
    ])
    .note("Anthropic: prompt is too long; Gemini: input token count exceeds; Bedrock: Input is too long; xAI, Kimi, \
         Mistral, Copilot wordings")
    .example("prompt is too long: 210000 tokens > 200000 maximum"),
    Rule::new("builtin.context.tokens", ContextOverflow, CLEAR, &[
        "too many tokens", "too many total text bytes", "payload size exceeds", "request payload size",
        "expected maxlength", "too many images", "exceeds maximum tokens", "maximum tokens",
    ])
    .at(&[Llm])
    .unless(THROTTLES)
    .note("Cohere: too many tokens; Gemini: Request payload size exceeds; Bedrock: expected maxLength")
    .example("too many tokens: 5000 given"),
    Rule::new("builtin.context.too_large", ContextOverflow, LIKELY + 4, &[
        "request too large", "request entity too large", "payload too large", "content too large",
        "request body too large",
    ])
    .at(&[Llm])
    .unless(THROTTLES)
    .note("Anthropic: 413 request_too_large; Groq, Cerebras: 413")
    .example("request_too_large: Request exceeds the maximum size"),
];
