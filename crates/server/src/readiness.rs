//! Whether a write would be durable now. However many ask, the store is asked once a second at most, and a store that
//! does not answer in time is not ready.

use std::time::Duration;

use redrive_store::{Error, Store};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::problem::{Code, Problem, Result};

/// How long an answer holds. It does not outlast a write that fails: the store knows of that at once.
const KNOWN_FOR: Duration = Duration::from_secs(1);
/// A write that takes longer than this is none that anybody should be sent here for.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// The last answer that took a look; whoever asks meanwhile waits for the one who looks.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    unready: Mutex<Option<(Instant, Unready)>>,
}

#[derive(Debug, Clone, Copy)]
enum Unready {
    Busy,
    Unavailable,
}

impl Readiness {
    pub(crate) async fn ask(&self, store: &dyn Store) -> Result<()> {
        let mut unready = self.unready.lock().await;
        if let Some((at, why)) = *unready
            && at.elapsed() < KNOWN_FOR
        {
            return Err(why.into());
        }
        *unready = match timeout(ANSWER_MAX, store.ready()).await {
            Ok(Ok(())) => None,
            Ok(Err(Error::Busy)) => Some((Instant::now(), Unready::Busy)),
            Ok(Err(error)) => {
                tracing::warn!(%error, "not ready");
                Some((Instant::now(), Unready::Unavailable))
            }
            Err(_) => {
                tracing::warn!("not ready: the store does not answer");
                Some((Instant::now(), Unready::Unavailable))
            }
        };
        unready.map_or(Ok(()), |(_, why)| Err(why.into()))
    }
}

impl From<Unready> for Problem {
    fn from(why: Unready) -> Self {
        let code = match why {
            Unready::Busy => Code::Busy,
            Unready::Unavailable => Code::Unavailable,
        };
        Self::plain(code).retry_after_s(1)
    }
}
