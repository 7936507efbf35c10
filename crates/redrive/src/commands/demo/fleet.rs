//! The simulated fleet, as a pure function of its seed: which runs fail, why, and which recover, and the requests that
//! each agent sends.

use redrive_client::start;
use redrive_core::ids::{RunId, Tenant};
use redrive_core::reason::Category;
use redrive_core::text::{Label, Text};
use redrive_core::wire::{
    ErrorReport, FailRequest, RawJson, Severity, StartRequest, StepReport, StepStatus, SucceedRequest, Usage,
};
use redrive_engine::{Dice, SeededDice};
use serde_json::json;

use super::causes::{AGENTS, Agent, CAUSES, Cause, Shape, TENANTS};

/// Of 10,000 runs, those that fail at least once: 45 of them end as dead letters, by the shares below.
const FAILING_OF_10_000: usize = 149;
/// Of the runs that fail: how many percent each category has, and how many percent of those recover.
const MIX: [(Category, usize, usize); 3] =
    [(Category::Transient, 61, 89), (Category::Conditional, 25, 62), (Category::Permanent, 14, 0)];
/// A transient failure gets past on the second, third or fourth attempt.
const FAILURES_MAX: u32 = 3;
/// Three silences in a row are poison.
pub(crate) const SILENCES_MAX: u32 = 2;

/// The planned outcome of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Scenario {
    Succeeds,
    /// Fails this many times, then succeeds.
    Recovers(&'static Cause, u32),
    /// Fails until automation stops.
    Dies(&'static Cause),
}

impl Scenario {
    /// The cause of this attempt's failure; none if it succeeds.
    pub(crate) fn failure_at(self, attempt: u32) -> Option<&'static Cause> {
        match self {
            Self::Succeeds => None,
            Self::Recovers(cause, failures) => (attempt <= failures).then_some(cause),
            Self::Dies(cause) => Some(cause),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Work {
    /// Counts from 1.
    pub(crate) number: u64,
    pub(crate) agent: &'static Agent,
    pub(crate) tenant: &'static str,
    pub(crate) customer: u32,
    pub(crate) severity: Severity,
    pub(crate) plan: Scenario,
}

pub(crate) struct Fleet {
    dice: SeededDice,
    made: u64,
    failures: Deck<bool>,
    /// The position in [`MIX`] of the failures to come.
    categories: Deck<usize>,
    /// Of each category: whether the failures to come recover.
    recoveries: [Deck<bool>; MIX.len()],
}

impl Fleet {
    pub(crate) fn new(seed: u64) -> Self {
        let categories = MIX.iter().enumerate().flat_map(|(at, (_, pct, _))| vec![at; *pct]).collect();
        let recoveries = MIX.map(|(_, _, pct)| Deck::new((0..100).map(|card| card < pct).collect()));
        Self {
            dice: SeededDice::new(seed),
            made: 0,
            failures: Deck::new((0..10_000).map(|card| card < FAILING_OF_10_000).collect()),
            categories: Deck::new(categories),
            recoveries,
        }
    }

    /// The next piece of work.
    pub(crate) fn next(&mut self) -> Work {
        self.made += 1;
        let plan = self.plan();
        let agent = match plan {
            Scenario::Succeeds => &AGENTS[self.below(AGENTS.len())],
            Scenario::Recovers(cause, _) | Scenario::Dies(cause) => self.one_of(cause.agents),
        };
        Work {
            number: self.made,
            agent,
            tenant: self.tenant(),
            customer: 100 + u32::try_from(self.below(60)).unwrap_or_default(),
            severity: self.severity(),
            plan,
        }
    }

    /// Evenly from `0.0..1.0`.
    pub(crate) fn roll(&self) -> f64 {
        self.dice.jitter()
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "minutes")]
    pub(crate) fn below_ms(&self, end: u64) -> u64 {
        (self.roll() * end as f64) as u64
    }

    /// A message of this cause, with numbers and ids of its own.
    pub(crate) fn message(&self, cause: &Cause) -> String {
        let mut text = cause.message.to_owned();
        while let Some(at) = text.find("{n}") {
            text.replace_range(at..at + 3, &(1_000 + self.below(9_000)).to_string());
        }
        while let Some(at) = text.find("{id}") {
            let mut bytes = [0; 8];
            self.dice.fill(&mut bytes);
            text.replace_range(at..at + 4, &format!("{:016x}", u64::from_le_bytes(bytes)));
        }
        text
    }

    fn plan(&mut self) -> Scenario {
        if !self.failures.draw(&self.dice).unwrap_or_default() {
            return Scenario::Succeeds;
        }
        let at = self.categories.draw(&self.dice).unwrap_or_default();
        let (category, ..) = MIX[at];
        if !self.recoveries[at].draw(&self.dice).unwrap_or_default() {
            return Scenario::Dies(self.cause(category, false));
        }
        let cause = self.cause(category, true);
        Scenario::Recovers(cause, self.failures_before_recovery(cause))
    }

    fn cause(&self, category: Category, recovers: bool) -> &'static Cause {
        let fits = |cause: &Cause| cause.category == category && (!recovers || cause.can_recover);
        let fitting: Vec<&'static Cause> = CAUSES.iter().filter(|cause| fits(cause)).collect();
        fitting[self.weighted(fitting.iter().map(|cause| cause.weight))]
    }

    /// Most get through at once; what needs a change has one try.
    fn failures_before_recovery(&self, cause: &Cause) -> u32 {
        let most = match (cause.category, &cause.shape) {
            (Category::Conditional | Category::Permanent, _) => 1,
            (Category::Transient, Shape::Silence) => SILENCES_MAX,
            (Category::Transient, Shape::Error | Shape::EffectInDoubt(_)) => FAILURES_MAX,
        };
        let roll = self.roll();
        let failures = if roll < 0.72 {
            1
        } else if roll < 0.93 {
            2
        } else {
            3
        };
        failures.min(most)
    }

    fn tenant(&self) -> &'static str {
        TENANTS[self.weighted(TENANTS.iter().map(|client| client.weight))].tenant
    }

    fn severity(&self) -> Severity {
        match self.below(20) {
            0 => Severity::Critical,
            1..=3 => Severity::High,
            4..=6 => Severity::Low,
            _ => Severity::Normal,
        }
    }

    fn one_of(&self, names: &[&str]) -> &'static Agent {
        let name = names.get(self.below(names.len())).copied().unwrap_or_default();
        AGENTS.iter().find(|agent| agent.name == name).unwrap_or(&AGENTS[0])
    }

    fn weighted(&self, weights: impl Iterator<Item = u32> + Clone) -> usize {
        let whole: u32 = weights.clone().sum();
        let mut left = self.below(usize::try_from(whole).unwrap_or(1));
        for (at, weight) in weights.enumerate() {
            let weight = usize::try_from(weight).unwrap_or_default();
            if left < weight {
                return at;
            }
            left -= weight;
        }
        0
    }

    pub(crate) fn below(&self, end: usize) -> usize {
        below(&self.dice, end)
    }
}

