//! The model service itself: no capacity, or broken.

use crate::classify::place::Place::Llm;
use crate::classify::rule::{CLEAR, HINT, LIKELY, Rule, SURE};
use crate::reason::Reason::{ProviderError, ProviderOverloaded};

pub(super) static RULES: &[Rule] = &[
    Rule::new("builtin.overloaded.code", ProviderOverloaded, SURE + 1, &[
        "overloaded error", "server is overloaded", "model capacity exhausted", "provider overloaded",
        "model is overloaded", "engine overloaded", "engine is currently overloaded", "model not ready exception",
        "currently overloaded", "capacity exceeded", "temporarily overloaded", "service is overloaded",
        "service overloaded", "server overloaded", "system overloaded", "no capacity available", "is at capacity",
        "at capacity", "out of capacity", "insufficient capacity", "not enough capacity", "lack of capacity",
        "capacity constraints", "no available capacity", "at full capacity", "capacity limit",
    ])
    .unless(&["service tier capacity"])
    .note("Anthropic: 529 overloaded_error; OpenAI: server_is_overloaded; Gemini: 503; Bedrock: \
         ModelNotReadyException; Groq: capacity_exceeded")
    .example("503 UNAVAILABLE: The model is overloaded. Please try again later."),
    Rule::new("builtin.overloaded.demand", ProviderOverloaded, CLEAR + 15, &[
        "high demand", "heavy load", "high load", "high traffic", "unusually high", "is currently loading",
        "model is loading", "still loading", "loading model", "model is starting", "being loaded", "warming up",
        "cold start", "model is not ready", "server busy", "server is busy", "servers are busy",
        "service is too busy", "service busy", "maximum pending requests", "too busy", "system is busy",
        "model is busy", "temporarily at", "peak hours", "high volume", "no available ~ to handle",
        "no workers available", "no available workers", "no instances available", "queue is full ~ model",
        "request queue is full", "system busy", "high concurrency", "model is currently unavailable due to",
        "no deployments available", "service unavailable ~ capacity", "overloaded or not ready",
    ])
    .unless(&["loading the dataset in memory", "rate limit"])
    .note("Azure: high demand; Hugging Face: is currently loading; Ollama: server busy, maximum pending requests \
         exceeded")
    .example("System is experiencing high demand right now"),
    Rule::new("builtin.overloaded.word", ProviderOverloaded, CLEAR - 5, &[
        "overloaded", "overload",
    ])
    .unless(&["no matching overload", "overload resolution", "no overload"])
    .note("Anthropic: `Overloaded` inside a stream after 200; DeepSeek: Server Overloaded")
    .example("Overloaded"),
    Rule::new("builtin.provider.error", ProviderError, CLEAR + 4, &[
        "server had an error", "provider returned error", "upstream error", "internal server exception",
        "model error exception", "model stream error exception", "prediction failed", "failed prediction",
        "internal error encountered", "internal error has occurred", "an internal error occurred", "inference failed",
        "inference error", "engine dead error", "engine is dead", "engine core ~ died", "model service error",
        "server error occurred ~ model", "service internal error", "internal service error", "model execution failed",
        "something went wrong on our", "unexpected error ~ model provider", "model provider error",
        "internal model error", "error in upstream", "upstream request failed", "error code server error",
        "model produced invalid content", "invalid response from provider", "llm provider error",
    ])
    .note("OpenAI: server_error; Bedrock: InternalServerException, ModelErrorException; Gemini: 500 INTERNAL; \
         OpenRouter: Provider returned error")
    .example("The server had an error while processing your request. Sorry about that!"),
    Rule::new("builtin.provider.wrapper", ProviderError, LIKELY + 4, &[
        "error generating response", "failed to generate response", "unable to generate", "response failed",
        "an error occurred while processing your request", "error in processing", "error from provider",
        "provider error", "provider api error", "upstream provider", "backend error",
        "error while processing your request", "error processing your request", "generation failed",
    ])
    .unless(&["connection refused", "econnrefused"])
    .note("what gateways and SDKs write around an error of the model; a more exact one inside wins")
    .example("Error generating response: the backend is odd"),
    Rule::new("builtin.provider.gateway", ProviderError, LIKELY + 13, &[
        "bad gateway", "internal server error", "service unavailable", "server error", "internal error",
        "upstream connect error", "service temporarily unavailable", "temporarily unavailable", "web server is down",
        "origin is unreachable", "error 1033", "api error exception", "currently unavailable", "server exception",
        "service is unavailable", "unavailable",
    ])
    .at(&[Llm])
    .unless(&["connection refused", "econnrefused"])
    .note("a gateway's 500, 502 or 503 in front of a model; no reason of capacity given")
    .example("<html><head><title>502 Bad Gateway</title></head></html>"),
    Rule::new("builtin.provider.api_error", ProviderError, HINT + 2, &[
        "api error", "api exception", "model call failed", "llm call failed", "llm error", "request failed",
        "failed to get response", "stream error", "server sent error", "unknown error ~ model", "sdk error",
        "internal failure", "mid stream fallback error",
    ])
    .at(&[Llm])
    .note("Anthropic: api_error; the class every SDK uses when it knows no better")
    .example("litellm.APIError: APIError: sorry"),
];
