//! Forms: accepted only from this site, with the session's token and within bounds; and the notice on the page after.

use axum::body::Body;
use axum::response::Response;
use http::header::{COOKIE, HOST, ORIGIN, SET_COOKIE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use redrive_core::text::{Label, Text};
use redrive_core::time::Timestamp;
use redrive_core::wire::bounds::NOTE_MAX_BYTES;

use crate::app::App;
use crate::auth::{Visitor, secure};
use crate::body::Buffered;
use crate::budget::Holder;
use crate::limits::{FORM_FIELDS_MAX, FORM_NAME_MAX_BYTES, FORM_TEXT_MAX_BYTES};
use crate::problem::{Code, HttpProblem, Result};

/// Fields that only the body limit bounds.
const FREE_FIELDS: [&str; 4] = ["payload", "json_patch", "output", "text"];

/// A submitted form; an empty field counts as missing.
#[derive(Debug, Default)]
pub(crate) struct Form {
    fields: Vec<(String, String)>,
    /// The size of the body.
    pub(crate) bytes: usize,
}

impl Form {
    pub(crate) async fn read(app: &App, parts: &Parts, body: Body, who: Option<&Visitor>) -> Result<Self> {
        if !is_from_here(&parts.headers) {
            return Err(HttpProblem::new(Code::Forbidden, "the form comes from another site"));
        }
        let payer = who.map_or(Holder::Anonymous, |who| who.holder());
        let Buffered { bytes, held: _held } = Buffered::read(app, &parts.headers, body, payer).await?;
        let fields = form_urlencoded::parse(&bytes).map(|(name, value)| (name.into_owned(), value.into_owned()));
        let form = Self { fields: fields.take(FORM_FIELDS_MAX + 1).collect(), bytes: bytes.len() };
        form.check()?;
        if who.is_some_and(|who| !form.one("csrf").is_some_and(|token| who.is_csrf(token))) {
            return Err(HttpProblem::new(
                Code::Forbidden,
                "the form belongs to another session: reload the page, then send it again",
            ));
        }
        Ok(form)
    }

    /// The bounds of every form. Only the body limit bounds fields with JSON, as in the API.
    fn check(&self) -> Result<()> {
        if self.fields.len() > FORM_FIELDS_MAX {
            return Err(HttpProblem::invalid_field("form", format_args!("must have at most {FORM_FIELDS_MAX} fields")));
        }
        for (name, value) in &self.fields {
            let max = if FREE_FIELDS.contains(&name.as_str()) { usize::MAX } else { FORM_TEXT_MAX_BYTES };
            if name.len() > FORM_NAME_MAX_BYTES || value.len() > max {
                return Err(HttpProblem::invalid_field(
                    name,
                    format_args!("must be at most {FORM_TEXT_MAX_BYTES} bytes"),
                ));
            }
        }
        match self.text("reason") {
            Some(reason) if reason.token().len() > NOTE_MAX_BYTES => {
                Err(HttpProblem::invalid_field("reason", format_args!("must be at most {NOTE_MAX_BYTES} bytes")))
            }
            Some(_) | None => Ok(()),
        }
    }

    pub(crate) fn one(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let values = self.fields.iter().filter(move |(field, _)| field == name).map(|(_, value)| value.trim());
        values.filter(|value| !value.is_empty())
    }

    /// The text as typed, with `\n` as line ends.
    pub(crate) fn exact(&self, name: &str) -> Option<String> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.replace("\r\n", "\n"))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.one(name).is_some()
    }

    pub(crate) fn label(&self, name: &str) -> Option<Label> {
        self.one(name).map(Label::from)
    }

    pub(crate) fn text(&self, name: &str) -> Option<Text> {
        self.one(name).map(Text::from)
    }

    pub(crate) fn id<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>> {
        self.one(name).map(|text| text.parse().map_err(|_| HttpProblem::bad_id(name))).transpose()
    }

    pub(crate) fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>> {
        let parse = |text: &str| text.parse().map_err(|_| HttpProblem::invalid_field(name, "must be a number"));
        self.one(name).map(parse).transpose()
    }

    /// RFC 3339, or as browsers send it, which is then UTC: `2026-11-15T20:00`.
    pub(crate) fn time(&self, name: &str) -> Result<Option<Timestamp>> {
        let Some(text) = self.one(name) else { return Ok(None) };
        let with_zone = [text.to_owned(), format!("{text}Z"), format!("{text}:00Z")];
        let read = with_zone.iter().find_map(|text| text.parse().ok());
        read.map(Some).ok_or_else(|| HttpProblem::invalid_field(name, "must be a time such as 2026-11-15T20:00Z"))
    }
}

/// The host that the browser asked a proxy for. No other site can make a browser send this header.
const FORWARDED_HOST: &str = "x-forwarded-host";

/// A second line of defence: browsers do not send the session cookie from another site either.
fn is_from_here(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(ORIGIN) else { return true };
    let Some((_, from)) = origin.to_str().ok().and_then(|origin| origin.split_once("://")) else { return false };
    let ours = headers.get(HOST).into_iter().chain(headers.get(FORWARDED_HOST));
    ours.filter_map(|host| host.to_str().ok()).any(|host| host == from)
}

