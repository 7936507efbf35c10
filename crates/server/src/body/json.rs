//! JSON bodies. A good body is parsed once; a bad one is parsed again to say where the mistake is.

use std::marker::PhantomData;

use bytes::Bytes;
use http::request::Parts;
use redrive_core::ids::BadId;
use redrive_core::wire::RawJson;
use schemars::JsonSchema;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::bounds::bounds_of;
use super::{Buffered, FORM, FromBody, JSON, LINES, SchemaOf, demand_json, media_type, unsupported};
use crate::app::App;
use crate::budget::{BudgetShare, Holder};
use crate::problem::{Code, HttpProblem, Result};
use crate::tasks::compute;

/// A required body.
#[derive(Debug)]
pub(crate) struct Json<T> {
    pub value: T,
    /// As sent, without the white space around it.
    pub(crate) raw: Bytes,
    /// Held while the value is used: the body counts as in flight until this is dropped.
    pub(crate) held: BudgetShare,
}

impl<T: DeserializeOwned + JsonSchema + Send + 'static> FromBody for Json<T> {
    const REQUIRED: bool = true;

    fn media() -> Vec<(&'static str, SchemaOf)> {
        vec![(JSON, |generator| generator.subschema_for::<T>())]
    }

    async fn read(app: &App, parts: &Parts, body: axum::body::Body, payer: Holder) -> Result<Self> {
        demand_json(&parts.headers)?;
        let Buffered { bytes, held } = Buffered::read(app, &parts.headers, body, payer.clone()).await?;
        let raw = trimmed(&bytes);
        let value = compute(app, &payer, bytes.len(), move || parse(&bytes)).await?;
        Ok(Self { value, raw, held })
    }
}

impl<T> Json<T> {
    /// The value alone; releases the body.
    pub(crate) fn into_value(self) -> T {
        self.value
    }
}

/// An optional body; a missing one is the default.
#[derive(Debug)]
pub(crate) struct OptionalJson<T>(pub T);

impl<T: DeserializeOwned + Default + JsonSchema + Send + 'static> FromBody for OptionalJson<T> {
    const REQUIRED: bool = false;

    fn media() -> Vec<(&'static str, SchemaOf)> {
        Json::<T>::media()
    }

    async fn read(app: &App, parts: &Parts, body: axum::body::Body, payer: Holder) -> Result<Self> {
        let Buffered { bytes, held: _held } = Buffered::read(app, &parts.headers, body, payer.clone()).await?;
        if bytes.is_empty() {
            return Ok(Self(T::default()));
        }
        demand_json(&parts.headers)?;
        compute(app, &payer, bytes.len(), move || parse(&bytes)).await.map(Self)
    }
}

/// The body without surrounding white space.
fn trimmed(bytes: &Bytes) -> Bytes {
    bytes.slice_ref(trim(bytes))
}

fn trim(bytes: &[u8]) -> &[u8] {
    let blank = |b: &u8| b" \t\r\n".contains(b);
    let Some(from) = bytes.iter().position(|b| !blank(b)) else { return &[] };
    let to = bytes.iter().rposition(|b| !blank(b)).unwrap_or(from);
    &bytes[from..=to]
}

/// Parses a value, or says exactly what is wrong with it.
pub(crate) fn parse<T: DeserializeOwned + JsonSchema + 'static>(bytes: &[u8]) -> Result<T> {
    let text = std::str::from_utf8(bytes).map_err(|e| bad_json(e.valid_up_to(), "not UTF-8"))?;
    bounds_of::<T>().check(text).map_err(|beyond| not_json(text).unwrap_or_else(|| beyond.into_problem()))?;
    serde_json::from_str(text).map_err(|_| explain::<T>(text))
}

/// Parses any JSON; only the body limit bounds it.
pub(crate) fn parse_free(bytes: &[u8]) -> Result<RawJson> {
    let text = std::str::from_utf8(bytes).map_err(|e| bad_json(e.valid_up_to(), "not UTF-8"))?;
    serde_json::from_str(text).map_err(|_| explain::<RawJson>(text))
}

