//! Path parameters, validated as ids.

use axum::extract::{FromRequestParts as _, RawPathParams};
use http::request::Parts;
use redrive_core::ids::{QueueName, RunId, StepKey, Tenant};

use crate::limits::{ATTEMPT_MAX, REVISION_MAX};
use crate::problem::{HttpProblem, Result};

/// A type that a handler takes from its path.
pub(crate) trait FromPath: Sized + Send + 'static {
    fn read(params: &PathParams) -> Result<Self>;
}

/// The path parameters by name, decoded.
#[derive(Debug)]
pub(crate) struct PathParams(Vec<(String, String)>);

impl PathParams {
    pub(crate) async fn of(parts: &mut Parts) -> Result<Self> {
        // Only invalid UTF-8 fails here, and no id contains it.
        let raw = RawPathParams::from_request_parts(parts, &()).await.map_err(|_| HttpProblem::bad_id("path"))?;
        Ok(Self(raw.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()))
    }

    /// A number from 1 to `max`.
    fn number(&self, name: &str, max: u32) -> Result<u32> {
        let number = self.id::<RunId>(name)?.as_str().parse().ok();
        let refused = || HttpProblem::invalid_field(name, format_args!("must be from 1 to {max}"));
        number.filter(|number| (1..=max).contains(number)).ok_or_else(refused)
    }

    fn id<T: std::str::FromStr>(&self, name: &str) -> Result<T> {
        let value = self.0.iter().find(|(n, _)| n == name).map_or("", |(_, v)| v.as_str());
        value.parse().map_err(|_| HttpProblem::bad_id(name))
    }
}

impl FromPath for () {
    fn read(_: &PathParams) -> Result<Self> {
        Ok(())
    }
}

impl FromPath for RunId {
    fn read(params: &PathParams) -> Result<Self> {
        params.id("run_id")
    }
}

impl FromPath for StepKey {
    fn read(params: &PathParams) -> Result<Self> {
        params.id("key")
    }
}

impl FromPath for QueueName {
    fn read(params: &PathParams) -> Result<Self> {
        params.id("name")
    }
}

impl FromPath for Tenant {
    fn read(params: &PathParams) -> Result<Self> {
        params.id("tenant")
    }
}

impl FromPath for (Tenant, RunId) {
    fn read(params: &PathParams) -> Result<Self> {
        Ok((params.id("tenant")?, params.id("run_id")?))
    }
}

/// The number of an attempt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AttemptNumber(pub u32);

impl FromPath for (RunId, AttemptNumber) {
    fn read(params: &PathParams) -> Result<Self> {
        Ok((params.id("run_id")?, AttemptNumber(params.number("attempt", ATTEMPT_MAX)?)))
    }
}

impl FromPath for (Tenant, RunId, AttemptNumber) {
    fn read(params: &PathParams) -> Result<Self> {
        let (run_id, attempt) = FromPath::read(params)?;
        Ok((params.id("tenant")?, run_id, attempt))
    }
}

/// One version of a run's payload.
#[derive(Debug)]
pub(crate) struct RevisionPath {
    pub run_id: RunId,
    pub revision: u32,
}

impl FromPath for RevisionPath {
    fn read(params: &PathParams) -> Result<Self> {
        Ok(Self { run_id: params.id("run_id")?, revision: params.number("revision", REVISION_MAX)? })
    }
}

/// The id of something that the server named: a pattern, an operation, a key.
#[derive(Debug)]
pub(crate) struct ServerId(pub String);

impl FromPath for ServerId {
    fn read(params: &PathParams) -> Result<Self> {
        params.id::<RunId>("id").map(|id| Self(id.as_str().to_owned()))
    }
}
