//! The first few go ahead, and the rest only if enough of them came through.

use crate::wire::Canary;

/// What is known of the canary's first attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Seen {
    pub succeeded: u64,
    pub failed: u64,
    /// No outcome yet.
    pub open: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Judged {
    Waiting,
    Passed,
    Failed { because: String },
}

/// As soon as what is open can't change it, or when its time is up: then what is open counts as failed.
pub fn judge(canary: &Canary, seen: Seen, time_is_up: bool) -> Judged {
    let Seen { succeeded, failed, open } = seen;
    let of = succeeded + failed + open;
    let may_fail = canary.max_failure_share * of as f64;
    let at_worst = failed + open;
    if at_worst as f64 <= may_fail {
        return Judged::Passed;
    }
    if failed as f64 <= may_fail && !time_is_up {
        return Judged::Waiting;
    }
    let (lost, unsettled) = if time_is_up && open > 0 {
        (at_worst, format!(" ({open} of them had no outcome after {} ms)", canary.wait_ms))
    } else {
        (failed, String::new())
    };
    let percent = canary.max_failure_share * 100.0;
    Judged::Failed {
        because: format!(
            "{lost} of the first {of} failed on their first attempt{unsettled}; at most {percent} % may. The rest was \
             left where it is."
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canary(share: f64) -> Canary {
        Canary { size: 10, max_failure_share: share, wait_ms: 5_000 }
    }

    fn seen(succeeded: u64, failed: u64, open: u64) -> Seen {
        Seen { succeeded, failed, open }
    }

    #[test]
    fn it_is_judged_once_what_is_open_can_not_change_it() {
        assert_eq!(judge(&canary(0.2), seen(8, 0, 2), false), Judged::Passed);
        assert_eq!(judge(&canary(0.2), seen(7, 0, 3), false), Judged::Waiting);
        assert_eq!(judge(&canary(0.2), seen(8, 2, 0), false), Judged::Passed);
        assert!(matches!(judge(&canary(0.2), seen(0, 3, 7), false), Judged::Failed { .. }));
        assert_eq!(judge(&canary(0.0), seen(9, 0, 1), false), Judged::Waiting);
        assert_eq!(judge(&canary(0.0), seen(10, 0, 0), false), Judged::Passed);
    }

    #[test]
    fn what_has_no_outcome_in_time_has_failed() {
        let Judged::Failed { because } = judge(&canary(0.1), seen(7, 1, 2), true) else { panic!("it passed") };
        assert_eq!(
            because,
            "3 of the first 10 failed on their first attempt (2 of them had no outcome after 5000 ms); at most 10 % may. \
             The rest was left where it is."
        );
        assert_eq!(judge(&canary(0.3), seen(7, 1, 2), true), Judged::Passed);
        let settled =
            "3 of the first 10 failed on their first attempt; at most 10 % may. The rest was left where it is.";
        for (seen, time_is_up) in [(seen(7, 3, 0), true), (seen(0, 3, 7), false)] {
            assert_eq!(judge(&canary(0.1), seen, time_is_up), Judged::Failed { because: settled.into() });
        }
    }

    #[test]
    fn a_canary_of_nothing_holds_nothing_up() {
        assert_eq!(judge(&canary(0.0), seen(0, 0, 0), false), Judged::Passed);
    }
}
