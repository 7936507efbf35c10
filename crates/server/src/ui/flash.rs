//! What was just done, said once on the next page. A cookie carries one word out of a closed list: whatever else it
//! holds says nothing.

use axum::response::Response;
use http::HeaderMap;
use http::HeaderValue;
use http::header::{COOKIE, SET_COOKIE};

use crate::auth::secure;

const NAME: &str = "redrive_done";

macro_rules! done {
    ($($name:ident = $word:literal, $says:literal;)+) => {
        /// What a form has done.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Done { $($name,)+ }

        impl Done {
            const ALL: &'static [Self] = &[$(Self::$name,)+];

            fn word(self) -> &'static str {
                match self { $(Self::$name => $word,)+ }
            }

            pub(crate) fn says(self) -> &'static str {
                match self { $(Self::$name => $says,)+ }
            }
        }
    };
}

done! {
    Replayed = "replayed", "Sent round again. A worker takes it up when it comes for work.";
    AwaitsApproval = "awaits_approval", "The replay waits for an approval.";
    Approved = "approved", "Approved: the run is due now.";
    Rejected = "rejected", "Rejected: the run stays a dead letter.";
    Cancelled = "cancelled", "Cancelled. The worker is told at its next call.";
    Resolved = "resolved", "Resolved.";
    Discarded = "discarded", "Discarded. Its data is kept until its time is up.";
    Noted = "noted", "The note is in the history.";
    Reviewed = "reviewed", "Put aside for a decision.";
    Deferred = "deferred", "Put off.";
    Reassigned = "reassigned", "Given to another agent or queue.";
    Assigned = "assigned", "Assigned.";
    Merged = "merged", "Merged.";
    Unmerged = "unmerged", "Taken apart again.";
    Reconciled = "reconciled", "The effect's outcome is recorded. The run can go on from here.";
    Acknowledged = "acknowledged", "Acknowledged: somebody is on it.";
    Muted = "muted", "Muted. It is still counted.";
    Previewed = "previewed", "Nothing has moved yet. Look it over, then start it.";
    Started = "started", "Started.";
    Paused = "paused", "Paused.";
    Resumed = "resumed", "Goes on.";
    Stopped = "stopped", "Stopped: nothing more moves.";
    BreakerOpened = "breaker_opened", "The breaker is open: retries and replays are held.";
    BreakerClosed = "breaker_closed", "The breaker is closed: what it held goes on.";
    QueueSet = "queue_set", "The queue is set.";
    Revoked = "revoked", "The key is revoked, and its sessions with it.";
}

pub(crate) fn cookie(done: Done, headers: &HeaderMap) -> String {
    format!("{NAME}={}; Path=/; Max-Age=60; HttpOnly; SameSite=Strict{}", done.word(), secure(headers))
}

pub(crate) fn said(headers: &HeaderMap) -> Option<Done> {
    let pairs = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok()).flat_map(|all| all.split(';'));
    let word = pairs.filter_map(|pair| pair.trim().strip_prefix(NAME)?.strip_prefix('=')).next()?;
    Done::ALL.iter().copied().find(|done| done.word() == word)
}

/// Once it was said.
pub(crate) fn forget(mut response: Response, said: Option<Done>) -> Response {
    if said.is_some() {
        let gone = HeaderValue::from_static("redrive_done=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict");
        response.headers_mut().append(SET_COOKIE, gone);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_word_of_the_list_is_said() {
        let of = |cookie: &'static str| said(&HeaderMap::from_iter([(COOKIE, HeaderValue::from_static(cookie))]));
        assert_eq!(of("a=b; redrive_done=replayed"), Some(Done::Replayed));
        assert_eq!(of("redrive_done=<b>"), None);
        assert!(cookie(Done::Muted, &HeaderMap::new()).starts_with("redrive_done=muted;"));
    }

    #[test]
    fn each_has_a_word_of_its_own() {
        let words: std::collections::BTreeSet<&str> = Done::ALL.iter().map(|done| done.word()).collect();
        assert_eq!(words.len(), Done::ALL.len());
    }
}
