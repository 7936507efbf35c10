//! Names in the path: ids like any other, refused when they are not well formed.

use axum::extract::{FromRequestParts as _, RawPathParams};
use http::request::Parts;
use redrive_core::ids::{QueueName, RunId, StepKey, Tenant};

use crate::limits::{ATTEMPT_MAX, REVISION_MAX};
use crate::problem::{Problem, Result};

/// What a handler takes from its path.
pub(crate) trait FromPath: Sized + Send + 'static {
    fn read(params: &Params) -> Result<Self>;
}

/// The path's parts by name, decoded.
#[derive(Debug)]
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    pub(crate) async fn of(parts: &mut Parts) -> Result<Self> {
        // Only bytes that are no UTF-8 can fail here, and no id has such.
        let raw = RawPathParams::from_request_parts(parts, &()).await.map_err(|_| Problem::bad_id("path"))?;
        Ok(Self(raw.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()))
    }

    /// A number from 1 to `max`.
    fn number(&self, name: &str, max: u32) -> Result<u32> {
        let number = self.id::<RunId>(name)?.as_str().parse().ok();
        let refused = || Problem::invalid_field(name, format_args!("must be from 1 to {max}"));
        number.filter(|number| (1..=max).contains(number)).ok_or_else(refused)
    }

    fn id<T: std::str::FromStr>(&self, name: &str) -> Result<T> {
        let value = self.0.iter().find(|(n, _)| n == name).map_or("", |(_, v)| v.as_str());
        value.parse().map_err(|_| Problem::bad_id(name))
    }
}

impl FromPath for () {
    fn read(_: &Params) -> Result<Self> {
        Ok(())
    }
}

impl FromPath for RunId {
    fn read(params: &Params) -> Result<Self> {
        params.id("run_id")
    }
}

impl FromPath for StepKey {
    fn read(params: &Params) -> Result<Self> {
        params.id("key")
    }
}

impl FromPath for QueueName {
    fn read(params: &Params) -> Result<Self> {
        params.id("name")
    }
}

impl FromPath for Tenant {
    fn read(params: &Params) -> Result<Self> {
        params.id("tenant")
    }
}

impl FromPath for (Tenant, RunId) {
    fn read(params: &Params) -> Result<Self> {
        Ok((params.id("tenant")?, params.id("run_id")?))
    }
}

/// The number of an attempt.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AttemptNumber(pub u32);

impl FromPath for (RunId, AttemptNumber) {
    fn read(params: &Params) -> Result<Self> {
        Ok((params.id("run_id")?, AttemptNumber(params.number("attempt", ATTEMPT_MAX)?)))
    }
}

impl FromPath for (Tenant, RunId, AttemptNumber) {
    fn read(params: &Params) -> Result<Self> {
        let (run_id, attempt) = FromPath::read(params)?;
        Ok((params.id("tenant")?, run_id, attempt))
    }
}

/// One version of a run's payload.
#[derive(Debug)]
pub(crate) struct RevisionOf {
    pub run_id: RunId,
    pub revision: u32,
}

impl FromPath for RevisionOf {
    fn read(params: &Params) -> Result<Self> {
        Ok(Self { run_id: params.id("run_id")?, revision: params.number("revision", REVISION_MAX)? })
    }
}

/// The id of something that the server named itself: a pattern, a key.
#[derive(Debug)]
pub(crate) struct Named(pub String);

impl FromPath for Named {
    fn read(params: &Params) -> Result<Self> {
        params.id::<RunId>("id").map(|id| Self(id.as_str().to_owned()))
    }
}