/// A shuffled deck, dealt to the end before it is shuffled again: shares are exact over hundreds of runs, not only over
/// millions.
struct Deck<T> {
    cards: Vec<T>,
    dealt: usize,
}

impl<T: Copy> Deck<T> {
    fn new(cards: Vec<T>) -> Self {
        Self { dealt: cards.len(), cards }
    }

    fn draw(&mut self, dice: &SeededDice) -> Option<T> {
        if self.dealt == self.cards.len() {
            self.dealt = 0;
        }
        let at = self.dealt + below(dice, self.cards.len() - self.dealt);
        self.cards.swap(self.dealt, at);
        self.dealt += 1;
        self.cards.get(self.dealt - 1).copied()
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "small")]
fn below(dice: &SeededDice, end: usize) -> usize {
    (dice.jitter() * end as f64) as usize
}

impl Work {
    pub(crate) fn run_id(&self) -> anyhow::Result<RunId> {
        Ok(format!("{}-{:06}", self.agent.task_type, self.number).parse()?)
    }

    pub(crate) fn tenant(&self) -> anyhow::Result<Tenant> {
        Ok(self.tenant.parse()?)
    }

    pub(crate) fn start(&self) -> anyhow::Result<StartRequest> {
        let agent = self.agent;
        Ok(StartRequest {
            queue: Some(agent.queue.parse()?),
            agent: Some(agent.name.into()),
            task_type: Some(agent.task_type.into()),
            model: Some(agent.model.into()),
            provider: Some(agent.provider.into()),
            customer: Some(Label::from(format!("c-{}", self.customer).as_str())),
            severity: Some(self.severity),
            payload: Some(self.payload()?),
            versions: [("prompt".to_owned(), Label::from("14")), ("worker".to_owned(), Label::from("2026.11"))].into(),
            ..start(self.run_id()?)
        })
    }

