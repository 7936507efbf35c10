//! One call: made lazily, answered typed or as the server's own text.

use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use redrive_core::wire::Problem;
use reqwest::header::CONTENT_TYPE;
use serde::de::DeserializeOwned;

use crate::client::Pairs;
use crate::error::{Error, Result};

/// A call that is sent when it is awaited.
#[must_use = "a call does nothing until it is awaited"]
#[derive(Debug)]
pub struct Call<T> {
    request: Result<reqwest::RequestBuilder>,
    /// For messages: where it goes, without the query.
    url: String,
    answer: PhantomData<fn() -> T>,
}

impl<T> Call<T> {
    pub(crate) fn new(url: String, request: Result<reqwest::RequestBuilder>) -> Self {
        Self { request, url, answer: PhantomData }
    }

    pub(crate) fn query(mut self, pairs: &Pairs) -> Self {
        self.request = self.request.map(|request| request.query(pairs));
        self
    }

    /// Waits for the answer this long instead of the client's usual time.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.request = self.request.map(|request| request.timeout(timeout));
        self
    }

    /// The server's JSON, byte for byte.
    ///
    /// ```no_run
    /// # async fn example(client: redrive_client::Client) -> redrive_client::Result<()> {
    /// let json: String = client.limits().text().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn text(self) -> Result<String> {
        send(self.request?, self.url).await
    }
}

/// The same for every answer, so that it is compiled once.
async fn send(request: reqwest::RequestBuilder, url: String) -> Result<String> {
    let answer = request.send().await.map_err(|e| Error::unreachable(&url, &e))?;
    let status = answer.status();
    let is_problem = answer
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .is_some_and(|kind| kind.starts_with("application/problem+json"));
    let text = answer.text().await.map_err(|e| Error::unreachable(&url, &e))?;
    if status.is_success() && !is_problem {
        return Ok(text);
    }
    match serde_json::from_str::<Problem>(&text) {
        Ok(problem) if is_problem => Err(Error::Problem(Box::new(problem))),
        Ok(_) | Err(_) => Err(Error::Unexpected { url, what: format!("{status} without a problem") }),
    }
}

impl<T: DeserializeOwned + 'static> IntoFuture for Call<T> {
    type Output = Result<T>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let url = self.url.clone();
        Box::pin(async move {
            let text = self.text().await?;
            serde_json::from_str(&text).map_err(|e| Error::Unexpected { url, what: format!("something else ({e})") })
        })
    }
}
