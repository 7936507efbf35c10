//! Who takes part: seven agents of one company's fleet, and the tenants that they work for.

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
pub(crate) struct Client {
    pub(crate) tenant: &'static str,
    pub(crate) weight: u32,
}

pub(crate) const TENANTS: [Client; 5] = [
    Client { tenant: "acme", weight: 40 },
    Client { tenant: "globex", weight: 25 },
    Client { tenant: "northwind", weight: 15 },
    Client { tenant: "initech", weight: 12 },
    Client { tenant: "umbrella", weight: 8 },
];

/// Who looks after a queue, and what is written down for a bad day.
pub(crate) const OWNERS: [(&str, &str, &str); 7] = [
    ("invoices", "finance-automation", "Invoices read and booked for customers."),
    ("support", "support-tools", "Answers drafted for tickets."),
    ("contracts", "legal-ops", "Contracts compared with the house's clauses."),
    ("research", "growth", "Leads looked up and scored."),
    ("refunds", "payments", "Refunds paid out: an effect in doubt is checked with the bank first."),
    ("reports", "data-platform", "Weekly figures written up."),
    ("outreach", "growth", "Mails drafted for a person to send."),
];