/// Says first whether it is JSON at all, then what the type refuses.
fn explain<T: DeserializeOwned>(text: &str) -> HttpProblem {
    if let Some(problem) = not_json(text) {
        return problem;
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    match serde_path_to_error::deserialize::<_, T>(&mut reader) {
        Err(error) => refused(&error.path().to_string(), &error.inner().to_string()),
        Ok(_) => HttpProblem::internal("a body was refused and then accepted"),
    }
}

fn not_json(text: &str) -> Option<HttpProblem> {
    let error = serde_json::from_str::<IgnoredAny>(text).err()?;
    Some(bad_json(offset(text, &error), &error.to_string()))
}

fn bad_json(offset: usize, why: &str) -> HttpProblem {
    HttpProblem::new(Code::BadJson, format!("byte {offset}: {why}")).with("offset", offset)
}

/// serde_json counts lines and columns (in bytes); callers count bytes.
fn offset(text: &str, error: &serde_json::Error) -> usize {
    if error.is_eof() {
        return text.len();
    }
    let before: usize = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    (before + error.column().saturating_sub(1)).min(text.len())
}

/// Extracts the field from serde's message.
fn refused(path: &str, message: &str) -> HttpProblem {
    let message = message.rsplit_once(" at line ").map_or(message, |(said, _)| said);
    let path = if path == "." { "" } else { path };
    if let Some(field) = unknown_field(message) {
        let field = within(path, field);
        return HttpProblem::new(Code::UnknownField, format!("unknown field `{field}`")).with("field", field);
    }
    if let Some(field) = between(message, "missing field `", "`") {
        return HttpProblem::invalid_field(&within(path, field), "is missing");
    }
    if message == BadId.to_string() {
        return HttpProblem::bad_id(crate::problem::quoted(path));
    }
    HttpProblem::invalid_field(
        if path.is_empty() { "body" } else { path },
        format_args!("can't be used: {}", crate::problem::quoted(message)),
    )
}

/// The field's whole path; a reader that has already stepped into the field names it last.
fn within(path: &str, field: &str) -> String {
    let inside = path.strip_suffix(field).filter(|rest| rest.is_empty() || rest.ends_with('.'));
    let parent = inside.map_or(path, |rest| rest.trim_end_matches('.'));
    let whole = if parent.is_empty() { field.to_owned() } else { format!("{parent}.{field}") };
    crate::problem::quoted(&whole).to_owned()
}

fn unknown_field(message: &str) -> Option<&str> {
    between(message, "unknown field `", "`, expected ").or_else(|| between(message, "unknown field `", "`, there are "))
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let rest = text.strip_prefix(before)?;
    rest.rfind(after).map(|end| &rest[..end])
}

#[derive(Debug)]
pub(crate) struct HeldJson<T> {
    pub value: T,
    /// The size of the body.
    pub bytes: usize,
    pub(crate) held: BudgetShare,
}

impl<T: DeserializeOwned + Default + JsonSchema + Send + 'static> FromBody for HeldJson<T> {
    const REQUIRED: bool = false;

    fn media() -> Vec<(&'static str, SchemaOf)> {
        Json::<T>::media()
    }

    async fn read(app: &App, parts: &Parts, body: axum::body::Body, payer: Holder) -> Result<Self> {
        let Buffered { bytes, held } = Buffered::read(app, &parts.headers, body, payer.clone()).await?;
        if bytes.is_empty() {
            return Ok(Self { value: T::default(), bytes: 0, held });
        }
        demand_json(&parts.headers)?;
        let size = bytes.len();
        let value = compute(app, &payer, size, move || parse(&bytes)).await?;
        Ok(Self { value, bytes: size, held })
    }
}

/// One report, or many that are parsed line by line so that a bad line fails alone.
#[derive(Debug)]
pub(crate) struct JsonOrLines<T> {
    pub(crate) body: Buffered,
    pub(crate) many: bool,
    of: PhantomData<fn() -> T>,
}

impl<T: JsonSchema + 'static> FromBody for JsonOrLines<T> {
    const REQUIRED: bool = true;

    fn media() -> Vec<(&'static str, SchemaOf)> {
        vec![(JSON, |generator| generator.subschema_for::<T>()), (LINES, |generator| generator.subschema_for::<T>())]
    }

    async fn read(app: &App, parts: &Parts, body: axum::body::Body, payer: Holder) -> Result<Self> {
        let many = match media_type(&parts.headers)?.as_deref() {
            None | Some(JSON | FORM) => false,
            Some(LINES) => true,
            Some(other) => return Err(unsupported(other)),
        };
        let body = Buffered::read(app, &parts.headers, body, payer).await?;
        Ok(Self { body, many, of: PhantomData })
    }
}

impl<T> JsonOrLines<T> {
    /// The single value, without surrounding white space.
    pub(crate) fn one(&self) -> Bytes {
        self.body.bytes.slice_ref(trim(&self.body.bytes))
    }
}

