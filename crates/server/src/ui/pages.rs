//! The table of pages.

use http::Method;
use redrive_core::access::KeyScope::{Admin, Bulk, Read, ReadPayload, Triage};

use super::page::ForWhom::{Admins, Everyone, Operators};
use super::page::{PageRoute, act, open, page};
use super::{
    assets, audit, compose, layout, login, operations, overview, patterns, queues, run, runs, settings, sso, tenants,
};

pub fn table() -> Vec<PageRoute> {
    [looking(), on_runs(), on_patterns(), in_bulk(), looking_after(), doors()].into_iter().flatten().collect()
}

/// Pages to read.
fn looking() -> Vec<PageRoute> {
    vec![
        page("/", Everyone, Read, overview::get),
        page("/patterns", Everyone, Read, patterns::list),
        page("/patterns/{id}", Everyone, Read, patterns::show),
        page("/runs", Everyone, Read, runs::get),
        page("/runs/{tenant}/{run_id}", Everyone, Read, run::get),
        page("/runs/{tenant}/{run_id}/fix", Everyone, ReadPayload, run::fix_page),
        page("/runs/{tenant}/{run_id}/payload", Everyone, ReadPayload, run::payload_page),
        page("/runs/{tenant}/{run_id}/attempts/{attempt}", Everyone, ReadPayload, run::sent_page),
        page("/operations", Operators, Read, operations::list),
        page("/operations/new", Operators, Bulk, compose::get),
        page("/operations/{id}", Operators, Read, operations::show),
        page("/tenants", Everyone, Read, tenants::list),
        page("/tenants/{tenant}", Everyone, Read, tenants::show),
        page("/queues", Operators, Read, queues::list),
        page("/queues/{name}", Operators, Read, queues::show),
        page("/audit", Everyone, Read, audit::get),
        page("/settings", Everyone, Read, settings::get),
    ]
}

/// Actions on one run.
fn on_runs() -> Vec<PageRoute> {
    vec![
        act("/runs/{tenant}/{run_id}/fix", Everyone, ReadPayload, run::check_fix),
        act("/runs/{tenant}/{run_id}/replay", Everyone, Triage, run::send_again),
        act("/runs/{tenant}/{run_id}/reconcile", Everyone, Triage, run::reconcile),
        act("/runs/{tenant}/{run_id}/cancel", Everyone, Triage, run::cancel),
        act("/runs/{tenant}/{run_id}/resolve", Everyone, Triage, run::resolve),
        act("/runs/{tenant}/{run_id}/discard", Everyone, Triage, run::discard),
        act("/runs/{tenant}/{run_id}/note", Everyone, Triage, run::note),
        act("/runs/{tenant}/{run_id}/review", Everyone, Triage, run::review),
        act("/runs/{tenant}/{run_id}/approve", Everyone, Triage, run::approve),
        act("/runs/{tenant}/{run_id}/reject", Everyone, Triage, run::reject),
        act("/runs/{tenant}/{run_id}/defer", Everyone, Triage, run::defer),
        act("/runs/{tenant}/{run_id}/reassign", Everyone, Triage, run::reassign),
        act("/runs/{tenant}/{run_id}/assign", Everyone, Triage, run::assign),
        act("/runs/{tenant}/{run_id}/merge", Everyone, Triage, run::merge),
        act("/runs/{tenant}/{run_id}/unmerge", Everyone, Triage, run::unmerge),
    ]
}

/// Actions on a pattern.
fn on_patterns() -> Vec<PageRoute> {
    vec![
        act("/patterns/{id}/acknowledge", Everyone, Triage, patterns::acknowledge),
        act("/patterns/{id}/resolve", Everyone, Triage, patterns::resolve),
        act("/patterns/{id}/mute", Everyone, Triage, patterns::mute),
        act("/patterns/{id}/assign", Everyone, Triage, patterns::assign),
        act("/patterns/{id}/note", Everyone, Triage, patterns::note),
        act("/patterns/{id}/merge", Everyone, Triage, patterns::merge),
        act("/patterns/{id}/unmerge", Everyone, Triage, patterns::unmerge),
    ]
}

/// Bulk operations.
fn in_bulk() -> Vec<PageRoute> {
    vec![
        act("/operations/new", Operators, Bulk, compose::post),
        act("/operations", Operators, Bulk, compose::create),
        act("/operations/{id}/start", Operators, Bulk, operations::start),
        act("/operations/{id}/pause", Operators, Bulk, operations::pause),
        act("/operations/{id}/resume", Operators, Bulk, operations::resume),
        act("/operations/{id}/cancel", Operators, Bulk, operations::cancel),
    ]
}

fn looking_after() -> Vec<PageRoute> {
    vec![
        act("/tenants/{tenant}/breaker", Operators, Bulk, tenants::operate),
        act("/queues/{name}", Admins, Admin, queues::put),
        act("/settings/test", Everyone, Read, settings::test),
        act("/settings/keys", Admins, Admin, settings::create),
        act("/settings/keys/{id}/revoke", Admins, Admin, settings::revoke),
        act("/settings/keys/{id}/rotate", Admins, Admin, settings::rotate),
        act("/settings/portal-links", Operators, Admin, settings::make_link),
        act("/settings/portal-links/{id}/revoke", Operators, Admin, settings::revoke_link),
    ]
}

fn doors() -> Vec<PageRoute> {
    let doors = [
        open(Method::GET, "/login", login::get),
        open(Method::GET, "/portal", login::portal),
        open(Method::POST, "/login", login::post),
        open(Method::POST, "/logout", login::end),
        open(Method::GET, "/login/oidc", sso::begin),
        open(Method::GET, "/login/oidc/callback", sso::finish),
        open(Method::GET, "/errors/{code}", layout::error_page),
    ];
    doors.into_iter().chain(assets::table()).collect()
}
