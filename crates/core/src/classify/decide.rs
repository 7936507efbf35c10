//! From matched phrases to one classification: the strongest rule, else the HTTP status, else the place.

use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;

use super::evidence::{Evidence, FailurePlace};
use super::facts::{self, Facts};
use super::matcher::{MATCHER, PhraseId, PhraseMatch, PhraseSet};
use super::normalize::{EvidenceField, NormalizedText};
use super::rules::{BY_PLACE, Rule, rules};
use super::status;
use crate::reason::{Category, Reason};

/// Words that indicate a model call when the caller does not say where it happened.
pub(super) const LLM_WORDS: &[&str] = &[
    "openai",
    "anthropic",
    "claude",
    "gemini",
    "litellm",
    "bedrock",
    "completions",
    "gpt",
    "llm",
    "mistral",
    "groq",
    "openrouter",
    "deepseek",
    "generative language",
    "api inference",
    "ollama",
    "vllm",
    "cohere",
    "together ai",
    "invoke model",
    "generate content",
    "chat completion",
    "vertex ai",
    "the model",
    "language model",
    "prompt",
];

/// The classification of a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classified {
    pub reason: Reason,
    pub category: Category,
    /// The rule that decided, such as `builtin.timeout`.
    pub rule: Cow<'static, str>,
    pub facts: Facts,
}

/// Classifies a failure. Pure: the same evidence has the same answer on every replica.
pub fn classify(evidence: &Evidence<'_>) -> Classified {
    let text = NormalizedText::of(evidence);
    let matches = MATCHER.find(&text);
    let context = RuleContext::of(evidence, &matches);
    conclude(evidence, &context, strongest(&context, &text, &matches))
}

/// What a rule's conditions are checked against.
#[derive(Debug)]
struct RuleContext {
    place: Option<FailurePlace>,
    status: Option<u16>,
    present: PhraseSet,
}

impl RuleContext {
    fn of(evidence: &Evidence<'_>, matches: &[PhraseMatch]) -> Self {
        let mut present = PhraseSet::EMPTY;
        for found in matches {
            present.insert(found.phrase);
        }
        let mut context = Self { place: FailurePlace::of(evidence), status: evidence.http_status, present };
        if context.place.is_none() && INDEX.llm_words.iter().any(|p| context.present.contains(*p)) {
            context.place = Some(FailurePlace::Llm);
        }
        if context.status.is_none() {
            context.status = status::in_text(evidence.text);
        }
        context
    }

    /// The weight of a rule here, if its conditions hold.
    fn weight(&self, rule: &IndexedRule) -> Option<i16> {
        let r = rule.rule;
        let holds = (r.statuses.is_empty() || self.status.is_some_and(|s| r.statuses.contains(&s)))
            && (rule.with.is_empty() || rule.with.iter().any(|p| self.present.contains(*p)))
            && !rule.unless.iter().any(|p| self.present.contains(*p));
        holds.then(|| Some(i16::from(r.rank) + self.place_adjustment(r.places)?)).flatten()
    }

    /// What the place adds to a rule's weight, if the rule applies there. Where the place is unknown, rules for models,
    /// tools and frameworks still apply, with less weight.
    fn place_adjustment(&self, places: &[FailurePlace]) -> Option<i16> {
        const PLACE_UNKNOWN: i16 = -12;
        match self.place {
            _ if places.is_empty() => Some(0),
            Some(place) => places.contains(&place).then_some(0),
            None => places
                .iter()
                .any(|p| matches!(p, FailurePlace::Llm | FailurePlace::Tool | FailurePlace::Framework))
                .then_some(PLACE_UNKNOWN),
        }
    }
}

/// A rule with its phrases as numbers.
struct IndexedRule {
    rule: &'static Rule,
    with: Vec<PhraseId>,
    unless: Vec<PhraseId>,
}

struct Index {
    rules: Vec<IndexedRule>,
    /// For each phrase, the rules it supports.
    rules_by_phrase: Vec<Vec<u16>>,
    llm_words: Vec<PhraseId>,
}

static INDEX: LazyLock<Index> = LazyLock::new(|| {
    let ids = |phrases: &'static [&'static str]| phrases.iter().filter_map(|p| MATCHER.id(p)).collect::<Vec<_>>();
    let mut rules_by_phrase = vec![Vec::new(); MATCHER.phrase_count()];
    let mut indexed = Vec::new();
    for (number, rule) in (0_u16..).zip(rules()) {
        for phrase in ids(rule.any) {
            rules_by_phrase[usize::from(phrase)].push(number);
        }
        indexed.push(IndexedRule { rule, with: ids(rule.with), unless: ids(rule.unless) });
    }
    Index { rules: indexed, rules_by_phrase, llm_words: ids(LLM_WORDS) }
});

/// A rule that matched, and where.
#[derive(Debug, Clone, Copy)]
struct RuleHit {
    rule: &'static Rule,
    field: EvidenceField,
    weight: i16,
    found: PhraseMatch,
}

/// Every rule that holds, in no particular order.
fn candidates<'a>(
    context: &'a RuleContext,
    text: &'a NormalizedText,
    matches: &'a [PhraseMatch],
) -> impl Iterator<Item = RuleHit> + 'a {
    matches.iter().flat_map(move |f| {
        let numbers = INDEX.rules_by_phrase[usize::from(f.phrase)].iter();
        numbers.map(|n| &INDEX.rules[usize::from(*n)]).filter_map(move |r| {
            let weight = context.weight(r)?;
            let span = text.span_at(f.start)?;
            Some(RuleHit { rule: r.rule, field: span.field, weight: weight + span.adjust, found: *f })
        })
    })
}

