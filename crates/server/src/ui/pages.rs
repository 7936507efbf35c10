//! The one table of pages. What is not in it, or in the table of routes, can't be reached.

use axum::extract::Request;
use axum::response::Response;
use http::{Method, StatusCode};

use super::page::{Page, for_visitors, open};
use super::{login, overview};
use crate::app::App;
use crate::call::typed;

const STYLESHEET: &str = include_str!("desk.css");

pub fn table() -> Vec<Page> {
    vec![
        for_visitors("/", overview::get),
        open(Method::GET, "/login", login::get),
        open(Method::POST, "/logout", login::end),
        open(Method::GET, "/desk.css", stylesheet),
    ]
}

async fn stylesheet(_: App, _: Request) -> Response {
    typed(StatusCode::OK, "text/css; charset=utf-8", STYLESHEET)
}
