//! User rules from `redrive.toml`. They run before the built-in rules, and the first match wins. The binary reads the
//! file; this module validates, compiles and applies the rules.

mod conditions;
mod glob;
#[cfg(test)]
mod tests;

use serde::Deserialize;
use serde_json::Value;

use crate::classify::{Classified, Evidence};
use crate::ids::RunId as RuleName;
use crate::pattern::Fingerprint;
use crate::reason::{Category, Reason};
use crate::wire::Severity;
use conditions::Test;

pub use conditions::{Comparison, FieldMatch, PayloadMatch, RunFacts, StatusMatch};

/// One `[[rule]]`. All conditions that are given must hold; one without any is refused.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UserRule {
    pub name: Option<String>,
    #[serde(rename = "match")]
    pub matches: UserMatch,
    pub reason: Option<Reason>,
    pub category: Option<Category>,
    pub severity: Option<Severity>,
    /// No retry, whatever the reason says.
    pub dead_letter: bool,
    /// Failures that this rule matches are one pattern of this name, whatever their texts.
    pub fingerprint: Option<String>,
    /// What an operator should know before acting; shown with the run.
    pub instructions: Option<String>,
    pub runbook: Option<String>,
}

/// What a failure must look like. A plain string must be equal; `{ glob = … }` and `{ regex = … }` are the others.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UserMatch {
    pub text: Option<FieldMatch>,
    pub detail: Option<FieldMatch>,
    pub error_type: Option<FieldMatch>,
    pub response_body: Option<FieldMatch>,
    pub provider: Option<FieldMatch>,
    pub context: Option<FieldMatch>,
    pub finish_reason: Option<FieldMatch>,
    pub status: Option<StatusMatch>,
    pub tenant: Option<FieldMatch>,
    pub queue: Option<FieldMatch>,
    pub agent: Option<FieldMatch>,
    pub model: Option<FieldMatch>,
    pub tool: Option<FieldMatch>,
    pub step: Option<FieldMatch>,
    pub environment: Option<FieldMatch>,
    pub task_type: Option<FieldMatch>,
    pub customer: Option<FieldMatch>,
    pub payload: Vec<PayloadMatch>,
}

const MOST_RULES: usize = 1_000;
/// A payload larger than this is not parsed for a rule.
const MOST_PAYLOAD_BYTES: usize = 1024 * 1024;

const MOST_NAME_BYTES: usize = 200;
const MOST_TEXT_BYTES: usize = 16 * 1024;

/// Which rule is wrong, and how.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("rule {}: {message}", index + 1)]
pub struct RuleError {
    /// From zero, in the order of the file.
    pub index: usize,
    pub message: String,
}

/// The rules of a configuration, in their order.
#[derive(Debug, Clone, Default)]
pub struct UserRules {
    rules: Vec<CompiledRule>,
    reads_payload: bool,
}

/// A rule that matched says what it sets.
#[derive(Debug, Clone)]
pub struct CompiledRule {
    /// `user.<name>`, or `user.<number>` for one without a name.
    pub name: String,
    pub reason: Option<Reason>,
    pub category: Option<Category>,
    pub severity: Option<Severity>,
    pub dead_letter: bool,
    pub fingerprint: Option<String>,
    pub instructions: Option<String>,
    pub runbook: Option<String>,
    tests: Vec<(ConditionSource, Test)>,
    status: Option<StatusMatch>,
    payload: Vec<PayloadMatch>,
}

/// Where a condition's value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConditionSource {
    Text,
    Detail,
    ErrorType,
    ResponseBody,
    Provider,
    Context,
    FinishReason,
    Tenant,
    Queue,
    Agent,
    Model,
    Tool,
    Step,
    Environment,
    TaskType,
    Customer,
}

impl ConditionSource {
    fn value<'a>(self, evidence: &Evidence<'a>, run: &RunFacts<'a>) -> Option<&'a str> {
        match self {
            Self::Text => Some(evidence.text),
            Self::Detail => evidence.detail,
            Self::ErrorType => evidence.error_type,
            Self::ResponseBody => evidence.response_body,
            Self::Provider => evidence.provider,
            Self::Context => evidence.context,
            Self::FinishReason => evidence.finish_reason,
            Self::Tenant => Some(run.tenant),
            Self::Queue => Some(run.queue),
            Self::Agent => run.agent,
            Self::Model => run.model,
            Self::Tool => run.tool.or(evidence.tool),
            Self::Step => run.step,
            Self::Environment => run.environment,
            Self::TaskType => run.task_type,
            Self::Customer => run.customer,
        }
    }
}

/// Checks every rule; the first that is wrong is named.
pub fn compile(rules: Vec<UserRule>) -> Result<UserRules, RuleError> {
    if rules.len() > MOST_RULES {
        return Err(RuleError { index: MOST_RULES, message: format!("more than {MOST_RULES} rules") });
    }
    let compiled = rules
        .into_iter()
        .enumerate()
        .map(|(index, rule)| CompiledRule::new(index, rule).map_err(|message| RuleError { index, message }));
    let rules = compiled.collect::<Result<Vec<_>, _>>()?;
    if let Some(index) = (1..rules.len()).find(|at| rules[..*at].iter().any(|rule| rule.name == rules[*at].name)) {
        let message = format!("there is another rule of the name `{}`", rules[index].name.trim_start_matches("user."));
        return Err(RuleError { index, message });
    }
    let reads_payload = rules.iter().any(|r| !r.payload.is_empty());
    Ok(UserRules { rules, reads_payload })
}

