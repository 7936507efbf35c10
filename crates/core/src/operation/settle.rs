//! What became of a run that an operation replayed.

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