/// The heaviest rule; among equals the one with the longer phrase, then the one that comes first in the text.
fn strongest(context: &RuleContext, text: &NormalizedText, matches: &[PhraseMatch]) -> Option<RuleHit> {
    candidates(context, text, matches).filter(|c| c.weight > 0).max_by_key(|c| {
        let length = c.found.end - c.found.start;
        (c.weight, length, std::cmp::Reverse(c.found.start))
    })
}

/// The text outranks the status, the status outranks the place.
fn conclude(evidence: &Evidence<'_>, context: &RuleContext, strongest: Option<RuleHit>) -> Classified {
    let by_status = context.status.and_then(|s| status::meaning(s, context.place));
    let text_weight = strongest.map_or(0, |c| c.weight);
    let (reason, category, rule) = match (strongest, by_status) {
        (_, Some((reason, rank, rule))) if i16::from(rank) > text_weight => {
            let category = reason.category();
            (reason, category, rule)
        }
        (Some(c), _) => (c.rule.reason.clone(), c.rule.category_or_default(), c.rule.name),
        (None, _) => {
            let (reason, rule) = by_place(context.place);
            let category = reason.category();
            (reason, category, rule)
        }
    };
    let facts = facts::extract(evidence, &reason);
    let category = facts::adjust_category(&reason, category, &facts);
    Classified { reason, category, rule: Cow::Borrowed(rule), facts }
}

/// Only the place is known. Most places say nothing, and `unknown` is better than a guess.
fn by_place(place: Option<FailurePlace>) -> (Reason, &'static str) {
    const _: () = assert!(BY_PLACE > 0);
    match place {
        Some(FailurePlace::Tool) => (Reason::ToolError, "builtin.place.tool"),
        Some(FailurePlace::Validation) => (Reason::SchemaMismatch, "builtin.place.validation"),
        Some(FailurePlace::Network) => (Reason::Network, "builtin.place.network"),
        Some(
            FailurePlace::Llm
            | FailurePlace::Broker
            | FailurePlace::Database
            | FailurePlace::Framework
            | FailurePlace::Infrastructure
            | FailurePlace::Human,
        )
        | None => (Reason::Unknown, "builtin.unknown"),
    }
}

/// A rule that matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatchedRule {
    pub rule: &'static str,
    pub reason: String,
    /// The field it was found in.
    pub field: &'static str,
    /// The matched letters, without separators.
    pub matched: String,
    pub weight: i16,
}

/// The answer and how it came about.
#[derive(Debug, Clone)]
pub struct Explanation {
    pub classified: Classified,
    /// Every rule that matched, heaviest first.
    pub findings: Vec<MatchedRule>,
    pub place: Option<FailurePlace>,
    /// The status that was given or read from the text.
    pub status: Option<u16>,
    /// Lines left out as stack frames.
    pub frames_skipped: usize,
    /// Whether parts of the text weigh differently because they wrap or surround others.
    pub unwrapped: bool,
}

/// Classifies a failure and says why: `redrive classify --explain`.
pub fn explain(evidence: &Evidence<'_>) -> Explanation {
    let text = NormalizedText::of(evidence);
    let matches = MATCHER.find(&text);
    let context = RuleContext::of(evidence, &matches);
    let classified = conclude(evidence, &context, strongest(&context, &text, &matches));
    let mut candidates: Vec<RuleHit> = candidates(&context, &text, &matches).collect();
    candidates.sort_by_key(|c| std::cmp::Reverse((c.weight, c.found.end - c.found.start)));
    candidates.dedup_by_key(|c| c.rule.name);
    Explanation {
        classified,
        findings: candidates.iter().map(|c| finding(c, &text)).collect(),
        place: context.place,
        status: context.status,
        frames_skipped: text.frames,
        unwrapped: text.spans.iter().any(|s| s.adjust != 0),
    }
}

fn finding(candidate: &RuleHit, text: &NormalizedText) -> MatchedRule {
    let matched = &text.letters[candidate.found.start..candidate.found.end];
    MatchedRule {
        rule: candidate.rule.name,
        reason: candidate.rule.reason.to_string(),
        field: candidate.field.as_str(),
        matched: String::from_utf8_lossy(matched).into_owned(),
        weight: candidate.weight,
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Classified { reason, category, rule, .. } = &self.classified;
        writeln!(f, "{reason} ({category}) by {rule}")?;
        if let Some(place) = self.place {
            writeln!(f, "  where: {}", place.as_str())?;
        }
        if let Some(status) = self.status {
            writeln!(f, "  status: {status}")?;
        }
        if self.frames_skipped > 0 {
            writeln!(f, "  left out: {} lines of stack trace", self.frames_skipped)?;
        }
        if self.unwrapped {
            writeln!(f, "  unwrapped: parts of the text wrap or surround others and weigh differently")?;
        }
        for (nth, finding) in self.findings.iter().enumerate() {
            let verdict = if finding.rule == rule.as_ref() { "wins" } else { "weaker" };
            let MatchedRule { rule, reason, field, matched, weight } = finding;
            writeln!(f, "  {}. {rule} → {reason}, weight {weight} ({verdict}): \"{matched}\" in the {field}", nth + 1)?;
        }
        if self.findings.is_empty() {
            writeln!(f, "  no phrase of any rule was found")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explanations_name_winner_and_losers() {
        let evidence = Evidence::of("RateLimitError: You exceeded your current quota, insufficient_quota");
        let said = explain(&evidence).to_string();
        assert!(said.starts_with("quota_exhausted (conditional) by builtin.quota."), "{said}");
        assert!(said.contains("builtin.rate"), "{said}");
        assert!(said.contains("(weaker)"), "{said}");
    }
}
