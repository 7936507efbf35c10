//! A body that may be left out and may be large: it counts as in flight until whoever works on it is done.

use http::request::Parts;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::{Buffered, FromBody, Json, SchemaOf, media, parse};
use crate::app::App;
use crate::budget::{Holder, Share};
use crate::problem::Result;
use crate::tasks::compute;

#[derive(Debug)]
pub(crate) struct HeldJson<T> {
    pub value: T,
    /// How large it came.
    pub bytes: usize,
    pub(crate) held: Share,
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
        media::demand_json(&parts.headers)?;
        let size = bytes.len();
        let value = compute(app, &payer, size, move || parse(&bytes)).await?;
        Ok(Self { value, bytes: size, held })
    }
}
