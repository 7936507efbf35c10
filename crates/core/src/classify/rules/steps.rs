//! The agent's own course: going round in circles, or out of steps.

use crate::classify::rule::{CLEAR, Rule, SURE};
use crate::reason::Reason::{HallucinationLoop, MaxIterations};

pub(super) static RULES: &[Rule] = &[
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