const NOTICE_COOKIE: &str = "redrive_done";

macro_rules! done {
    ($($name:ident = $word:literal, $says:literal;)+) => {
        /// What a form has done, shown on the next page.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Notice { $($name,)+ }

        impl Notice {
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
    Replayed = "replayed", "Replay scheduled. A worker gets it with its next lease call.";
    AwaitsApproval = "awaits_approval", "The replay is waiting for approval.";
    Approved = "approved", "Approved. The run is due now.";
    Rejected = "rejected", "Rejected. The run stays a dead letter.";
    Cancelled = "cancelled", "Cancelled. The worker learns of it with its next call.";
    Resolved = "resolved", "Resolved.";
    Discarded = "discarded", "Discarded. Its data is kept.";
    Noted = "noted", "Note added.";
    Reviewed = "reviewed", "Sent to review.";
    Deferred = "deferred", "Deferred.";
    Reassigned = "reassigned", "Reassigned.";
    Assigned = "assigned", "Assigned.";
    Merged = "merged", "Merged.";
    Unmerged = "unmerged", "Unmerged.";
    Reconciled = "reconciled", "Outcome recorded. The run can be replayed.";
    Acknowledged = "acknowledged", "Acknowledged.";
    Muted = "muted", "Muted. Failures are still counted.";
    Previewed = "previewed", "Nothing has moved yet. Check the preview, then start the operation.";
    Started = "started", "Started.";
    Paused = "paused", "Paused.";
    Resumed = "resumed", "Resumed.";
    Stopped = "stopped", "Cancelled. No more runs move.";
    BreakerOpened = "breaker_opened", "Breaker opened. Retries and replays are held.";
    BreakerClosed = "breaker_closed", "Breaker closed. Held runs are released.";
    QueueSet = "queue_set", "Queue saved.";
    Revoked = "revoked", "Key revoked. Its sessions have ended.";
}

pub(crate) fn notice_cookie(done: Notice, headers: &HeaderMap) -> String {
    format!("{NOTICE_COOKIE}={}; Path=/; Max-Age=60; HttpOnly; SameSite=Strict{}", done.word(), secure(headers))
}

pub(crate) fn notice(headers: &HeaderMap) -> Option<Notice> {
    let pairs = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok()).flat_map(|all| all.split(';'));
    let word = pairs.filter_map(|pair| pair.trim().strip_prefix(NOTICE_COOKIE)?.strip_prefix('=')).next()?;
    Notice::ALL.iter().copied().find(|done| done.word() == word)
}

/// Removes the notice after it was shown.
pub(crate) fn clear_notice(mut response: Response, shown: Option<Notice>) -> Response {
    if shown.is_some() {
        let gone = HeaderValue::from_static("redrive_done=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict");
        response.headers_mut().append(SET_COOKIE, gone);
    }
    response
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn form(text: &str) -> Form {
        let fields = form_urlencoded::parse(text.as_bytes()).map(|(n, v)| (n.into_owned(), v.into_owned()));
        Form { fields: fields.collect(), bytes: 0 }
    }

    #[test]
    fn an_empty_form_field_counts_as_missing() {
        let form = form("a=+&b=x&until=2026-11-15T20%3A00&bad=soon&run=1&run=2");
        assert_eq!((form.one("a"), form.one("b"), form.all("run").count()), (None, Some("x"), 2));
        assert_eq!(form.time("until").unwrap().unwrap().to_string(), "2026-11-15T20:00:00.000Z");
        assert!(form.time("bad").is_err() && form.time("none").unwrap().is_none());
    }

    #[test]
    fn a_form_of_another_site_is_known_by_its_origin() {
        let from = |origin: Option<&'static str>| {
            let mut headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static("desk.example:7070"))]);
            if let Some(origin) = origin {
                headers.insert(ORIGIN, HeaderValue::from_static(origin));
            }
            is_from_here(&headers)
        };
        assert!(from(None) && from(Some("http://desk.example:7070")));
        assert!(!from(Some("https://evil.example")) && !from(Some("null")) && !from(Some("")));
        let behind = [
            (HOST, "10.0.0.7:7070"),
            (ORIGIN, "https://desk.example"),
            (FORWARDED_HOST.parse().unwrap(), "desk.example"),
        ];
        let behind = behind.map(|(name, value)| (name, HeaderValue::from_static(value)));
        assert!(is_from_here(&HeaderMap::from_iter(behind)));
    }

    #[test]
    fn only_known_notices_are_shown() {
        let of = |cookie: &'static str| notice(&HeaderMap::from_iter([(COOKIE, HeaderValue::from_static(cookie))]));
        assert_eq!(of("a=b; redrive_done=replayed"), Some(Notice::Replayed));
        assert_eq!(of("redrive_done=<b>"), None);
        assert!(notice_cookie(Notice::Muted, &HeaderMap::new()).starts_with("redrive_done=muted;"));
    }

    #[test]
    fn notice_words_are_unique() {
        let words: std::collections::BTreeSet<&str> = Notice::ALL.iter().map(|done| done.word()).collect();
        assert_eq!(words.len(), Notice::ALL.len());
    }
}
