//! `POST /v1/operations/{id}/` `start pause resume cancel`: holds from the next batch of items on.

use redrive_core::operation::Steer;
use redrive_core::wire::OperationView;

use crate::app::App;
use crate::auth::Operator;
use crate::call::{Call, Reply};
use crate::path::Named;
use crate::problem::Result;

type SteerCall = Call<Operator, Named>;
type Steered = Result<Reply<OperationView>>;

pub(crate) async fn start(app: App, call: SteerCall) -> Steered {
    steer(&app, call, Steer::Start).await
}

pub(crate) async fn pause(app: App, call: SteerCall) -> Steered {
    steer(&app, call, Steer::Pause).await
}

pub(crate) async fn resume(app: App, call: SteerCall) -> Steered {
    steer(&app, call, Steer::Resume).await
}

pub(crate) async fn cancel(app: App, call: SteerCall) -> Steered {
    steer(&app, call, Steer::Cancel).await
}

async fn steer(app: &App, call: SteerCall, by: Steer) -> Steered {
    Ok(Reply::ok(app.store.steer_operation(&call.path.0, by).await?))
}
