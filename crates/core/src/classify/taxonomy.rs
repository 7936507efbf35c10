//! The reasons for people: what each means, what it looks like, what an operator does. The docs page is made from this.

use std::fmt::Write;

use super::rules::rules;
use crate::reason::{Category, Reason};
use crate::strategy::{Delay, Strategy, Tries, strategy};
use crate::time::SECOND_MS;

/// One reason of the taxonomy.
#[derive(Debug, Clone)]
pub struct TaxonomyEntry {
    pub reason: Reason,
    /// The category it has unless the evidence says otherwise.
    pub category: Category,
    pub meaning: &'static str,
    pub example: &'static str,
    /// What an operator does.
    pub action: &'static str,
}

/// Every built-in reason, in the order of [`Reason::BUILT_IN`].
pub fn taxonomy() -> Vec<TaxonomyEntry> {
    let entry = |reason: &Reason| {
        let (meaning, example, action) = describe(reason);
        TaxonomyEntry { reason: reason.clone(), category: reason.category(), meaning, example, action }
    };
    Reason::BUILT_IN.iter().map(entry).collect()
}

/// The taxonomy as a page of the docs, with the rules that lead to each reason.
pub fn taxonomy_markdown() -> String {
    let mut page =
        String::from("# Why runs fail\n\n| reason | category | meaning | what an operator does |\n|---|---|---|---|\n");
    let entries = taxonomy();
    for TaxonomyEntry { reason, category, meaning, action, .. } in &entries {
        let _ = writeln!(page, "| [`{reason}`](#{reason}) | {category} | {meaning} | {action} |");
    }
    for TaxonomyEntry { reason, category, example, .. } in &entries {
        let default = in_words(&strategy(reason, *category));
        let _ = writeln!(page, "\n## {reason}\n\nFor example: `{example}`\n\nBy default: {default}.");
        let mut rules = rules().iter().filter(|r| r.reason == *reason).peekable();
        if rules.peek().is_some() {
            let _ = writeln!(page, "\n| rule | category | source |\n|---|---|---|");
        }
        for rule in rules {
            let _ = writeln!(page, "| `{}` | {} | {} |", rule.name, rule.category_or_default(), rule.note);
        }
    }
    page
}

/// What is done by default, as a sentence without its full stop.
fn in_words(strategy: &Strategy) -> String {
    let delay = match strategy.delay {
        Delay::Backoff => {
            "retried after 30 s · 2ⁿ up to 5 min with jitter, or after the wait that the error names".to_owned()
        }
        Delay::FixedMs(ms) => format!("retried after {} s", ms / SECOND_MS),
        Delay::AtReset => "retried at the reset time that the error names; without one a dead letter".to_owned(),
        Delay::Never => return format!("a dead letter at once, advice `{}`", strategy.recommended),
    };
    let tries = match strategy.tries {
        Tries::ToTheBudget => "as often as the budget allows".to_owned(),
        Tries::AtMost(1) => "once".to_owned(),
        Tries::AtMost(most) => format!("at most {most} times"),
    };
    let changed = if strategy.changes.is_empty() { "unchanged" } else { "with what the verdict's `changes` say" };
    let elsewhere: Vec<String> = strategy.target.iter().map(|to| to.as_str().replace('_', " ")).collect();
    let elsewhere = if elsewhere.is_empty() {
        String::new()
    } else {
        format!(", to the {} where the queue names one", elsewhere.join(" and the "))
    };
    format!("{delay}, {tries}, {changed}{elsewhere}; advice `{}`", strategy.recommended)
}

