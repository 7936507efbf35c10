//! The frame of every page, and the pages for problems: a refused request, and `/errors/{code}`.

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::assets;
use super::components::{hidden, isolated, prose};
use super::form::Notice;
use super::page::{PageContent, is_for_a_person, nothing_here, respond};
use crate::app::App;
use crate::auth::Visitor;
use crate::problem::{Code, HttpProblem};

/// The current tab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tab {
    Overview,
    Patterns,
    Runs,
    Operations,
    Tenants,
    Queues,
    Settings,
    Nowhere,
}

const MARK: &str = "<svg width=\"20\" height=\"20\" viewBox=\"0 0 20 20\" aria-hidden=\"true\">\
<path d=\"M3 10a7 7 0 0 1 12-4.9V2.5M17 10a7 7 0 0 1-12 4.9v2.6\" fill=\"none\" stroke=\"var(--accent)\" stroke-width=\"2.2\" \
stroke-linecap=\"round\" stroke-linejoin=\"round\"/></svg>";

/// A page within a session.
pub(crate) fn whole(who: &Visitor, content: &PageContent, done: Option<Notice>) -> Markup {
    let bar = html! {
        a.skip href="#main" { "Skip to content" }
        header.top {
            a.brand href="/" { (PreEscaped(MARK)) "Redrive" }
            nav.nav aria-label="Main" {
                @for (tab, to, word) in tabs(who) {
                    a href=(to) aria-current=[(tab == content.here).then_some("page")] { (word) }
                }
            }
            form.search role="search" action="/runs" {
                input type="search" name="q" aria-label="Search runs" placeholder="Run, customer, error…" maxlength="200";
                kbd aria-hidden="true" { "/" }
            }
            span.live id="live" hidden { "live" }
            form method="post" action="/logout" { (hidden("csrf", who.csrf())) button.quiet { "Log out" } }
        }
    };
    document(
        &content.title,
        &bar,
        &html! {
            @if let Some(done) = done { p.notice role="status" { (done.says()) } }
            (content.main)
        },
    )
}

fn tabs(who: &Visitor) -> Vec<(Tab, String, &'static str)> {
    let tab = |tab, to: &str, word| (tab, to.to_owned(), word);
    let mut tabs = vec![
        tab(Tab::Overview, "/", "Overview"),
        tab(Tab::Patterns, "/patterns", "Patterns"),
        tab(Tab::Runs, "/runs?state=dead", "Dead letters"),
    ];
    match who.own_tenant() {
        Some(own) => tabs.push((Tab::Tenants, format!("/tenants/{own}"), "Health")),
        None if who.is_operator() => tabs.extend([
            tab(Tab::Operations, "/operations", "Operations"),
            tab(Tab::Tenants, "/tenants", "Tenants"),
            tab(Tab::Queues, "/queues", "Queues"),
        ]),
        None => tabs.push(tab(Tab::Tenants, "/tenants", "Tenants")),
    }
    tabs.push(tab(Tab::Settings, "/settings", "Settings"));
    tabs
}

/// A page without a session.
pub(crate) fn outside(title: &str, main: &Markup) -> Markup {
    document(title, &html! { header.top { a.brand href="/" { (PreEscaped(MARK)) "Redrive" } } }, main)
}

fn document(title: &str, bar: &Markup, main: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width,initial-scale=1";
                meta name="color-scheme" content="light dark";
                link rel="icon" href=(assets::ICON);
                link rel="stylesheet" href="/assets/desk.css";
                script type="module" src="/assets/desk.js" {}
                title { (super::components::visible(title)) " · Redrive" }
            }
            body { (bar) main id="main" tabindex="-1" { (main) } }
        }
    }
}

/// A problem and what to do about it.
pub(crate) fn problem(problem: &HttpProblem) -> PageContent {
    let main = html! {
        div.head { div {
            h1 { (title_of(problem)) }
            p { (isolated(&problem.detail)) }
            p { (prose(help_of(problem.code))) }
        } }
        p {
            a.button.primary href="/" data-back="" { "Go back" } " "
            span.faint { "code " code { (problem.code.as_str()) } }
        }
    };
    PageContent::new(problem.code.title(), Tab::Nowhere, main)
}

fn title_of(problem: &HttpProblem) -> &'static str {
    match problem.code {
        Code::Forbidden => "Not allowed for this key.",
        Code::NotFound | Code::NoSuchPath => "Not found.",
        _ => problem.code.title(),
    }
}

fn help_of(code: Code) -> &'static str {
    match code {
        Code::Forbidden => "Log in with a key that has the role, or ask an operator or admin.",
        _ => code.help(),
    }
}

pub(crate) async fn error_page(_: App, request: Request) -> Response {
    let name = request.uri().path().trim_start_matches("/errors/");
    let Some(code) = Code::ALL.iter().find(|code| code.as_str() == name) else {
        return match is_for_a_person(&request) {
            true => nothing_here(),
            false => HttpProblem::plain(Code::NotFound).into_response(),
        };
    };
    let main = html! {
        div.head { div {
            h1 { (code.title()) }
            p { (prose(code.help())) }
        } }
        p.faint { "code " code { (code.as_str()) } " · HTTP status " (code.status().as_u16()) }
    };
    respond(StatusCode::OK, outside(code.title(), &main))
}