impl UserRules {
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rule that a verdict names, if it is still there.
    pub fn by_name(&self, name: &str) -> Option<&CompiledRule> {
        self.rules.iter().find(|rule| rule.name == name)
    }

    /// The first rule whose conditions all hold. The payload is parsed only if some rule looks into it.
    pub fn first_match(
        &self,
        evidence: &Evidence<'_>,
        run: &RunFacts<'_>,
        payload_json: Option<&str>,
    ) -> Option<&CompiledRule> {
        let payload: Option<Value> = payload_json
            .filter(|json| self.reads_payload && json.len() <= MOST_PAYLOAD_BYTES)
            .and_then(|json| serde_json::from_str(json).ok());
        self.rules.iter().find(|rule| rule.holds(evidence, run, payload.as_ref()))
    }
}

impl CompiledRule {
    fn new(index: usize, rule: UserRule) -> Result<Self, String> {
        let UserRule { name, matches, reason, category, severity, dead_letter, fingerprint, instructions, runbook } =
            rule;
        check_words(name.as_deref(), fingerprint.as_deref(), instructions.as_deref(), runbook.as_deref())?;
        let (status, payload) = (matches.status, matches.payload.clone());
        let tests = tests_of(matches)?;
        payload.iter().try_for_each(PayloadMatch::check)?;
        if let Some(StatusMatch::Range { from, to }) = status
            && from > to
        {
            return Err(format!("`status`: from {from} to {to} is empty"));
        }
        if tests.is_empty() && status.is_none() && payload.is_empty() {
            return Err("it has no condition and would match every failure".to_owned());
        }
        let name = format!("user.{}", name.unwrap_or_else(|| (index + 1).to_string()));
        Ok(Self {
            name,
            reason,
            category,
            severity,
            dead_letter,
            fingerprint,
            instructions,
            runbook,
            tests,
            status,
            payload,
        })
    }

    fn holds(&self, evidence: &Evidence<'_>, run: &RunFacts<'_>, payload: Option<&Value>) -> bool {
        self.status.is_none_or(|status| status.holds(evidence.http_status))
            && self.tests.iter().all(|(source, test)| test.holds(source.value(evidence, run)))
            && self.payload.iter().all(|condition| condition.holds(payload))
    }
}

/// Names appear in verdicts and lists: they must be short and not empty.
fn check_words(
    name: Option<&str>,
    fingerprint: Option<&str>,
    instructions: Option<&str>,
    runbook: Option<&str>,
) -> Result<(), String> {
    if name.is_some_and(|name| name.parse::<RuleName>().is_err()) {
        return Err("`name` is 1 to 200 characters of `A-Z a-z 0-9 . _ : @ -`".to_owned());
    }
    if fingerprint.is_some_and(|name| name.trim().is_empty() || name.len() > MOST_NAME_BYTES) {
        return Err(format!("`fingerprint` is a name of at most {MOST_NAME_BYTES} bytes"));
    }
    for (key, text) in [("instructions", instructions), ("runbook", runbook)] {
        if text.is_some_and(|text| text.len() > MOST_TEXT_BYTES) {
            return Err(format!("`{key}`: longer than {MOST_TEXT_BYTES} bytes"));
        }
    }
    Ok(())
}

fn tests_of(matches: UserMatch) -> Result<Vec<(ConditionSource, Test)>, String> {
    let fields: [(&str, ConditionSource, Option<FieldMatch>); 16] = [
        ("text", ConditionSource::Text, matches.text),
        ("detail", ConditionSource::Detail, matches.detail),
        ("error_type", ConditionSource::ErrorType, matches.error_type),
        ("response_body", ConditionSource::ResponseBody, matches.response_body),
        ("provider", ConditionSource::Provider, matches.provider),
        ("context", ConditionSource::Context, matches.context),
        ("finish_reason", ConditionSource::FinishReason, matches.finish_reason),
        ("tenant", ConditionSource::Tenant, matches.tenant),
        ("queue", ConditionSource::Queue, matches.queue),
        ("agent", ConditionSource::Agent, matches.agent),
        ("model", ConditionSource::Model, matches.model),
        ("tool", ConditionSource::Tool, matches.tool),
        ("step", ConditionSource::Step, matches.step),
        ("environment", ConditionSource::Environment, matches.environment),
        ("task_type", ConditionSource::TaskType, matches.task_type),
        ("customer", ConditionSource::Customer, matches.customer),
    ];
    let given = fields.into_iter().filter_map(|(name, source, condition)| Some((name, source, condition?)));
    given.map(|(name, source, condition)| Ok((source, Test::new(name, condition)?))).collect()
}

impl CompiledRule {
    /// Applies the rule over the classification by the caller or the built-in rules. Limits and waits always come from
    /// the evidence.
    pub fn decide(&self, otherwise: Classified) -> Classified {
        let named = self.reason.as_ref().map(crate::reason::Reason::category);
        Classified {
            reason: self.reason.clone().unwrap_or(otherwise.reason),
            category: self.category.or(named).unwrap_or(otherwise.category),
            rule: self.name.clone().into(),
            facts: otherwise.facts,
        }
    }

    /// The group that the rule names.
    pub fn group(&self) -> Option<Fingerprint> {
        self.fingerprint.as_deref().map(Fingerprint::named)
    }
}
