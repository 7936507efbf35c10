//! The one table of pages. What is not in it, or in the table of routes, can't be reached.

use http::Method;

use super::page::ForWhom::{Admins, Everyone, Operators};
use super::page::{Page, act, open, page};
use super::{
    assets, compose, errors, login, operation, operations, overview, pattern, patterns, queue, queues, run, runs,
    settings, tenant, tenants,
};

pub fn table() -> Vec<Page> {
    [looking(), on_runs(), on_patterns(), in_bulk(), looking_after(), doors()].into_iter().flatten().collect()
}

/// What people look at.
fn looking() -> Vec<Page> {
    vec![
        page("/", Everyone, overview::get),
        page("/patterns", Everyone, patterns::get),
        page("/patterns/{id}", Everyone, pattern::get),
        page("/runs", Everyone, runs::get),
        page("/runs/{tenant}/{run_id}", Everyone, run::get),
        page("/runs/{tenant}/{run_id}/fix", Everyone, run::fix_page),
        page("/runs/{tenant}/{run_id}/payload", Everyone, run::payload_page),
        page("/runs/{tenant}/{run_id}/attempts/{attempt}", Everyone, run::sent_page),
        page("/operations", Operators, operations::get),
        page("/operations/new", Operators, compose::get),
        page("/operations/{id}", Operators, operation::get),
        page("/tenants", Everyone, tenants::get),
        page("/tenants/{tenant}", Everyone, tenant::get),
        page("/queues", Operators, queues::get),
        page("/queues/{name}", Operators, queue::get),
        page("/settings", Everyone, settings::get),
    ]
}

/// What they decide about one run.
fn on_runs() -> Vec<Page> {
    vec![
        act("/runs/{tenant}/{run_id}/fix", Everyone, run::check_fix),
        act("/runs/{tenant}/{run_id}/replay", Everyone, run::send_again),
        act("/runs/{tenant}/{run_id}/reconcile", Everyone, run::reconcile),
        act("/runs/{tenant}/{run_id}/cancel", Everyone, run::cancel),
        act("/runs/{tenant}/{run_id}/resolve", Everyone, run::resolve),
        act("/runs/{tenant}/{run_id}/discard", Everyone, run::discard),
        act("/runs/{tenant}/{run_id}/note", Everyone, run::note),
        act("/runs/{tenant}/{run_id}/review", Everyone, run::review),
        act("/runs/{tenant}/{run_id}/approve", Everyone, run::approve),
        act("/runs/{tenant}/{run_id}/reject", Everyone, run::reject),
        act("/runs/{tenant}/{run_id}/defer", Everyone, run::defer),
        act("/runs/{tenant}/{run_id}/reassign", Everyone, run::reassign),
        act("/runs/{tenant}/{run_id}/assign", Everyone, run::assign),
        act("/runs/{tenant}/{run_id}/merge", Everyone, run::merge),
        act("/runs/{tenant}/{run_id}/unmerge", Everyone, run::unmerge),
    ]
}

/// What they do about a cause.
fn on_patterns() -> Vec<Page> {
    vec![
        act("/patterns/{id}/acknowledge", Everyone, pattern::acknowledge),
        act("/patterns/{id}/resolve", Everyone, pattern::resolve),
        act("/patterns/{id}/mute", Everyone, pattern::mute),
        act("/patterns/{id}/assign", Everyone, pattern::assign),
        act("/patterns/{id}/note", Everyone, pattern::note),
        act("/patterns/{id}/merge", Everyone, pattern::merge),
        act("/patterns/{id}/unmerge", Everyone, pattern::unmerge),
    ]
}

/// What they do to many runs at once.
fn in_bulk() -> Vec<Page> {
    vec![
        act("/operations/new", Operators, compose::post),
        act("/operations", Operators, compose::create),
        act("/operations/{id}/start", Operators, operation::start),
        act("/operations/{id}/pause", Operators, operation::pause),
        act("/operations/{id}/resume", Operators, operation::resume),
        act("/operations/{id}/cancel", Operators, operation::cancel),
    ]
}

fn looking_after() -> Vec<Page> {
    vec![
        act("/tenants/{tenant}/breaker", Operators, tenant::operate),
        act("/queues/{name}", Admins, queue::put),
        act("/settings/test", Everyone, settings::test),
        act("/settings/keys", Admins, settings::create),
        act("/settings/keys/{id}/revoke", Admins, settings::revoke),
    ]
}

fn doors() -> Vec<Page> {
    let doors = [
        open(Method::GET, "/login", login::get),
        open(Method::POST, "/login", login::post),
        open(Method::POST, "/logout", login::end),
        open(Method::GET, "/errors/{code}", errors::get),
    ];
    doors.into_iter().chain(assets::table()).collect()
}
