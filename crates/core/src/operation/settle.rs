//! What became of a run that an operation replayed.

use crate::lifecycle::Outcome;
use crate::run::StateName;
use crate::wire::ItemOutcome;

/// Where the run went, as the item's outcome; none while it is still on its way.
pub fn settled(state: StateName) -> Option<ItemOutcome> {
    match state {
        StateName::Scheduled | StateName::Running | StateName::Review => None,
        StateName::Succeeded | StateName::Recovered => Some(ItemOutcome::Succeeded),
        // Closed by a person or dead again: the replay itself did not bring it home.
        StateName::Dead | StateName::Resolved | StateName::Discarded | StateName::Merged => Some(ItemOutcome::Failed),
    }
}

/// What became of a canary's run. The end of its first attempt counts, whatever a retry or a late word makes of it; one
/// that is over before it began is judged by where it went.
pub fn settled_at_first(first_attempt: Option<Outcome>, state: StateName) -> Option<ItemOutcome> {
    match first_attempt {
        Some(Outcome::Succeeded) => Some(ItemOutcome::Succeeded),
        Some(Outcome::Failed | Outcome::Cancelled) => Some(ItemOutcome::Failed),
        None => settled(state),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_settled_by_where_its_run_went() {
        let told = StateName::ALL.iter().map(|state| (*state, settled(*state)));
        for (state, outcome) in told {
            let expected = match state {
                StateName::Scheduled | StateName::Running | StateName::Review => None,
                StateName::Succeeded | StateName::Recovered => Some(ItemOutcome::Succeeded),
                StateName::Dead | StateName::Resolved | StateName::Discarded | StateName::Merged => {
                    Some(ItemOutcome::Failed)
                }
            };
            assert_eq!((outcome, settled_at_first(None, state)), (expected, expected), "{state}");
            assert_eq!(settled_at_first(Some(Outcome::Succeeded), state), Some(ItemOutcome::Succeeded));
            assert_eq!(settled_at_first(Some(Outcome::Cancelled), state), Some(ItemOutcome::Failed));
        }
    }
}
