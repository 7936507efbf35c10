//! Model providers: rate limits, quotas, overload, failures, context windows, budgets.

use super::{CLEAR, HINT, LIKELY, Rule, SURE};
use crate::classify::evidence::FailurePlace::Llm;
use crate::reason::Category::Conditional;
use crate::reason::Reason::{
    ContextOverflow, ProviderError, ProviderOverloaded, QuotaExhausted, RateLimited, TokenBudgetExceeded,
};

/// Wordings that look like an overflow and are a rate limit.
const THROTTLES: &[&str] = &["rate limit", "ratelimit", "too many requests", "throttling exception", "throttling error", "per minute", "per min", "per day", "please wait before", "tpm"];

pub(super) static RULES: &[Rule] = &[
    Rule::new("builtin.quota.insufficient", QuotaExhausted, SURE + 2, &[
        "insufficient quota", "credit balance exhausted", "spend limit exceeded", "organization usage limit exceeded",
        "enforced spend limit", "billing hard limit", "billing not active", "billing is not active", "billing error",
        "insufficient g1 credits", "insufficient user quota", "account deactivated ~ billing", "quota not enough",
    ])
    .note("OpenAI: 429 insufficient_quota and its newer codes; Anthropic: enforced_spend_limit_reached, billing_error")
    .example("Error code: 429 - {'error': {'type': 'insufficient_quota', 'message': 'no more for today'}}"),
    Rule::new("builtin.quota.balance", QuotaExhausted, SURE, &[
        "insufficient balance", "insufficient credit", "insufficient fund", "credit balance is too low",
        "not enough credit", "not enough balance", "out of credits", "out of credit", "requires more credits",
        "can only afford", "no credits left", "no credits remaining", "credits exhausted", "run out of credits",
        "ran out of credits", "balance is insufficient", "negative balance", "account balance",
        "credits have been exhausted", "exhausted your credits", "used up ~ credits", "余额不足", "arrearage",
        "overdue payment", "in arrears", "payment required", "add credits", "top up your", "purchase more credits",
        "buy more credits", "credit limit", "not enough money", "prepaid credits", "exceeded ~ included credits",
        "credits are depleted", "depleted your", "outstanding balance", "unpaid invoice",
    ])
    .note("Anthropic: 400 credit balance is too low; DeepSeek, OpenRouter, Together: 402")
    .example("Your credit balance is too low to access the API. Please go to Plans & Billing."),
    Rule::new("builtin.quota.plan", QuotaExhausted, SURE - 2, &[
        "specified api usage limits", "specified workspace api usage limits", "api usage limits",
        "usage limit reached", "hit your usage limit", "reached your usage limit", "reached ~ usage limit",
        "weekly limit", "monthly limit", "monthly quota", "monthly usage", "monthly spend", "monthly allowance",
        "spending limit", "spend limit", "spending cap", "spend cap", "usage cap", "exceeded your monthly",
        "exceeded your plan", "plan limit", "free tier has been exhausted", "free trial has expired",
        "free allocated quota", "free quota", "trial ~ has expired", "trial expired", "service quota exceeded",
        "quota exhausted", "exhausted your capacity", "exhausted your quota", "exhausted your daily quota",
        "daily quota exceeded", "quota has been exhausted", "exceeded ~ monthly ~ credits", "premium request",
        "quota limit reached", "usage quota", "session limit reached", "hit your limit",
        "limit for this billing period", "billing cycle", "daily free ~ limit", "out of quota",
        "usage limit has been reached", "5-hour limit", "exceeded your token quota", "reached your monthly",
        "exceeded the monthly", "exceeded your daily", "your quota has been", "allocated quota exceeded",
        "than available capacity", "current available capacity", "capacity in quota",
    ])
    .unless(&["usage limit exceeded ~ exceeded the", "per minute"])
    .note("Anthropic: 400 own usage limits; Gemini Code Assist: QUOTA_EXHAUSTED; Bedrock: \
         ServiceQuotaExceededException; subscription plans")
    .example("You have reached your specified workspace API usage limits. You will regain access on the first."),
    Rule::new("builtin.quota.current", QuotaExhausted, SURE - 4, &[
        "exceeded your current quota", "check your plan and billing", "exceeded the quota for", "upgrade your plan",
        "exceeded your quota", "upgrade to a paid", "upgrade your account", "upgrade ~ subscription",
        "exceeded the free", "exceeds your plan",
    ])
    .note("OpenAI: You exceeded your current quota, please check your plan and billing details")
    .example("You exceeded your current quota, please check your plan and billing details."),
    Rule::new("builtin.rate.google_quota", RateLimited, SURE - 3, &[
        "exceeded your current quota ~ retry in", "exceeded your current quota", "quota exceeded for quota metric",
        "quota exceeded for metric", "resource has been exhausted", "quota exceeded ~ per minute",
        "quota exceeded ~ per day",
    ])
    .with(&[
        "per minute", "retry delay", "retry in", "retry info", "per day", "check quota", "quota metric", "per model",
        "resource exhausted",
    ])
    .unless(&["insufficient quota", "quota exhausted"])
    .note("Gemini: 429 RESOURCE_EXHAUSTED with RetryInfo and a per-minute or per-day quotaId")
    .example("429 RESOURCE_EXHAUSTED: You exceeded your current quota; quotaId RequestsPerMinutePerProject, \
         retryDelay 12s"),
    Rule::new("builtin.rate.too_large", RateLimited, SURE, &[
        "request too large for ~ tokens per min", "request too large for ~ tpm", "request too large for gpt",
        "request too large for model", "request too large ~ rate limit", "exceeds ~ tokens per minute limit ~ single",
    ])
    .category(Conditional)
    .note("OpenAI, Groq: single request larger than the whole tokens-per-minute allowance")
    .example("Request too large for model x-large on tokens per minute (TPM): Limit 6000, Requested 9000"),
    Rule::new("builtin.rate.throttled", RateLimited, CLEAR + 12, &[
        "throttling exception", "throttling error", "throttled", "throttling", "throttle limit",
        "too many tokens please wait", "too many tokens per day", "too many tokens for team",
        "too many requests please wait", "request limit exceeded", "requests limit exceeded",
        "provisioned throughput exceeded", "rate exceeded", "bandwidth limit exceeded", "request throttled",
        "slow down", "slowdown", "requests too frequent", "too frequently", "too frequent", "flood wait", "速率限制",
        "concurrency limit", "too many concurrent", "concurrent request", "max concurrent requests",
        "maximum number of concurrent", "calls per minute", "queries per minute", "requests per second",
        "limit_requests", "limit_burst_rate", "acceleration limit", "over the limit ~ per", "too many attempts",
        "too many login attempts", "service tier capacity exceeded",
    ])
    .note("Bedrock: ThrottlingException; OpenAI: slow_down; AWS, Azure, Telegram, Alibaba wordings of the same")
    .example("ThrottlingException: Too many tokens, please wait before trying again."),
    Rule::new("builtin.rate.limit", RateLimited, CLEAR + 10, &[
        "rate limit", "ratelimit", "rate limited", "rate limiting", "rate limits", "ratelimited", "rate limit error",
        "rate limit exceeded", "rate limit reached", "hit a rate limit", "too many requests", "tokens per min",
        "tokens per minute", "requests per min", "requests per minute", "requests per day", "tokens per day",
        "requests per hour", "api rate limit", "secondary rate limit", "exceeded token rate limit",
        "exceeded call rate limit", "input tokens per minute", "abuse detection mechanism", "api calls minute",
        "per minute request limit", "trial token rate limit", "rate limiter", "request rate", "exceeded the rate",
        "too many api requests", "too many calls", "rpm limit", "tpm limit", "qps limit",
    ])
    .note("OpenAI, Anthropic, Azure, Groq, Cohere: 429 rate_limit_*; GitHub: 403 with secondary rate limit")
    .example("Rate limit reached on requests per min: Limit 3, Used 3, Requested 1. Please try again in 20s."),
    Rule::new("builtin.rate.exhausted", RateLimited, LIKELY, &[
        "resource exhausted", "quota exceeded", "quota failure", "quota limit", "exceeded quota", "over quota",
        "limit exceeded exception", "exceeds quota",
    ])
    .unless(&["disk quota", "received message larger", "message larger than max", "resource quota", "storage quota"])
    .note("gRPC and Google: RESOURCE_EXHAUSTED")
    .example("grpc: RESOURCE_EXHAUSTED while calling Embed"),
    Rule::new("builtin.rate.retry_after", RateLimited, HINT, &[
        "retry after ~ seconds", "please retry after", "please slow", "try again in ~ seconds",
        "wait ~ seconds before",
    ])
    .note("Azure and others: a wait without a reason is a limit of rate more often than not")
    .example("Not now. Please retry after 12 seconds."),
    Rule::new("builtin.budget.exceeded", TokenBudgetExceeded, SURE + 1, &[
        "budget exceeded", "budget has been exceeded", "exceeded budget", "exceeded your budget", "exceeds budget",
        "exceeded the budget", "exceeds the budget", "over budget", "max budget", "exceeded max budget",
        "budget limit", "token budget", "cost budget", "budget exhausted", "budget reached", "out of budget",
        "maximum budget", "budget of", "cost limit", "cost cap", "max cost", "maximum cost", "cost exceeded",
        "tokens limit of", "token limit of ~ run", "input tokens limit", "output tokens limit", "total tokens limit",
        "response tokens limit", "request tokens limit", "error max budget usd", "max budget usd",
        "per run limit ~ tokens", "exceeded token budget", "remaining budget", "budget for this", "cost ceiling",
        "spent ~ of ~ budget", "exceeded ~ max tokens per run", "token limit for this run",
        "token limit for this session", "session token limit", "max total tokens", "budget cap", "token usage limit",
        "run token limit", "crossed budget", "reached its budget", "reached the budget", "budget was exceeded",
        "cost ~ exceeds ~ limit", "cost ~ exceeded ~ limit", "spend ~ exceeds ~ limit",
        "tokens ~ exceeds the configured", "exceeds the configured ~ budget", "spending cap ~ this run",
        "cap ~ for this run", "limit for this run", "limit ~ for this session", "spend ~ this run",
    ])
    .unless(&["thinking budget", "budget tokens"])
    .note("Pydantic AI: UsageLimitExceeded on tokens or cost; LiteLLM: BudgetExceededError; gateways of one's own")
    .example("BudgetExceededError: Budget has been exceeded! Current cost: 10.2, Max budget: 10.0"),
    Rule::new("builtin.budget.usage_limit", TokenBudgetExceeded, LIKELY + 8, &[
        "usage limit exceeded", "exceeded usage limit",
    ])
    .note("Pydantic AI: UsageLimitExceeded whose limit is not named")
    .example("UsageLimitExceeded: stop"),
    Rule::new("builtin.rate.llm_limit", RateLimited, HINT + 2, &[
        "limit reached", "limit exceeded", "reached the limit", "exceeded the limit", "exceeded limit",
    ])
    .at(&[Llm])
    .note("a limit without a name, from a model service")
    .example("The limit exceeded for this deployment"),
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
