//! Whether another attempt could do harm: an effect done that would be done again, or one that nobody can vouch for.

use crate::run::Run;

/// Why a run must not be executed again without a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hazard {
    /// An effect was started and nobody knows whether it happened.
    EffectUnknown,
    /// An effect is done, and the run would start from the beginning.
    EffectDone,
}

/// Looks at a run whose attempt is over; an effect still open then is in doubt as well.
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
    fn an_effect_in_doubt_outweighs_resumability() {
        let mut run = Run { resumable: true, ..Run::new(Timestamp::default()) };
        assert_eq!(hazard(&run), None);
        run.effects = Effects { open: 0, unknown: 1, done: 0 };
        assert_eq!(hazard(&run), Some(Hazard::EffectUnknown));
        run.effects = Effects { open: 1, unknown: 0, done: 2 };
        assert_eq!(hazard(&run), Some(Hazard::EffectUnknown));
    }

    #[test]
    fn an_effect_done_is_harmless_only_where_the_run_can_resume() {
        let mut run = Run::new(Timestamp::default());
        run.effects.done = 1;
        assert_eq!(hazard(&run), Some(Hazard::EffectDone));
        run.resumable = true;
        assert_eq!(hazard(&run), None);
    }
}
