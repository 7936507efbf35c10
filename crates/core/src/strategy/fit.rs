//! Whether an input that was too long can be made to fit: what the error says, what the catalogue knows of the model, and
//! what the payload weighs.

use crate::policy::Policy;
use crate::preflight::safe_target;
use crate::run::Run;
use crate::strategy::Failure;
use crate::text::Label;
use crate::verdict::Change;

/// What an answer is left where the request does not say.
const OUTPUT_RESERVE_TOKENS: u64 = 4_096;

/// What is known of an input and the models that may take it. Tokens are as models count them, unless said otherwise.
pub(super) struct Fit<'a> {
    failure: &'a Failure,
    policy: &'a Policy,
    model: Option<&'a Label>,
    /// What the failed attempt was cut to before it was sent, as we count.
    cut_to: Option<u64>,
}

/// An input that no change of ours makes fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TooLong {
    /// With all left out that may be.
    pub(super) least: u64,
    pub(super) allowed: Option<u64>,
}

impl<'a> Fit<'a> {
    pub(super) fn new(failure: &'a Failure, run: &'a Run, policy: &'a Policy) -> Self {
        let cut_to = run.changes.iter().find_map(|change| match change {
            Change::CompressContext { to_tokens } => *to_tokens,
            Change::AddInstruction { .. }
            | Change::AddConstraint { .. }
            | Change::AddLastError { .. }
            | Change::ScaleOutputBudget { .. }
            | Change::SetModel { .. } => None,
        });
        Self { failure, policy, model: run.around.model.as_ref(), cut_to }
    }

    /// What the current model takes: by its own word where the error has it.
    fn allowed_now(&self) -> Option<u64> {
        let by_error = self.failure.facts.limit.map(|limit| limit - self.output_tokens().min(limit / 2));
        by_error.or_else(|| self.allowed_by(self.model?))
    }

    fn allowed_by(&self, model: &Label) -> Option<u64> {
        let limits = self.policy.models.limits(model.as_str())?;
        let most = limits.max_output_tokens.unwrap_or(u64::MAX);
        Some(limits.room_for_input(self.output_tokens().min(most)))
    }

    fn output_tokens(&self) -> u64 {
        self.failure.room.as_ref().and_then(|room| room.output_tokens).unwrap_or(OUTPUT_RESERVE_TOKENS)
    }

    /// Larger by the catalogue; where it knows neither, the order of the ladder is the queue's word for it.
    pub(super) fn is_larger(&self, model: &Label, in_order: bool) -> bool {
        match (self.allowed_by(model), self.allowed_now()) {
            (Some(candidate), Some(now)) => candidate > now,
            (Some(_) | None, _) => in_order,
        }
    }

    /// Whether a model takes the input as it is; unknown counts as no.
    pub(super) fn takes_all(&self, model: &Label) -> bool {
        let needed = self.failure.facts.actual.or_else(|| self.failure.room.as_ref().map(|room| room.tokens));
        self.allowed_by(model).zip(needed).is_some_and(|(allowed, needed)| needed <= allowed)
    }

    /// What to compress to, as we count tokens, on the model of the next attempt; none where nothing is known.
    pub(super) fn compress_to(&self, larger: Option<&Label>) -> Result<Option<u64>, TooLong> {
        let allowed = match larger {
            Some(model) => self.allowed_by(model),
            None => self.allowed_now(),
        };
        let Some(room) = &self.failure.room else { return Ok(allowed) };
        let stuck = larger.is_none() && room.floor_tokens >= room.tokens;
        if stuck || allowed.is_some_and(|allowed| self.as_models_count(room.floor_tokens) > allowed) {
            return Err(TooLong { least: self.as_models_count(room.floor_tokens), allowed });
        }
        let model = larger.or(self.model).map_or("", Label::as_str);
        let mut to = allowed.map(|allowed| self.as_we_count(allowed, model));
        if larger.is_none() && self.calibration().is_none() {
            // The provider has counted more than we do, nobody knows how much more: what we take for small enough is not.
            to = to.map(|to| to.min(room.tokens * 3 / 4));
        }
        Ok(to.map(|to| to.max(room.floor_tokens)))
    }

    /// Ours against the provider's own count, where the error tells it and both speak of the same input.
    fn calibration(&self) -> Option<(u64, u64)> {
        let whole = self.failure.room.as_ref()?.tokens;
        let ours = self.cut_to.map_or(whole, |cut_to| cut_to.min(whole));
        let theirs = self.failure.facts.actual?;
        (ours > 0 && theirs >= ours / 4 && theirs / 4 <= ours).then_some((ours, theirs))
    }

    fn as_models_count(&self, tokens: u64) -> u64 {
        self.calibration().map_or(tokens, |(ours, theirs)| scaled(tokens, theirs, ours))
    }

    fn as_we_count(&self, tokens: u64, model: &str) -> u64 {
        match self.calibration() {
            // What is left out may weigh more or less than the whole.
            Some((ours, theirs)) => scaled(tokens, ours * 95, theirs * 100),
            None => safe_target(tokens, model),
        }
    }
}

fn scaled(tokens: u64, by: u64, over: u64) -> u64 {
    let scaled = u128::from(tokens) * u128::from(by) / u128::from(over.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}
