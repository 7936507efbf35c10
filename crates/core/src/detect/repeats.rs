//! The same call over and over. Only what the work ended in counts: an agent that polled for a while and then got on
//! has found its own way out.

use super::transcript::Called;

/// How often the last call stands at the end of the work.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Repeats {
    pub tool: String,
    /// In a row, at the very end.
    pub in_row: u32,
    /// Among the last [`WINDOW`] calls.
    pub in_window: u32,
    /// Whole rounds of two different calls in turn, at the very end.
    pub rounds: u32,
}

pub const WINDOW: usize = 10;

pub(super) fn repeats(calls: &[Called<'_>]) -> Repeats {
    let Some(last) = calls.last() else { return Repeats::default() };
    let same = |call: &&Called<'_>| call.hash == last.hash;
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Repeats {
        tool: super::transcript::excerpt(&last.name),
        in_row: count(calls.iter().rev().take_while(same).count()),
        in_window: count(calls.iter().rev().take(WINDOW).filter(same).count()),
        rounds: count(rounds(calls)),
    }
}

/// `A B A B` at the end is two rounds.
fn rounds(calls: &[Called<'_>]) -> usize {
    let [.., a, b] = calls else { return 0 };
    if a.hash == b.hash {
        return 0;
    }
    let pairs = calls.rchunks_exact(2);
    pairs.take_while(|pair| pair[0].hash == a.hash && pair[1].hash == b.hash).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::transcript::Transcript;

    fn of(calls: &str) -> (u32, u32, u32) {
        let mut transcript = Transcript::default();
        for call in calls.chars() {
            transcript.call(None, Some(call.to_string().into()), None);
        }
        let repeats = repeats(&transcript.calls);
        (repeats.in_row, repeats.in_window, repeats.rounds)
    }

    #[test]
    fn what_the_work_ended_in_is_counted() {
        assert_eq!(of(""), (0, 0, 0));
        assert_eq!(of("abc"), (1, 1, 1));
        assert_eq!(of("baaa"), (3, 3, 0));
        assert_eq!(of("aaab"), (1, 1, 1));
        assert_eq!(of("xabab"), (1, 2, 2));
        assert_eq!(of("abcabcaadaaa"), (3, 6, 0));
    }
}
