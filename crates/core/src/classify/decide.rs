//! From the phrases found to one answer: the strongest rule, else the status, else the place.

use std::borrow::Cow;
use std::sync::LazyLock;

use super::evidence::Evidence;
use super::facts::{self, Facts};
use super::matcher::{Found, MATCHER, MOST_PHRASES, PhraseId};
use super::page::{Field, Page};
use super::place::Place;
use super::rule::{BY_PLACE, Rule};
use super::rules::rules;
use super::status;
use crate::reason::{Category, Reason};

/// Words that betray a model call when the caller does not say where it happened.
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

/// What a failure is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classified {
    pub reason: Reason,
    pub category: Category,
    /// The rule that decided, such as `builtin.timeout`.
    pub rule: Cow<'static, str>,
    pub facts: Facts,
}

/// Says why it failed. Pure: the same evidence has the same answer on every replica.
pub fn classify(evidence: &Evidence<'_>) -> Classified {
    let page = Page::of(evidence);
    let found = MATCHER.find(&page);
    let scene = Scene::of(evidence, &found);
    conclude(evidence, &scene, strongest(&scene, &page, &found))
}

/// What is known besides the phrases.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) place: Option<Place>,
    pub(super) status: Option<u16>,
    present: [u64; MOST_PHRASES / 64],
}

impl Scene {
    pub(super) fn of(evidence: &Evidence<'_>, found: &[Found]) -> Self {
        let mut present = [0_u64; MOST_PHRASES / 64];
        for f in found {
            present[usize::from(f.phrase) / 64] |= 1 << (f.phrase % 64);
        }
        let mut scene = Self { place: Place::told(evidence), status: evidence.http_status, present };
        if scene.place.is_none() && INDEX.llm_words.iter().any(|p| scene.has(*p)) {
            scene.place = Some(Place::Llm);
        }
        if scene.status.is_none() {
            scene.status = status::in_text(evidence.text);
        }
        scene
    }

    fn has(&self, phrase: PhraseId) -> bool {
        self.present[usize::from(phrase) / 64] & (1 << (phrase % 64)) != 0
    }

    /// What a rule's evidence weighs here, if its conditions hold.
    fn weight(&self, rule: &Indexed) -> Option<i16> {
        let r = rule.rule;
        let holds = (r.statuses.is_empty() || self.status.is_some_and(|s| r.statuses.contains(&s)))
            && (rule.with.is_empty() || rule.with.iter().any(|p| self.has(*p)))
            && !rule.unless.iter().any(|p| self.has(*p));
        holds.then(|| Some(i16::from(r.rank) + self.by_place(r.places)?)).flatten()
    }

    /// Nothing for a rule that holds there. Where the place is unknown, what models, tools and frameworks say is
    /// still heard, but counts for less.
    fn by_place(&self, places: &[Place]) -> Option<i16> {
        const PLACE_UNKNOWN: i16 = -12;
        match self.place {
            _ if places.is_empty() => Some(0),
            Some(place) => places.contains(&place).then_some(0),
            None => {
                places.iter().any(|p| matches!(p, Place::Llm | Place::Tool | Place::Framework)).then_some(PLACE_UNKNOWN)
            }
        }
    }
}

/// A rule with its phrases as numbers.
struct Indexed {
    rule: &'static Rule,
    with: Vec<PhraseId>,
    unless: Vec<PhraseId>,
}

struct Index {
    rules: Vec<Indexed>,
    /// For each phrase, the rules it speaks for.
    speaks_for: Vec<Vec<u16>>,
    llm_words: Vec<PhraseId>,
}

static INDEX: LazyLock<Index> = LazyLock::new(|| {
    let ids = |phrases: &'static [&'static str]| phrases.iter().filter_map(|p| MATCHER.id(p)).collect::<Vec<_>>();
    let mut speaks_for = vec![Vec::new(); MATCHER.phrase_count()];
    let mut indexed = Vec::new();
    for (number, rule) in (0_u16..).zip(rules()) {
        for phrase in ids(rule.any) {
            speaks_for[usize::from(phrase)].push(number);
        }
        indexed.push(Indexed { rule, with: ids(rule.with), unless: ids(rule.unless) });
    }
    Index { rules: indexed, speaks_for, llm_words: ids(LLM_WORDS) }
});

/// A rule that matched, and where.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) rule: &'static Rule,
    pub(super) field: Field,
    pub(super) weight: i16,
    pub(super) found: Found,
}

/// Every rule that holds, in no particular order.
pub(super) fn candidates<'a>(
    scene: &'a Scene,
    page: &'a Page,
    found: &'a [Found],
) -> impl Iterator<Item = Candidate> + 'a {
    found.iter().flat_map(move |f| {
        let numbers = INDEX.speaks_for[usize::from(f.phrase)].iter();
        numbers.map(|n| &INDEX.rules[usize::from(*n)]).filter_map(move |r| {
            let weight = scene.weight(r)?;
            let span = page.span_at(f.start)?;
            Some(Candidate { rule: r.rule, field: span.field, weight: weight + span.adjust, found: *f })
        })
    })
}

/// The heaviest rule; among equals the one whose phrase says more, then the one that stands first.
pub(super) fn strongest(scene: &Scene, page: &Page, found: &[Found]) -> Option<Candidate> {
    candidates(scene, page, found).filter(|c| c.weight > 0).max_by_key(|c| {
        let said = c.found.end - c.found.start;
        (c.weight, said, std::cmp::Reverse(c.found.start))
    })
}

/// The text outranks the status, the status outranks the place.
pub(super) fn conclude(evidence: &Evidence<'_>, scene: &Scene, strongest: Option<Candidate>) -> Classified {
    let by_status = scene.status.and_then(|s| status::meaning(s, scene.place));
    let text_weight = strongest.map_or(0, |c| c.weight);
    let (reason, category, rule) = match (strongest, by_status) {
        (_, Some((reason, rank, rule))) if i16::from(rank) > text_weight => {
            let category = reason.category();
            (reason, category, rule)
        }
        (Some(c), _) => (c.rule.reason.clone(), c.rule.category_or_default(), c.rule.name),
        (None, _) => {
            let (reason, rule) = by_place(scene.place);
            let category = reason.category();
            (reason, category, rule)
        }
    };
    let facts = facts::extract(evidence, &reason);
    let category = facts::adjust_category(&reason, category, &facts);
    Classified { reason, category, rule: Cow::Borrowed(rule), facts }
}

/// Nothing but the place is known. Most places say nothing, and saying so is better than guessing.
fn by_place(place: Option<Place>) -> (Reason, &'static str) {
    const _: () = assert!(BY_PLACE > 0);
    match place {
        Some(Place::Tool) => (Reason::ToolError, "builtin.place.tool"),
        Some(Place::Validation) => (Reason::SchemaMismatch, "builtin.place.validation"),
        Some(Place::Network) => (Reason::Network, "builtin.place.network"),
        Some(
            Place::Llm | Place::Broker | Place::Database | Place::Framework | Place::Infrastructure | Place::Human,
        )
        | None => (Reason::Unknown, "builtin.unknown"),
    }
}
