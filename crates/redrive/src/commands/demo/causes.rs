//! The demo's data: agents, tenants, queue owners, and failures in the wording of real providers and frameworks. A test
//! checks each one with the real classifier.

use redrive_core::reason::Category;

/// What a failed attempt looks like.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// An error is reported.
    Error,
    /// The worker is gone: nothing is reported, the lease runs out.
    Silence,
    /// An error, with an effect whose outcome is unknown.
    EffectInDoubt(&'static str),
}

/// One root cause. In its message `{n}` stands for a number and `{id}` for an id, new each time.
#[derive(Debug)]
pub(crate) struct Cause {
    pub(crate) category: Category,
    /// Its share within its category.
    pub(crate) weight: u32,
    /// Whether a retry can succeed; otherwise it ends as a dead letter.
    pub(crate) can_recover: bool,
    /// Agents that it happens to.
    pub(crate) agents: &'static [&'static str],
    pub(crate) error_type: Option<&'static str>,
    pub(crate) http_status: Option<u16>,
    pub(crate) tool: Option<&'static str>,
    pub(crate) message: &'static str,
    pub(crate) shape: Shape,
}

const PLAIN: Cause = Cause {
    category: Category::Transient,
    weight: 1,
    can_recover: true,
    agents: &[],
    error_type: None,
    http_status: None,
    tool: None,
    message: "",
    shape: Shape::Error,
};
const TRANSIENT: Cause = PLAIN;
const CONDITIONAL: Cause = Cause { category: Category::Conditional, ..PLAIN };
const PERMANENT: Cause = Cause { category: Category::Permanent, can_recover: false, ..PLAIN };

