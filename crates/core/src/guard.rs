//! Whether another attempt could do harm: repeat a done effect, or follow one with an unknown outcome.

use crate::run::Run;

/// Why a run must not be executed again without a person's decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hazard {
    /// An effect was started and its outcome is unknown.
    EffectUnknown,
    /// An effect is done, and the run would start from the beginning.
    EffectDone,
}

/// The hazard of a run whose attempt has ended; an effect still open counts as unknown.
pub fn hazard(run: &Run) -> Option<Hazard> {
    if run.effects.open + run.effects.unknown > 0 {
        return Some(Hazard::EffectUnknown);
    }
    (run.effects.done > 0 && !run.resumable).then_some(Hazard::EffectDone)
}

/// Whether a replay needs the approval that `unsafe` asks for: by what the run has done, whatever it is dead for.
pub fn is_unsafe(run: &Run) -> bool {
    run.was_unsafe || hazard(run).is_some()
}

/// Updates what [`is_unsafe`] reads after a transition. Only a replay resets it.
pub(crate) fn remember_hazard(before: &Run, after: &mut Run) {
    let replayed = before.lease().is_some_and(|lease| lease.replay) && after.lease().is_none();
    let given_back = after.is_replay();
    after.was_unsafe =
        hazard(after).is_some_and(|_| after.lease().is_none()) || (before.was_unsafe && (!replayed || given_back));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Effects;
    use crate::time::Timestamp;

    #[test]
    fn unknown_effects_outweigh_resumability() {
        let mut run = Run { resumable: true, ..Run::new(Timestamp::default()) };
        assert_eq!(hazard(&run), None);
        run.effects = Effects { open: 0, unknown: 1, done: 0 };
        assert_eq!(hazard(&run), Some(Hazard::EffectUnknown));
        run.effects = Effects { open: 1, unknown: 0, done: 2 };
        assert_eq!(hazard(&run), Some(Hazard::EffectUnknown));
    }

    #[test]
    fn done_effects_are_safe_only_in_resumable_runs() {
        let mut run = Run::new(Timestamp::default());
        run.effects.done = 1;
        assert_eq!(hazard(&run), Some(Hazard::EffectDone));
        run.resumable = true;
        assert_eq!(hazard(&run), None);
    }
}
