//! `POST /v1/failures`: reports one failed attempt as JSON, or many as NDJSON.

use std::io::Write;
use std::sync::Arc;

use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use redrive_core::wire::{FailureAnswer, FailureReport, RunFields};
use redrive_engine::{NewFailure, Reported};
use schemars::{Schema, SchemaGenerator};

use crate::app::App;
use crate::auth::{Principal, Worker};
use crate::body::{JsonOrLines, lines, parse};
use crate::budget::Holder;
use crate::call::{ApiCall, ApiResponse, Reply, typed};
use crate::capture::{Captured, FailureContext, new_run};
use crate::prepare;
use crate::problem::{Code, HttpProblem, Result};
use crate::query::TenantQuery;
use crate::tasks::compute;

/// How many reports of a batch are sent to the store at a time.
const BATCH_PIECE: usize = 1_000;
/// The typical size of an answer line.
const LINE_TYPICAL_BYTES: usize = 768;

pub(crate) enum FailuresReply {
    One(Box<Reply<FailureAnswer>>),
    Many(Vec<u8>),
}

impl ApiResponse for FailuresReply {
    const MEDIA: &'static [&'static str] = &["application/json", "application/x-ndjson"];

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<FailureAnswer>()
    }

    async fn respond(self) -> Response {
        match self {
            Self::One(reply) => reply.respond().await,
            Self::Many(text) => typed(StatusCode::OK, "application/x-ndjson", text),
        }
    }
}

type ReportCall = ApiCall<Worker, (), TenantQuery, JsonOrLines<FailureReport>>;

pub(crate) async fn report(app: App, call: ReportCall) -> Result<FailuresReply> {
    if call.body.many {
        return report_many(&app, call).await.map(FailuresReply::Many);
    }
    let raw = call.body.one();
    let (to, who, query) = (app.clone(), (*call.who).clone(), call.query);
    let mut prepared = compute(&app, &call.who.holder(), raw.len(), move || prepare(&to, &who, &query, &raw)).await?;
    prepare::measure_report(&app, &mut prepared).await?;
    let Reported { answer, fresh } = app.store.report(prepared).await?;
    Ok(FailuresReply::One(Reply::new(answer, fresh).into()))
}

/// Report → captured → classified → what the store takes.
fn prepare(app: &App, who: &Principal, query: &TenantQuery, raw: &[u8]) -> Result<NewFailure> {
    let report: FailureReport = parse(raw)?;
    let tenant = who.tenant(&[query.tenant.as_ref(), report.tenant.as_ref()])?;
    let (fields, report) = split(report);
    let captured = Captured::from_report(report, raw)?;
    let context = FailureContext::of_report(&fields, &tenant);
    let failed = captured.classify(app.classifiers(), &context, app.store.now())?.into_failed()?;
    let mut run = new_run(fields, tenant)?;
    run.by = who.mark();
    run.severity = failed.severity.unwrap_or(run.severity);
    Ok(NewFailure { run, failed })
}

/// Takes the fields of the run; some of them describe the attempt as well.
fn split(mut report: FailureReport) -> (RunFields, FailureReport) {
    let fields = report.take_run_fields();
    report.model.clone_from(&fields.model);
    report.provider.clone_from(&fields.provider);
    report.versions.clone_from(&fields.versions);
    (fields, report)
}

/// Always 200: each line has its own status, in order.
async fn report_many(app: &App, call: ReportCall) -> Result<Vec<u8>> {
    let (bytes, holder) = (call.body.body.bytes.clone(), call.who.holder());
    let max_lines = app.limits.batch_max_lines;
    let found = compute(app, &holder, bytes.len(), move || {
        let found: Vec<Bytes> = lines(&bytes).take(max_lines + 1).map(|line| bytes.slice_ref(line)).collect();
        Ok(found)
    });
    let found = found.await?;
    if found.len() > max_lines {
        return Err(HttpProblem::plain(Code::BodyTooLarge).with("limit_lines", max_lines));
    }
    let mut text = Vec::with_capacity(found.len() * LINE_TYPICAL_BYTES);
    let from = Arc::new(((*call.who).clone(), call.query));
    for piece in found.chunks(BATCH_PIECE) {
        let answers = report_piece(app, &holder, &from, piece.to_vec()).await?;
        let bytes = answers.len() * LINE_TYPICAL_BYTES;
        text = compute(app, &holder, bytes, move || {
            answers.into_iter().for_each(|answer| write_line(&mut text, answer));
            Ok(text)
        })
        .await?;
    }
    Ok(text)
}

/// Parses the lines of a piece in one go, as many small lines weigh as much as one large one.
async fn report_piece(
    app: &App,
    holder: &Holder,
    from: &Arc<(Principal, TenantQuery)>,
    piece: Vec<Bytes>,
) -> Result<Vec<Result<Reported>>> {
    let (to, from) = (app.clone(), from.clone());
    let bytes = piece.iter().map(Bytes::len).sum();
    let read = move || Ok(piece.iter().map(|line| prepare(&to, &from.0, &from.1, line)).collect());
    let prepared: Vec<Result<NewFailure>> = compute(app, holder, bytes, read).await?;
    let mut problems = Vec::with_capacity(prepared.len());
    let mut reports = Vec::with_capacity(prepared.len());
    for prepared in prepared {
        let weighed = match prepared {
            Ok(mut report) => prepare::measure_report(app, &mut report).await.map(|()| report),
            Err(problem) => Err(problem),
        };
        match weighed {
            Ok(report) => {
                reports.push(report);
                problems.push(None);
            }
            Err(problem) => problems.push(Some(problem)),
        }
    }
    let mut stored = app.store.report_all(reports).await.into_iter();
    let mut next = || match stored.next() {
        Some(answer) => answer.map_err(HttpProblem::from),
        None => Err(HttpProblem::internal("a batch had fewer answers than reports")),
    };
    Ok(problems.into_iter().map(|problem| problem.map_or_else(&mut next, Err)).collect())
}

fn write_line(text: &mut Vec<u8>, answer: Result<Reported>) {
    let start = text.len();
    let written = match answer {
        Ok(Reported { answer, fresh }) => {
            let status = if fresh { StatusCode::CREATED } else { StatusCode::OK };
            let _ = write!(text, "{{\"status\":{},", status.as_u16());
            let answer_at = text.len();
            // Our opening bracket replaces the answer's own.
            let written = serde_json::to_writer(&mut *text, &answer);
            text.remove(answer_at);
            written
        }
        Err(problem) => serde_json::to_writer(&mut *text, &problem.into_wire()),
    };
    if written.is_err() {
        text.truncate(start);
    }
    text.push(b'\n');
}