/// The nonblank lines, trimmed.
pub(crate) fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends = memchr::memchr_iter(b'\n', bytes).chain([bytes.len()]);
    let split = ends.scan(0, |begin, end| Some(&bytes[std::mem::replace(begin, end + 1)..end]));
    split.map(trim).filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use redrive_core::wire::{FailureReport, StartRequest};
    use serde_json::Value;

    use super::*;

    fn problem<T: DeserializeOwned + JsonSchema + 'static>(text: &str) -> (&'static str, Value) {
        let problem = parse::<T>(text.as_bytes()).err().unwrap();
        let wire = problem.clone().into_wire();
        let about = wire.more.get("field").or_else(|| wire.more.get("offset")).cloned();
        (problem.code.as_str(), about.unwrap_or_default())
    }

    #[test]
    fn malformed_json_and_trailing_data_are_400_with_the_offset() {
        for (text, at) in [
            ("", 0),
            ("{", 1),
            (r#"{"run_id":"a",}"#, 14),
            ("{\"run_id\":\n \"a\" x}", 16),
            (r#"{"bogus":1, nonsense"#, 12),
            (r#"{"run_id":"a","error":{"message":"m"}} {}"#, 39),
        ] {
            assert_eq!(problem::<FailureReport>(text), ("bad_json", at.into()), "{text}");
        }
        let raw = parse::<Value>(b"{\"a\":\"\xff\"}").unwrap_err();
        assert_eq!((raw.code, raw.into_wire().more["offset"].as_u64()), (Code::BadJson, Some(6)));
    }

    #[test]
    fn a_bad_body_field_is_named_with_its_path() {
        for (text, code, field) in [
            (r#"{"run_id":"a","error":{"message":"m"},"bogus":1}"#, "unknown_field", "bogus"),
            (r#"{"run_id":"a","error":{"message":"m","bogus":1}}"#, "unknown_field", "error.bogus"),
            (
                r#"{"run_id":"a","error":{"message":"m"},"steps":[{"name":"s","status":"started","x":1}]}"#,
                "unknown_field",
                "steps[0].x",
            ),
            (r#"{"run_id":"a","error":{"message":"m"},"state":"dead"}"#, "unknown_field", "state"),
            (r#"{"run_id":"a"}"#, "invalid_field", "error"),
            (r#"{"run_id":"a","error":{}}"#, "invalid_field", "error.message"),
            (r#"{"run_id":"a","error":{"message":5}}"#, "invalid_field", "error.message"),
            (r#"{"run_id":"a","error":{"message":"m"},"attempt":"2"}"#, "invalid_field", "attempt"),
            (r#"{"run_id":"a","error":{"message":"m"},"attempt":-1}"#, "invalid_field", "attempt"),
            (r#"{"run_id":"a","error":{"message":"m"},"severity":"huge"}"#, "invalid_field", "severity"),
            (r#"{"run_id":"a b","error":{"message":"m"}}"#, "bad_id", "run_id"),
            (r#"{"run_id":"","error":{"message":"m"}}"#, "bad_id", "run_id"),
            (r#"{"run_id":"a","tenant":"..","error":{"message":"m"}}"#, "bad_id", "tenant"),
            (r#"{"run_id":"\ud800","error":{"message":"m"}}"#, "invalid_field", "run_id"),
            (r#"[]"#, "invalid_field", "body"),
            (r#"{"run_id":"a","run_id":"b","error":{"message":"m"}}"#, "invalid_field", "body"),
        ] {
            assert_eq!(problem::<FailureReport>(text), (code, field.into()), "{text}");
        }
        assert_eq!(problem::<StartRequest>(r#"{"run_id":"a"}"#), ("invalid_field", "mode".into()));
    }

    #[test]
    fn unusual_valid_texts_are_stored_unchanged() {
        let token = r#""nul \u0000 half \ud800 12345678901234567890.10""#;
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let text = format!(r#"{{"run_id":"a","payload":{deep},"error":{{"message":{token}}}}}"#);
        let report: FailureReport = parse(text.as_bytes()).unwrap();
        assert_eq!(report.error.message.token(), token);
        assert_eq!(report.payload.unwrap().get(), deep);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic_or_blame_the_server(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            if let Err(problem) = parse::<FailureReport>(&bytes) {
                proptest::prop_assert!(problem.status().is_client_error());
            }
        }

        #[test]
        fn no_nearly_good_body_is_the_servers_fault(text in r#"\{("(run_id|error|attempt|x)":("[a-z]{0,3}"|[0-9]{1,3}|\{\}|null|\[\]),?){0,4}\}?"#) {
            if let Err(problem) = parse::<FailureReport>(text.as_bytes()) {
                proptest::prop_assert!(problem.status().is_client_error());
            }
        }
    }

    #[test]
    fn white_space_around_a_report_is_no_part_of_it() {
        assert_eq!(trim(b" \r\n{} \t"), b"{}");
        assert_eq!(trim(b"  "), b"");
    }

    #[test]
    fn blank_lines_are_skipped() {
        let found: Vec<&[u8]> = lines(b"{}\r\n\n  {\"a\":1} \n").collect();
        assert_eq!(found, [&b"{}"[..], b"{\"a\":1}"]);
    }
}