pub(crate) const CAUSES: [Cause; 21] = [
    Cause {
        weight: 24,
        agents: &[BILLER, REFUNDS, WRITER],
        error_type: Some("RateLimitError"),
        http_status: Some(429),
        message: "Error code: 429 - {'error': {'message': 'Rate limit reached for gpt-5 in organization org-{id} on tokens per min (TPM): Limit 450000, Used 4{n}, Requested 1{n}. Please try again in 4.2s. Visit https://platform.openai.com/account/rate-limits to learn more.', 'type': 'tokens', 'param': None, 'code': 'rate_limit_exceeded'}}",
        ..TRANSIENT
    },
    Cause {
        weight: 20,
        agents: &[SUPPORT, LAWYER],
        error_type: Some("OverloadedError"),
        http_status: Some(529),
        message: "Error code: 529 - {'type': 'error', 'error': {'type': 'overloaded_error', 'message': 'Overloaded'}, 'request_id': 'req_{id}'}",
        ..TRANSIENT
    },
    Cause {
        weight: 12,
        agents: &[SCOUT],
        error_type: Some("ServerError"),
        http_status: Some(503),
        message: "503 UNAVAILABLE. {'error': {'code': 503, 'message': 'The model is overloaded. Please try again later.', 'status': 'UNAVAILABLE'}}",
        ..TRANSIENT
    },
    Cause {
        weight: 10,
        agents: &[ANALYST],
        error_type: Some("ThrottlingException"),
        http_status: Some(429),
        message: "An error occurred (ThrottlingException) when calling the InvokeModel operation (reached max retries: 4): Too many requests, please wait before trying again.",
        ..TRANSIENT
    },
    Cause {
        weight: 14,
        agents: &[BILLER, REFUNDS, WRITER],
        error_type: Some("APITimeoutError"),
        message: "Request timed out.",
        ..TRANSIENT
    },
    Cause {
        weight: 8,
        agents: &[REFUNDS, BILLER],
        error_type: Some("ConnectionError"),
        tool: Some("orders.lookup"),
        message: "HTTPSConnectionPool(host='orders.internal', port=443): Max retries exceeded with url: /v2/orders/{n} (Caused by NewConnectionError('Failed to establish a new connection: [Errno 111] Connection refused'))",
        ..TRANSIENT
    },
    Cause {
        weight: 7,
        agents: &[SUPPORT, LAWYER, SCOUT],
        error_type: Some("httpx.RemoteProtocolError"),
        message: "peer closed connection without sending complete message body (incomplete chunked read)",
        ..TRANSIENT
    },
    Cause { weight: 6, agents: &[SCOUT, ANALYST, LAWYER], shape: Shape::Silence, ..TRANSIENT },
    Cause {
        weight: 20,
        can_recover: false,
        agents: &[REFUNDS],
        error_type: Some("APIConnectionError"),
        tool: Some("stripe.refund"),
        message: "Request timed out: no answer from api.stripe.com within 80s while creating refund for charge ch_{id}",
        shape: Shape::EffectInDoubt("stripe.refund"),
        ..TRANSIENT
    },
    Cause {
        weight: 30,
        agents: &[BILLER, WRITER],
        error_type: Some("BadRequestError"),
        http_status: Some(400),
        message: "Error code: 400 - {'error': {'message': \"This model's maximum context length is 128000 tokens. However, your messages resulted in 13{n} tokens. Please reduce the length of the messages.\", 'type': 'invalid_request_error', 'param': 'messages', 'code': 'context_length_exceeded'}}",
        ..CONDITIONAL
    },
    Cause {
        weight: 22,
        agents: &[BILLER],
        error_type: Some("pydantic_core.ValidationError"),
        message: "1 validation error for Invoice\ntotal_amount\n  Input should be a valid decimal [type=decimal_parsing, input_value='n/a', input_type=str]",
        ..CONDITIONAL
    },
    Cause {
        weight: 16,
        agents: &[SUPPORT, LAWYER],
        error_type: Some("OutputParserException"),
        message: "Could not parse LLM output: `I have compared the clauses and here is what I found` For troubleshooting, visit: https://python.langchain.com/docs/troubleshooting/errors/OUTPUT_PARSING_FAILURE",
        ..CONDITIONAL
    },
    Cause {
        weight: 12,
        agents: &[SCOUT, ANALYST],
        error_type: Some("GraphRecursionError"),
        message: "Recursion limit of 25 reached without hitting a stop condition. You can increase the limit by setting the `recursion_limit` config key.",
        ..CONDITIONAL
    },
    Cause {
        weight: 10,
        agents: &[ANALYST],
        error_type: Some("ToolException"),
        tool: Some("run_sql"),
        message: "Tool run_sql failed with exit code 3: syntax error at or near \"FORM\" (LINE 1: SELECT region, sum(amount) FORM orders)",
        ..CONDITIONAL
    },
    Cause {
        weight: 14,
        can_recover: false,
        agents: &[SUPPORT, WRITER],
        error_type: Some("BadRequestError"),
        http_status: Some(400),
        message: "The response was filtered due to the prompt triggering Azure OpenAI's content management policy. Please modify your prompt and retry.",
        ..CONDITIONAL
    },
    Cause {
        weight: 12,
        can_recover: false,
        agents: &[SUPPORT, LAWYER],
        error_type: Some("BadRequestError"),
        http_status: Some(400),
        message: "Error code: 400 - {'type': 'error', 'error': {'type': 'invalid_request_error', 'message': 'Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits.'}, 'request_id': 'req_{id}'}",
        ..CONDITIONAL
    },
    Cause {
        weight: 26,
        agents: &[BILLER, WRITER],
        error_type: Some("AuthenticationError"),
        http_status: Some(401),
        message: "Error code: 401 - {'error': {'message': 'Incorrect API key provided. You can find your API key at https://platform.openai.com/account/api-keys.', 'type': 'invalid_request_error', 'param': None, 'code': 'invalid_api_key'}}",
        ..PERMANENT
    },
    Cause {
        weight: 14,
        agents: &[ANALYST],
        error_type: Some("AccessDeniedException"),
        http_status: Some(403),
        message: "An error occurred (AccessDeniedException) when calling the InvokeModel operation: You don't have access to the model with the specified model ID.",
        ..PERMANENT
    },
    Cause {
        weight: 18,
        agents: &[SCOUT, SUPPORT],
        error_type: Some("requests.exceptions.HTTPError"),
        http_status: Some(404),
        tool: Some("crm.account"),
        message: "404 Client Error: Not Found for url: https://crm.example.com/v2/accounts/{n}",
        ..PERMANENT
    },
    Cause {
        weight: 22,
        agents: &[REFUNDS],
        error_type: Some("KeyError"),
        message: "Traceback (most recent call last):\n  File \"/app/agents/refund.py\", line 183, in load_order\n    return order['payments'][payment_id]\nKeyError: 'payments'",
        ..PERMANENT
    },
    Cause {
        weight: 12,
        agents: &[WRITER],
        error_type: Some("BadRequestError"),
        http_status: Some(400),
        message: "Error code: 400 - {'error': {'message': \"Invalid schema for function 'queue_mail': In context=('properties', 'recipients'), array schema missing items.\", 'type': 'invalid_request_error', 'param': 'tools[2].function.parameters', 'code': 'invalid_function_parameters'}}",
        ..PERMANENT
    },
];

/// An agent, and where its work comes from.
#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) name: &'static str,
    pub(crate) queue: &'static str,
    pub(crate) task_type: &'static str,
    pub(crate) provider: &'static str,
    pub(crate) model: &'static str,
    pub(crate) steps: &'static [&'static str],
}

