//! `POST /v1/heartbeats`: a worker is still at many runs. One commit renews them all, and each has its own answer.

use redrive_core::wire::{BeatAnswer, HeartbeatsAnswer, HeartbeatsRequest, LeaseBeat};
use redrive_store::UnderLease;

use crate::app::App;
use crate::auth::{Identity, Worker};
use crate::body::Json;
use crate::call::{Call, Reply};
use crate::capture::lease_token;
use crate::limits::HEARTBEATS_MAX;
use crate::problem::{Problem, Result};
use crate::query::OfTenant;

pub(crate) async fn post(
    app: App,
    call: Call<Worker, (), OfTenant, Json<HeartbeatsRequest>>,
) -> Result<Reply<HeartbeatsAnswer>> {
    let leases = call.body.value.leases;
    if leases.len() > HEARTBEATS_MAX {
        return Err(Problem::invalid_field("leases", format_args!("must be at most {HEARTBEATS_MAX}")));
    }
    let asked: Vec<_> = leases.iter().map(|beat| under_lease(&call.who, &call.query, beat)).collect();
    let mut renewed =
        app.store.heartbeats(asked.iter().filter_map(|under| under.as_ref().ok()).cloned().collect()).await;
    let mut renewed = renewed.drain(..);
    let answers = leases.into_iter().zip(asked).map(|(beat, under)| {
        let answer =
            under.and_then(|_| renewed.next().unwrap_or(Err(redrive_store::Error::Closing)).map_err(Problem::from));
        let (lease_expires_at, code) = match answer {
            Ok(at) => (Some(at), None),
            Err(problem) => (None, Some(problem.code.as_str().to_owned())),
        };
        BeatAnswer { run_id: beat.run_id, lease_expires_at, code }
    });
    Ok(Reply::ok(HeartbeatsAnswer { leases: answers.collect() }))
}

fn under_lease(who: &Identity, query: &OfTenant, beat: &LeaseBeat) -> Result<UnderLease> {
    let at = who.run(&[query.tenant.as_ref(), beat.tenant.as_ref()], beat.run_id.clone())?;
    Ok(UnderLease { at, lease: lease_token(&beat.lease)? })
}
