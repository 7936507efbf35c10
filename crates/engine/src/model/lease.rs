//! Lease calls, lease tokens, and reports of success.

use redrive_core::detect::Observed;
use redrive_core::ids::{QueueName, Uuid};
use redrive_core::text::Label;
use redrive_core::wire::Versions;
use sha2::{Digest as _, Sha256};

use crate::model::{Digest, KeyMark, NewStep, RunRef, TenantScope};

/// A worker's call under its lease.
#[derive(Debug, Clone)]
pub struct UnderLease {
    pub at: RunRef,
    pub lease: LeaseToken,
}

/// The token of a lease: the run's number, the attempt and the epoch, and a proof that only the store can make. A worker
/// without it cannot write under the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseToken {
    pub run: i64,
    pub attempt: u32,
    pub epoch: u64,
    pub proof: u64,
}

impl LeaseToken {
    /// The run's `secret` never leaves the store; each lease of the run has another proof.
    pub fn granted(secret: u64, run: i64, attempt: u32, epoch: u64) -> Self {
        let mut hash = Sha256::new();
        hash.update(secret.to_le_bytes());
        hash.update(run.to_le_bytes());
        hash.update(attempt.to_le_bytes());
        hash.update(epoch.to_le_bytes());
        let proof = hash.finalize().iter().take(8).fold(0, |proof, byte| proof << 8 | u64::from(*byte));
        Self { run, attempt, epoch, proof }
    }
}

impl std::fmt::Display for LeaseToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "l{:x}-{:x}-{:x}-{:x}", self.run, self.attempt, self.epoch, self.proof)
    }
}

impl std::str::FromStr for LeaseToken {
    type Err = NotALease;

    fn from_str(s: &str) -> std::result::Result<Self, NotALease> {
        let mut parts = s.strip_prefix('l').ok_or(NotALease)?.split('-');
        let mut next = || parts.next().and_then(|p| u64::from_str_radix(p, 16).ok()).ok_or(NotALease);
        let (run, attempt, epoch, proof) = (next()?, next()?, next()?, next()?);
        let token = Self {
            run: i64::try_from(run).map_err(|_| NotALease)?,
            attempt: u32::try_from(attempt).map_err(|_| NotALease)?,
            epoch,
            proof,
        };
        // Only the canonical spelling is a lease.
        (token.to_string() == s).then_some(token).ok_or(NotALease)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid lease")]
pub struct NotALease;

/// `POST …/succeed`.
#[derive(Debug, Clone)]
pub struct Success {
    pub at: RunRef,
    /// None: a caller that retries by itself.
    pub lease: Option<LeaseToken>,
    pub attempt: Option<u32>,
    pub digest: Digest,
    /// What the queue's detectors judge.
    pub observed: Observed,
    /// [`AttemptBody`] as JSON, encoded.
    pub body: Vec<u8>,
    pub steps: Vec<NewStep>,
    /// The worker's key.
    pub by: Option<KeyMark>,
}

/// `POST /v1/leases`.
#[derive(Debug, Clone)]
pub struct LeaseCall {
    pub scope: TenantScope,
    /// Empty: every queue.
    pub queues: Vec<QueueName>,
    pub agents: Option<Vec<Label>>,
    pub max: u32,
    pub lease_ms: Option<u64>,
    pub worker: Option<Label>,
    /// Of the worker.
    pub versions: Versions,
    pub payload_max_bytes: usize,
    /// The worker's key.
    pub by: Option<KeyMark>,
    /// A repeated call with the same id gets the same leases while they live.
    pub request_id: Option<Uuid>,
}
