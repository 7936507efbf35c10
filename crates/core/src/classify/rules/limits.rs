//! Too much, too fast, or nothing left: rate limits, quotas, and budgets of our own.

use crate::classify::place::Place::Llm;
use crate::classify::rule::{CLEAR, HINT, LIKELY, Rule, SURE};
use crate::reason::Category::Conditional;
use crate::reason::Reason::{QuotaExhausted, RateLimited, TokenBudgetExceeded};

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
];