    fn payload(&self) -> anyhow::Result<RawJson> {
        let agent = self.agent;
        let task = format!("Handle {} {} for customer c-{}.", agent.task_type, self.number, self.customer);
        let payload = json!({
            "model": agent.model,
            "max_tokens": 2_048,
            "messages": [
                {"role": "system", "content": format!("You are {}. Work through {} in order.", agent.name, agent.steps.join(", "))},
                {"role": "user", "content": task},
            ],
        });
        Ok(serde_json::value::to_raw_value(&payload)?)
    }

    pub(crate) fn fail(&self, cause: &Cause, message: &str, lease: String) -> FailRequest {
        FailRequest {
            tenant: None,
            lease,
            error: ErrorReport {
                error_type: cause.error_type.map(Text::from),
                message: Text::from(message),
                detail: None,
                http_status: cause.http_status,
                headers: Default::default(),
                reason: None,
                category: None,
                terminal: false,
            },
            response: None,
            partial_output: None,
            finish_reason: None,
            usage: Some(self.usage(20)),
            step: cause.tool.or_else(|| self.agent.steps.get(1).copied()).map(Label::from),
            tool: cause.tool.map(Label::from),
            model: Some(self.agent.model.into()),
            steps: match cause.shape {
                Shape::Error | Shape::Silence => Vec::new(),
                Shape::EffectInDoubt(name) => vec![self.begun_effect(name)],
            },
        }
    }

    /// Begun, with an unknown outcome.
    fn begun_effect(&self, name: &str) -> StepReport {
        let key = format!("{}-{}:{name}", self.agent.task_type, self.number).parse().ok();
        let status = StepStatus::Started;
        StepReport { name: name.into(), key, effect: Some(true), status, output: None, check: None }
    }

    pub(crate) fn succeed(&self, lease: String) -> anyhow::Result<SucceedRequest> {
        let output = json!({"done": self.agent.task_type, "number": self.number, "steps": self.agent.steps.len()});
        Ok(SucceedRequest {
            tenant: None,
            lease: Some(lease),
            attempt: None,
            output: Some(serde_json::value::to_raw_value(&output)?),
            finish_reason: Some("stop".into()),
            usage: Some(self.usage(350)),
            steps: Vec::new(),
        })
    }

    fn usage(&self, output_tokens: u64) -> Usage {
        let input_tokens = 900 + self.number % 1_300;
        Usage { input_tokens: Some(input_tokens), output_tokens: Some(output_tokens), cost_usd: Some(0.004) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNS: usize = 100_000;

    #[derive(Default)]
    struct Seen {
        failed: [f64; 3],
        recovered: [f64; 3],
    }

    fn simulate(seed: u64) -> Seen {
        let mut fleet = Fleet::new(seed);
        let mut seen = Seen::default();
        for _ in 0..RUNS {
            let at = |cause: &Cause| Category::ALL.iter().position(|category| *category == cause.category).unwrap();
            match fleet.next().plan {
                Scenario::Succeeds => {}
                Scenario::Dies(cause) => seen.failed[at(cause)] += 1.0,
                Scenario::Recovers(cause, failures) => {
                    assert!(cause.can_recover && (1..=FAILURES_MAX).contains(&failures));
                    seen.failed[at(cause)] += 1.0;
                    seen.recovered[at(cause)] += 1.0;
                }
            }
        }
        seen
    }

    #[test]
    fn simulated_shares_match_a_real_fleet() {
        for seed in 0..8 {
            let Seen { failed, recovered } = simulate(seed);
            let all: f64 = failed.iter().sum();
            let dead = all - recovered.iter().sum::<f64>();
            let share = |part: f64, whole: f64| 100.0 * part / whole;
            let dead_pct = share(dead, RUNS as f64);
            assert!((dead_pct - 0.45).abs() < 0.05, "{dead_pct}");
            for (at, (category, of_failures, recovering)) in MIX.into_iter().enumerate() {
                let seen = share(failed[at], all);
                assert!((seen - of_failures as f64).abs() < 3.0, "{category}: {seen} % of failures");
                let seen = share(recovered[at], failed[at]);
                assert!((seen - recovering as f64).abs() < 3.0, "{category}: {seen} % recover");
            }
        }
    }

    #[test]
    fn a_seed_repeats_its_fleet() {
        let (mut one, mut other) = (Fleet::new(3), Fleet::new(3));
        assert!((0..5_000).all(|_| format!("{:?}", one.next()) == format!("{:?}", other.next())));
    }

    #[test]
    fn messages_have_their_blanks_filled() {
        let fleet = Fleet::new(1);
        assert!(
            CAUSES.iter().all(|cause| !fleet.message(cause).contains("{n}") && !fleet.message(cause).contains("{id}"))
        );
    }
}
