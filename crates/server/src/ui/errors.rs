//! `/errors/{code}`: the page that the `type` of a problem points to.

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use maud::html;

use super::components::prose;
use super::layout;
use super::page::{is_for_a_person, nothing_here, respond};
use crate::app::App;
use crate::problem::{Code, Problem};

pub(crate) async fn get(_: App, request: Request) -> Response {
    let name = request.uri().path().trim_start_matches("/errors/");
    let Some(code) = Code::ALL.iter().find(|code| code.as_str() == name) else {
        return match is_for_a_person(&request) {
            true => nothing_here(),
            false => Problem::plain(Code::NotFound).into_response(),
        };
    };
    let main = html! {
        div.head { div {
            h1 { (code.title()) }
            p { (prose(code.help())) }
        } }
        p.faint { "code " code { (code.as_str()) } " · HTTP status " (code.status().as_u16()) }
    };
    respond(StatusCode::OK, layout::outside(code.title(), &main))
}
