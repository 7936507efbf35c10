//! A row of the table of pages: its path, its audience and its handler. GET pages only read; a POST form carries its
//! session's token and redirects to a page.

use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use http::header::{ACCEPT, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION, REFERRER_POLICY, SET_COOKIE};
use http::{HeaderValue, Method, StatusCode};
use maud::Markup;
use redrive_core::time::Timestamp;

use super::form::Form;
use super::form::{self, Notice};
use super::layout::{self, Tab};
use super::login;
use crate::app::App;
use crate::auth::Visitor;
use crate::budget::IfFull;
use crate::path::{FromPath, PathParams};
use crate::problem::{Code, HttpProblem, Result};
use crate::query::{FromQuery, NoQuery, RawQuery};
use crate::router::{Handler, HandlerFuture};

/// Scripts, styles, calls and forms of this origin only, nothing inline, no framing.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
     form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

pub struct PageRoute {
    pub method: Method,
    pub path: &'static str,
    /// Whether it needs a session.
    pub asks: bool,
    pub for_whom: ForWhom,
    pub(crate) handler: Handler,
}

/// The role that a page needs, checked before anything is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForWhom {
    Everyone,
    Operators,
    Admins,
}

impl ForWhom {
    fn admit(self, who: &Visitor) -> Result<()> {
        let may = match self {
            Self::Everyone => true,
            Self::Operators => who.is_operator(),
            Self::Admins => who.is_admin(),
        };
        if may { Ok(()) } else { Err(HttpProblem::plain(Code::Forbidden)) }
    }
}

/// A request with a session.
pub(crate) struct PageRequest<P = (), Q = NoQuery> {
    pub(crate) who: Visitor,
    pub(crate) path: P,
    pub(crate) query: Q,
    pub(crate) now: Timestamp,
    /// The path and query as sent.
    pub(crate) address: String,
}

/// The content of a page, without the frame.
pub(crate) struct PageContent {
    pub(crate) title: String,
    pub(crate) here: Tab,
    pub(crate) main: Markup,
}

impl PageContent {
    pub(crate) fn new(title: impl Into<String>, here: Tab, main: Markup) -> Self {
        Self { title: title.into(), here, main }
    }
}

/// What a form answers with.
pub(crate) enum FormResult {
    Go {
        to: String,
        done: Notice,
    },
    /// A page, if a notice is not enough.
    Show(PageContent),
}

pub(crate) fn page<P, Q, F, R>(path: &'static str, for_whom: ForWhom, render: F) -> PageRoute
where
    P: FromPath,
    Q: FromQuery,
    F: Fn(App, PageRequest<P, Q>) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Result<PageContent>> + Send + 'static,
{
    let handler = move |app: App, request: Request| -> HandlerFuture {
        let render = render.clone();
        Box::pin(async move {
            let (mut parts, _) = request.into_parts();
            let who = match admitted(&app, &parts.headers, for_whom).await {
                Ok(who) => who,
                Err(problem) => return login::refused(&problem, &address(&parts)),
            };
            let notice = form::notice(&parts.headers);
            let shown = async {
                let path = P::read(&PathParams::of(&mut parts).await?)?;
                let query = RawQuery::parse(parts.uri.query())?;
                let visit =
                    PageRequest { who: who.clone(), path, query, now: app.store.now(), address: address(&parts) };
                render(app.clone(), visit).await
            };
            match shown.await {
                Ok(content) => {
                    let whole = respond(StatusCode::OK, layout::whole(&who, &content, notice));
                    form::clear_notice(app.answers.count(who.holder(), IfFull::Refuse, whole), notice)
                }
                Err(problem) => refuse(&who, &problem),
            }
        })
    };
    PageRoute { method: Method::GET, path, asks: true, for_whom, handler: Arc::new(handler) }
}

pub(crate) fn act<P, F, R>(path: &'static str, for_whom: ForWhom, act: F) -> PageRoute
where
    P: FromPath,
    F: Fn(App, PageRequest<P>, Form) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Result<FormResult>> + Send + 'static,
{
    let handler = move |app: App, request: Request| -> HandlerFuture {
        let act = act.clone();
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            let who = match admitted(&app, &parts.headers, for_whom).await {
                Ok(who) => who,
                Err(problem) => return login::refused(&problem, "/"),
            };
            let done = async {
                let path = P::read(&PathParams::of(&mut parts).await?)?;
                let form = Form::read(&app, &parts, body, Some(&who)).await?;
                let visit = PageRequest {
                    who: who.clone(),
                    path,
                    query: NoQuery,
                    now: app.store.now(),
                    address: address(&parts),
                };
                act(app.clone(), visit, form).await
            };
            match done.await {
                Ok(FormResult::Go { to, done }) => see_other(&to, &[form::notice_cookie(done, &parts.headers)]),
                Ok(FormResult::Show(content)) => {
                    let whole = respond(StatusCode::OK, layout::whole(&who, &content, None));
                    app.answers.count(who.holder(), IfFull::Send, whole)
                }
                Err(problem) => refuse(&who, &problem),
            }
        })
    };
    PageRoute { method: Method::POST, path, asks: true, for_whom, handler: Arc::new(handler) }
}

/// A page that needs no session, such as the login.
pub(crate) fn open<F, R>(method: Method, path: &'static str, answer: F) -> PageRoute
where
    F: Fn(App, Request) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Response> + Send + 'static,
{
    let handler = move |app: App, request: Request| -> HandlerFuture { Box::pin(answer(app, request)) };
    PageRoute { method, path, asks: false, for_whom: ForWhom::Everyone, handler: Arc::new(handler) }
}

async fn admitted(app: &App, headers: &http::HeaderMap, for_whom: ForWhom) -> Result<Visitor> {
    let who = Visitor::admit(app, headers).await?;
    for_whom.admit(&who)?;
    Ok(who)
}

fn address(parts: &http::request::Parts) -> String {
    parts.uri.path_and_query().map_or_else(|| "/".to_owned(), |all| all.as_str().to_owned())
}

pub(crate) fn respond(status: StatusCode, html: Markup) -> Response {
    let mut response = (status, html.into_string()).into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    // Not `no-referrer`: browsers would then hide the origin of our own forms.
    response.headers_mut().insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    response
}

pub(crate) fn see_other(to: &str, cookies: &[String]) -> Response {
    let mut response = StatusCode::SEE_OTHER.into_response();
    let to = HeaderValue::from_str(to).unwrap_or(HeaderValue::from_static("/"));
    response.headers_mut().insert(LOCATION, to);
    for cookie in cookies {
        if let Ok(cookie) = HeaderValue::from_str(cookie) {
            response.headers_mut().append(SET_COOKIE, cookie);
        }
    }
    response
}

/// Whether a browser asks for a page rather than the API.
pub(crate) fn is_for_a_person(request: &Request) -> bool {
    let accepts = request.headers().get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let path = request.uri().path();
    accepts.contains("text/html") && !path.starts_with("/v1/") && !path.starts_with("/api/")
}

pub(crate) fn nothing_here() -> Response {
    let problem = HttpProblem::plain(Code::NotFound);
    respond(problem.status(), layout::outside("Not found", &layout::problem(&problem).main))
}

/// The problem as a page, within a session.
fn refuse(who: &Visitor, problem: &HttpProblem) -> Response {
    let mut response = respond(problem.status(), layout::whole(who, &layout::problem(problem), None));
    response.extensions_mut().insert(problem.code);
    response
}