/// Meaning, example, action.
fn describe(reason: &Reason) -> (&'static str, &'static str, &'static str) {
    match reason {
        Reason::Timeout => (
            "A time limit ran out: request, connect, task, lease, acknowledgement.",
            "httpx.ReadTimeout: The read operation timed out",
            "Nothing at first: it is retried. If it repeats, raise the limit or make the step smaller.",
        ),
        Reason::RateLimited => (
            "Too many requests or tokens in a span of time; it passes by itself.",
            "Rate limit reached for requests per min. Please try again in 20s.",
            "Nothing at first: it is retried after the wait. If it repeats, lower concurrency or ask for a higher limit.",
        ),
        Reason::QuotaExhausted => (
            "Credit, balance, plan or spending limit of the provider's account is used up.",
            "You exceeded your current quota, please check your plan and billing details.",
            "Add credit or raise the limit, then replay.",
        ),
        Reason::ProviderOverloaded => (
            "The model service has no capacity now.",
            "overloaded_error: Overloaded",
            "Nothing at first: it is retried. If it lasts, send the work to another model.",
        ),
        Reason::ProviderError => (
            "The model service failed on its side.",
            "The server had an error while processing your request.",
            "Nothing at first: it is retried. If it lasts, look at the provider's status page.",
        ),
        Reason::Network => (
            "The transport failed: DNS, TLS, reset, unreachable. A certificate that does not verify is permanent.",
            "read ECONNRESET",
            "Nothing at first: it is retried. A certificate has to be put right before a replay.",
        ),
        Reason::ContextOverflow => (
            "The input is more than the model takes.",
            "prompt is too long: 213462 tokens > 200000 maximum",
            "Shorten the input or take a model with a larger window, then replay.",
        ),
        Reason::TokenBudgetExceeded => (
            "A limit on tokens or cost that we set ourselves was passed.",
            "Exceeded the total_tokens_limit of 50000",
            "Decide whether the run is worth more, raise the budget or simplify the task, then replay.",
        ),
        Reason::OutputTruncated => (
            "The output was cut at its token limit.",
            "Could not parse response content as the length limit was reached",
            "Raise the output limit or ask for less, then replay.",
        ),
        Reason::MalformedOutput => (
            "The answer of a model or tool can't be parsed.",
            "Could not parse LLM output: `I think the answer is`",
            "Look at the answer; sharpen the prompt or take another model, then replay.",
        ),
        Reason::SchemaMismatch => (
            "The answer or the arguments can be parsed and have the wrong shape.",
            "2 validation errors for Invoice: total Input should be a valid number",
            "Look at the fields named; sharpen the prompt or loosen the schema, then replay.",
        ),
        Reason::ContentFiltered => (
            "A safety or copyright filter stopped the prompt or the answer.",
            "Output blocked by content filtering policy",
            "Read the prompt; rephrase it or take the run out.",
        ),
        Reason::HallucinationLoop => (
            "The same step again and again.",
            "Loop detected: search was called five times with the same arguments",
            "Look at the last steps; give an instruction or another agent, then replay.",
        ),
        Reason::MaxIterations => (
            "A limit on steps, turns, recursion or failures in a row was reached.",
            "Max turns (10) exceeded",
            "Look at how far it came; raise the limit or split the task, then replay.",
        ),
        Reason::ToolError => (
            "The tool ran and failed in its own way.",
            "Command failed with exit code 2",
            "Read the tool's output; fix its input or the tool, then replay.",
        ),
        Reason::ToolNotFound => (
            "The tool, command or tool server does not exist or can't be started.",
            "bash: kubectl: command not found",
            "Install or register the tool, or correct its name in the prompt, then replay.",
        ),
        Reason::AuthFailed => (
            "Not authenticated: wrong, missing or revoked key. An expired token that can be refreshed is conditional.",
            "Incorrect API key provided",
            "Put the credential right, then replay all of the pattern.",
        ),
        Reason::PermissionDenied => (
            "Authenticated but not allowed, or a person or policy said no.",
            "open /etc/shadow: permission denied",
            "Grant the permission if it is due; otherwise take the run out.",
        ),
        Reason::InvalidRequest => (
            "The request itself is wrong.",
            "Unsupported parameter: 'max_tokens'",
            "Fix the code or the payload, then replay.",
        ),
        Reason::NotFound => (
            "The thing addressed does not exist: model, file, table, session.",
            "The model `gpt-99` does not exist",
            "Correct the name or bring the thing back, then replay.",
        ),
        Reason::ConflictDuplicate => (
            "Already there, already done, or held by another. Locks and leases are transient.",
            "duplicate key value violates unique constraint \"orders_pkey\"",
            "See whether the work is done already; if so, resolve the run.",
        ),
        Reason::ResourceExhausted => (
            "Our side ran out of memory, disk, GPU or connections. Evictions and full pools are transient.",
            "No space left on device",
            "Give it more, or less to do, then replay.",
        ),
        Reason::DependencyUnavailable => (
            "A service we need refuses, is down, starting or full.",
            "connect: connection refused",
            "Nothing at first: it is retried. If it lasts, look after the service.",
        ),
        Reason::ApprovalExpired => (
            "A person's decision did not come in time.",
            "Approval request timed out after 15 minutes",
            "Ask again, or decide yourself.",
        ),
        Reason::Cancelled => (
            "Someone or something called it off.",
            "asyncio.exceptions.CancelledError",
            "Nothing, unless it was by mistake: then replay.",
        ),
        Reason::DataIntegrity => (
            "Stored or referenced data is broken or inconsistent.",
            "violates foreign key constraint \"orders_customer_fkey\"",
            "Repair the data, then replay.",
        ),
        Reason::Bug => {
            ("A defect in code.", "KeyError: 'temperature'", "Fix and deploy, then replay all of the pattern.")
        }
        Reason::Unknown => (
            "The text does not tell.",
            "something went wrong",
            "Look at the run; write a rule for it if it comes back.",
        ),
        Reason::Silent => (
            "The worker stopped reporting and its lease ran out.",
            "no heartbeat within the lease",
            "Nothing at first: it is retried. Three in a row mean that the run kills its workers.",
        ),
        Reason::Unclaimed => (
            "The run was due and no worker took it.",
            "nobody leased the run within 24 h of its due time",
            "See that a worker leases the queue, then replay.",
        ),
        Reason::EmptyOutput => (
            "The run reported success and gave nothing.",
            "an empty final answer with no tool calls",
            "Look at the prompt and the output limit, then replay.",
        ),
        Reason::NoEffect => (
            "The run reported success without the effect it declares.",
            "\"refund sent\" with no refund in the ledger",
            "See whether the effect happened elsewhere; otherwise replay.",
        ),
        Reason::Custom(_) => ("A reason of the caller's own.", "x:card_declined", "What the queue's runbook says."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_taxonomy_page_covers_every_reason_and_rule() {
        let page = taxonomy_markdown();
        for reason in Reason::BUILT_IN {
            assert!(page.contains(&format!("\n## {reason}\n")), "{reason}");
        }
        for rule in rules() {
            assert!(page.contains(rule.name), "{}", rule.name);
        }
    }
}
