//! The table of pages.

use http::Method;

use super::page::ForWhom::{Admins, Everyone, Operators};
use super::page::{PageRoute, act, open, page};
use super::{assets, compose, layout, login, operations, overview, patterns, queues, run, runs, settings, tenants};

pub fn table() -> Vec<PageRoute> {
    [looking(), on_runs(), on_patterns(), in_bulk(), looking_after(), doors()].into_iter().flatten().collect()
}

/// Pages to read.
fn looking() -> Vec<PageRoute> {
    vec![
        page("/", Everyone, overview::get),
        page("/patterns", Everyone, patterns::list),
        page("/patterns/{id}", Everyone, patterns::show),
        page("/runs", Everyone, runs::get),
        page("/runs/{tenant}/{run_id}", Everyone, run::get),
        page("/runs/{tenant}/{run_id}/fix", Everyone, run::fix_page),
        page("/runs/{tenant}/{run_id}/payload", Everyone, run::payload_page),
        page("/runs/{tenant}/{run_id}/attempts/{attempt}", Everyone, run::sent_page),
        page("/operations", Operators, operations::list),
        page("/operations/new", Operators, compose::get),
        page("/operations/{id}", Operators, operations::show),
        page("/tenants", Everyone, tenants::list),
        page("/tenants/{tenant}", Everyone, tenants::show),
        page("/queues", Operators, queues::list),
        page("/queues/{name}", Operators, queues::show),
        page("/settings", Everyone, settings::get),
    ]
}

/// Actions on one run.
fn on_runs() -> Vec<PageRoute> {
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

/// Actions on a pattern.
fn on_patterns() -> Vec<PageRoute> {
    vec![
        act("/patterns/{id}/acknowledge", Everyone, patterns::acknowledge),
        act("/patterns/{id}/resolve", Everyone, patterns::resolve),
        act("/patterns/{id}/mute", Everyone, patterns::mute),
        act("/patterns/{id}/assign", Everyone, patterns::assign),
        act("/patterns/{id}/note", Everyone, patterns::note),
        act("/patterns/{id}/merge", Everyone, patterns::merge),
        act("/patterns/{id}/unmerge", Everyone, patterns::unmerge),
    ]
}

/// Bulk operations.
fn in_bulk() -> Vec<PageRoute> {
    vec![
        act("/operations/new", Operators, compose::post),
        act("/operations", Operators, compose::create),
        act("/operations/{id}/start", Operators, operations::start),
        act("/operations/{id}/pause", Operators, operations::pause),
        act("/operations/{id}/resume", Operators, operations::resume),
        act("/operations/{id}/cancel", Operators, operations::cancel),
    ]
}

fn looking_after() -> Vec<PageRoute> {
    vec![
        act("/tenants/{tenant}/breaker", Operators, tenants::operate),
        act("/queues/{name}", Admins, queues::put),
        act("/settings/test", Everyone, settings::test),
        act("/settings/keys", Admins, settings::create),
        act("/settings/keys/{id}/revoke", Admins, settings::revoke),
    ]
}

fn doors() -> Vec<PageRoute> {
    let doors = [
        open(Method::GET, "/login", login::get),
        open(Method::POST, "/login", login::post),
        open(Method::POST, "/logout", login::end),
        open(Method::GET, "/errors/{code}", layout::error_page),
    ];
    doors.into_iter().chain(assets::table()).collect()
}
