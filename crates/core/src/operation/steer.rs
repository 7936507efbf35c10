//! What a person may do with an operation, state by state.

use crate::wire::OperationState;
use crate::words::words;

words! {
    pub enum Steer {
        Start = "start",
        Pause = "pause",
        Resume = "resume",
        Cancel = "cancel",
    }
}

/// Where it goes, or none when it can't from there. The same again changes nothing: a caller that lost the answer may
/// ask twice.
pub fn steer(state: OperationState, by: Steer) -> Option<OperationState> {
    use OperationState::{Cancelled, Completed, Paused, Preview, Running, Stopped};
    match (state, by) {
        (Preview | Running, Steer::Start) | (Paused | Running, Steer::Resume) => Some(Running),
        (Running | Paused, Steer::Pause) => Some(Paused),
        (Preview | Running | Paused | Cancelled, Steer::Cancel) => Some(Cancelled),
        (Preview, Steer::Pause | Steer::Resume) | (Paused, Steer::Start) => None,
        (Cancelled, Steer::Start | Steer::Pause | Steer::Resume) => None,
        // What was found out stays found out: whoever fixed the cause makes a new operation over what is left.
        (Stopped | Completed, Steer::Start | Steer::Pause | Steer::Resume | Steer::Cancel) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_goes_on_only_from_where_it_may() {
        let table: Vec<String> = OperationState::ALL
            .iter()
            .map(|state| {
                let to = Steer::ALL.iter().map(|by| steer(*state, *by).map_or("-", OperationState::as_str));
                format!("{state}: {}", to.collect::<Vec<_>>().join(" "))
            })
            .collect();
        assert_eq!(
            table,
            [
                "preview: running - - cancelled",
                "running: running paused running cancelled",
                "paused: - paused running cancelled",
                "stopped: - - - -",
                "cancelled: - - - cancelled",
                "completed: - - - -",
            ]
        );
    }
}