pub(crate) const BILLER: &str = "invoice-extractor";
pub(crate) const SUPPORT: &str = "support-triage";
pub(crate) const LAWYER: &str = "contract-reviewer";
pub(crate) const SCOUT: &str = "lead-researcher";
pub(crate) const REFUNDS: &str = "refund-agent";
pub(crate) const ANALYST: &str = "data-analyst";
pub(crate) const WRITER: &str = "mail-drafter";

pub(crate) const AGENTS: [Agent; 7] = [
    Agent {
        name: BILLER,
        queue: "invoices",
        task_type: "invoice",
        provider: "openai",
        model: "gpt-5",
        steps: &["load_document", "extract_fields", "book_invoice"],
    },
    Agent {
        name: SUPPORT,
        queue: "support",
        task_type: "ticket",
        provider: "anthropic",
        model: "claude-sonnet-4-5",
        steps: &["read_ticket", "search_answers", "draft_reply"],
    },
    Agent {
        name: LAWYER,
        queue: "contracts",
        task_type: "contract_review",
        provider: "anthropic",
        model: "claude-opus-4-5",
        steps: &["load_contract", "compare_clauses", "write_summary"],
    },
    Agent {
        name: SCOUT,
        queue: "research",
        task_type: "lead",
        provider: "gemini",
        model: "gemini-3-pro",
        steps: &["search_web", "read_pages", "score_lead"],
    },
    Agent {
        name: REFUNDS,
        queue: "refunds",
        task_type: "refund",
        provider: "openai",
        model: "gpt-5-mini",
        steps: &["load_order", "check_policy", "stripe.refund"],
    },
    Agent {
        name: ANALYST,
        queue: "reports",
        task_type: "weekly_report",
        provider: "bedrock",
        model: "anthropic.claude-sonnet-4-5",
        steps: &["plan_queries", "run_sql", "write_report"],
    },
    Agent {
        name: WRITER,
        queue: "outreach",
        task_type: "mail",
        provider: "openai",
        model: "gpt-5-mini",
        steps: &["load_profile", "draft_mail", "queue_mail"],
    },
];

/// A tenant, how much of the work is its, and who its customers are.
#[derive(Debug)]
pub(crate) struct DemoTenant {
    pub(crate) tenant: &'static str,
    pub(crate) weight: u32,
}

pub(crate) const TENANTS: [DemoTenant; 5] = [
    DemoTenant { tenant: "acme", weight: 40 },
    DemoTenant { tenant: "globex", weight: 25 },
    DemoTenant { tenant: "northwind", weight: 15 },
    DemoTenant { tenant: "initech", weight: 12 },
    DemoTenant { tenant: "umbrella", weight: 8 },
];

/// Queue, owner and description.
pub(crate) const OWNERS: [(&str, &str, &str); 7] = [
    ("invoices", "finance-automation", "Invoices read and booked for customers."),
    ("support", "support-tools", "Answers drafted for tickets."),
    ("contracts", "legal-ops", "Contracts compared with the house's clauses."),
    ("research", "growth", "Leads looked up and scored."),
    ("refunds", "payments", "Refunds paid out: an effect in doubt is checked with the bank first."),
    ("reports", "data-platform", "Weekly figures written up."),
    ("outreach", "growth", "Mails drafted for a person to send."),
];

#[cfg(test)]
mod tests {
    use redrive_core::classify::{Evidence, classify};
    use redrive_core::strategy::strategy;

    use super::*;

    #[test]
    fn every_demo_cause_is_classified_as_intended() {
        for cause in CAUSES.iter().filter(|cause| cause.shape != Shape::Silence) {
            let text = cause.message.replace("{n}", "4711").replace("{id}", "a1b2c3d4e5f6");
            let evidence = Evidence {
                error_type: cause.error_type,
                http_status: cause.http_status,
                tool: cause.tool,
                ..Evidence::of(&text)
            };
            let found = classify(&evidence);
            assert_eq!(found.category, cause.category, "{} is {}: {text}", found.rule, found.reason);
            let retried = strategy(&found.reason, found.category).tries != redrive_core::strategy::Tries::AtMost(0);
            assert!(retried || !cause.can_recover, "{} can't recover: {text}", found.reason);
        }
    }

    #[test]
    fn every_category_has_causes_and_causes_name_existing_agents() {
        for category in Category::ALL {
            assert!(CAUSES.iter().any(|cause| cause.category == category));
        }
        let known = |name: &&str| AGENTS.iter().any(|agent| agent.name == *name);
        assert!(CAUSES.iter().all(|cause| !cause.agents.is_empty() && cause.agents.iter().all(&known)));
    }
}
