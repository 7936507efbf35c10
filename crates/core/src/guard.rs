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
