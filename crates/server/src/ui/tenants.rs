//! `/tenants`: each tenant's health, breakers and limits.

use maud::{Markup, html};
use redrive_core::breaker::BreakerStateName;
use redrive_core::ids::Tenant;
use redrive_core::text::{Label, Text};
use redrive_core::time::Timestamp;
use redrive_core::wire::{
    BreakerAction, BreakerRequest, BreakerScope, BreakerView, TenantBreaker, TenantHealth, TenantView,
};

use super::components::{
    ago, ahead, breaker_badge, clock, empty, fact, facts, field, grouped, head, hidden, isolated, of, pager, panel,
    post_form, reason_field, visible,
};
use super::form::Form;
use super::form::Notice;
use super::layout::Tab;
use super::links;
use super::page::{FormResult, PageContent, PageRequest};
use crate::api::v1::breakers::operate_as;
use crate::api::v1::tenants::{TenantsQuery, seen_by};
use crate::app::App;
use crate::auth::Visitor;
use crate::problem::{HttpProblem, Result};

pub(crate) async fn list(app: App, visit: PageRequest<(), TenantsQuery>) -> Result<PageContent> {
    let TenantsQuery { limit, cursor } = visit.query;
    let found = seen_by(&app, &visit.who, limit, cursor.clone()).await?;
    let next = found.next_cursor.as_ref().map(|next| links::with("/tenants", [("cursor", next.as_str())]));
    let worst = found.tenants.iter().max_by_key(|tenant| tenant.dead).filter(|tenant| tenant.dead > 0);
    let with_dead = found.tenants.iter().filter(|tenant| tenant.dead > 0).count() as u64;
    let headline = html! {
        @match worst {
            Some(worst) => {
                (of(with_dead, "tenant")) " with dead letters; " (isolated(worst.tenant.as_str())) " has the most."
            }
            None => "No tenant has a dead letter.",
        }
    };
    let action = html! {
        @if let Some(worst) = worst {
            a.button.primary href=(format!("/tenants/{}", worst.tenant)) { "Open " (isolated(worst.tenant.as_str())) }
        }
    };
    let main = html! {
        (head(&headline, &html! { "Tenants are isolated: each has its own patterns, breakers and limits." }, &action))
        section.panel aria-label="Tenants" {
            @if found.tenants.is_empty() { (empty("No tenants yet.", &html! { "A tenant appears with its first report." })) } @else {
                div.scroll { table {
                    thead {
                        tr {
                            th { "Tenant" } th.num { "Dead" } th.num { "Waiting" } th.num.wide { "Running" }
                            th.num { "Last failure" }
                        }
                    }
                    tbody { @for tenant in &found.tenants { (tenant_row(tenant, visit.now)) } }
                } }
            }
        }
        (pager(cursor.as_ref().map(|_| "/tenants"), next.as_deref()))
    };
    Ok(PageContent::new("Tenants", Tab::Tenants, main))
}

fn tenant_row(tenant: &TenantView, now: redrive_core::time::Timestamp) -> maud::Markup {
    let runs = |state: &str| links::runs([("state", state), ("tenant", tenant.tenant.as_str())]);
    html! {
        tr {
            td { a href=(format!("/tenants/{}", tenant.tenant)) { (isolated(tenant.tenant.as_str())) } }
            td.num { a href=(runs("dead")) { (grouped(tenant.dead)) } }
            td.num { a href=(runs("scheduled")) { (grouped(tenant.scheduled)) } }
            td.num.wide { a href=(runs("running")) { (grouped(tenant.running)) } }
            td.num.muted { @if let Some(at) = tenant.last_failure_at { (ago(at, now)) } @else { "never" } }
        }
    }
}

pub(crate) async fn show(app: App, visit: PageRequest<Tenant>) -> Result<PageContent> {
    let tenant = visit.path;
    if visit.who.own_tenant().is_some_and(|own| *own != tenant) {
        return Err(redrive_engine::Error::NotFound("tenant").into());
    }
    let (health, breaker) = match (app.store.tenant_health(&tenant).await, app.store.tenant_breaker(&tenant).await) {
        (Ok(health), Ok(breaker)) => (health, breaker),
        // One's own tenant is there before its first report.
        (Err(redrive_engine::Error::NotFound(_)), _) if visit.who.own_tenant() == Some(&tenant) => {
            return Ok(unheard(&tenant));
        }
        (Err(error), _) | (_, Err(error)) => return Err(error.into()),
    };
    let main = html! {
        (heading(&tenant, &health, &breaker, visit.now))
        (figures(&tenant, &health))
        div.cols {
            div.stack { (breakers(&breaker, &visit.who, visit.now)) (history(&breaker, visit.now)) }
            div.stack { (limits(&health)) @if visit.who.is_operator() { (by_hand(&tenant, &visit.who)) } }
        }
    };
    Ok(PageContent::new(tenant.to_string(), Tab::Tenants, main))
}

fn unheard(tenant: &Tenant) -> PageContent {
    let main = html! { section.panel { (empty("No reports yet.", &html! {
        "Report a failure with "
        code { "POST /v1/failures" }
        " and a worker key of tenant "
        (isolated(tenant.as_str()))
        "."
    })) } };
    PageContent::new(tenant.to_string(), Tab::Tenants, main)
}

fn heading(tenant: &Tenant, health: &TenantHealth, breaker: &TenantBreaker, now: Timestamp) -> Markup {
    let headline = html! {
        (isolated(tenant.as_str())) ": "
        @match health.escalated { 0 => "nothing needs a person.", 1 => "one run needs a person.", n => { (grouped(n)) " runs need a person." } }
    };
    let why = html! {
        "The breaker is " (breaker_badge(breaker.state)) ". "
        @if let Some(at) = health.last_failure_at { "Last failure " (ago(at, now)) "." }
    };
    let to = links::runs([("state", "dead,review"), ("tenant", tenant.as_str())]);
    head(
        &headline,
        &why,
        &html! {
            @if health.escalated > 0 { a.button.primary href=(to) { "Review " (of(health.escalated, "run")) } }
        },
    )
}

fn figures(tenant: &Tenant, health: &TenantHealth) -> Markup {
    let runs = |pairs: &[(&'static str, &'static str)]| {
        links::runs(pairs.iter().copied().chain([("tenant", tenant.as_str())]))
    };
    let figure = |to: String, word: &str, number: String, note: String| {
        html! { a href=(to) { span.muted { (word) } b { (number) } span.faint { (note) } } }
    };
    html! { div.figures {
        (figure(runs(&[("state", "dead")]), "Dead letters", grouped(health.dead), format!("{} that no retry can help", grouped(health.active_poison))))
        (figure(runs(&[("state", "scheduled")]), "Waiting for retry", grouped(health.pending_retries), format!("{} held", grouped(health.held))))
        (figure(runs(&[("state", "recovered")]), "Recovered, 24 h", grouped(health.recovered_24h), health.recovery_rate_pct.map_or_else(|| "no failures".into(), |pct| format!("{pct} % of failed runs"))))
        (figure(runs(&[("state", "review")]), "In review", grouped(health.escalated.saturating_sub(health.dead)), "waiting for approval".into()))
    } }
}

fn breakers(breaker: &TenantBreaker, who: &Visitor, now: Timestamp) -> Markup {
    let body = html! {
        @if breaker.breakers.is_empty() { (empty("Every breaker is closed.", &html! {
            "A breaker opens when most attempts fail. It holds retries, drops none, and probes with single attempts until they succeed."
        })) } @else { div.scroll { table {
            thead {
                tr {
                    th { "Breaker" } th { "State" } th.num.wide { "Failed" } th.num { "Held" }
                    th { span.faint { "Action" } }
                }
            }
            tbody { @for one in &breaker.breakers { (row(&breaker.tenant, one, who, now)) } }
        } } }
    };
    panel("breakers", "Breakers", &breaker_badge(breaker.state), &body)
}

fn row(tenant: &Tenant, breaker: &BreakerView, who: &Visitor, now: Timestamp) -> Markup {
    html! { tr {
        td {
            span title=(visible(breaker.name.as_str())) { (whose(breaker)) }
            div.faint {
                (isolated(breaker.environment.as_str()))
                @if let Some(by) = &breaker.opened_by { " · opened by " (isolated(by)) }
                @if let Some(reason) = &breaker.reason { " · " (isolated(&reason.decode())) }
            }
        }
        td {
            (breaker_badge(breaker.state))
            @if breaker.state == BreakerStateName::Open { div.faint { "until " (ahead(breaker.until, now)) } }
        }
        td.num.wide {
            @if let (Some(failed), Some(attempts)) = (breaker.failed, breaker.attempts) { (grouped(failed)) " of " (grouped(attempts)) }
        }
        td.num { (grouped(breaker.held)) }
        td.act {
            @if who.is_operator() && breaker.state != BreakerStateName::Closed && breaker.tenant.is_some() { (close(tenant, breaker, who)) }
        }
    } }
}

/// What it watches over.
fn whose(breaker: &BreakerView) -> Markup {
    let part = |name: &Option<Label>| name.as_ref().map_or_else(|| html! { "any" }, |name| isolated(name.as_str()));
    html! {
        @match breaker.scope {
            BreakerScope::Tenant => "all runs of the tenant",
            BreakerScope::Model => { (part(&breaker.provider)) " / " (part(&breaker.model)) }
            BreakerScope::Everywhere => { (part(&breaker.provider)) " / " (part(&breaker.model)) ", for all tenants" }
        }
    }
}

fn close(tenant: &Tenant, breaker: &BreakerView, who: &Visitor) -> Markup {
    post_form(
        &format!("/tenants/{tenant}/breaker"),
        who.csrf(),
        &html! {
            (hidden("action", "close"))
            (hidden("environment", breaker.environment.as_str()))
            (hidden("reason", "closed at the desk"))
            @if let Some(provider) = &breaker.provider { (hidden("provider", provider.as_str())) }
            @if let Some(model) = &breaker.model { (hidden("model", model.as_str())) }
            button { "Close" }
        },
    )
}

fn history(breaker: &TenantBreaker, now: Timestamp) -> Markup {
    if breaker.history.is_empty() {
        return html! {};
    }
    let body = html! { div.body { ol.timeline { @for entry in breaker.history.iter().take(30) { li {
        (clock(entry.at, now)) span.dot {}
        div { b { (isolated(&entry.event.replace('_', " "))) } " " (isolated(entry.breaker.as_str())) " by " (isolated(&entry.actor))
            @if let Some(note) = &entry.note { div { (isolated(&note.decode())) } } }
    } } } } };
    panel("history", "History", &html! {}, &body)
}

fn limits(health: &TenantHealth) -> Markup {
    let body = html! { div.body { @match &health.limits {
        None => span.muted {
            "No limits. Set " code { "max_running" } " or " code { "leases_per_s" }
            " in the tenant’s section of the configuration."
        },
        Some(limits) => (facts(&[
            fact("Running", &html! {
                (grouped(limits.running)) @if let Some(most) = limits.max_running { " of " (grouped(most)) }
            }),
            fact("Leases per second", &html! {
                @match limits.leases_per_s { Some(rate) => (rate), None => "no limit" }
            }),
        ])),
    } } };
    panel("limits", "Limits", &html! {}, &body)
}

/// A freeze: holds retries and replays alike.
fn by_hand(tenant: &Tenant, who: &Visitor) -> Markup {
    let form = html! {
        p.muted {
            "Holds every retry and replay of this tenant until that time, or until somebody closes the breaker."
        }
        (hidden("action", "open"))
        label.field { span { "Until (UTC; empty: until closed)" } input type="datetime-local" name="until"; }
        (field("environment", "Environment", "production", ""))
        (reason_field(true))
        button.danger { "Open breaker" }
    };
    panel(
        "freeze",
        "Hold retries",
        &html! {},
        &html! { div.body { details { summary { "Open the breaker manually" }
        (post_form(&format!("/tenants/{tenant}/breaker"), who.csrf(), &form)) } } },
    )
}

pub(crate) async fn operate(app: App, visit: PageRequest<Tenant>, form: Form) -> Result<FormResult> {
    let action = form.one("action").and_then(|word| word.parse::<BreakerAction>().ok());
    let action = action.ok_or_else(|| HttpProblem::invalid_field("action", "must be open, close or reset"))?;
    let request = BreakerRequest {
        action,
        reason: form.text("reason").unwrap_or_else(|| Text::from("")),
        until: form.time("until")?,
        environment: form.label("environment"),
        provider: form.label("provider"),
        model: form.label("model"),
    };
    operate_as(&app, &visit.who, Some(visit.path.clone()), request).await?;
    let done = match action {
        BreakerAction::Open => Notice::BreakerOpened,
        BreakerAction::Close | BreakerAction::Reset => Notice::BreakerClosed,
    };
    Ok(FormResult::Go { to: format!("/tenants/{}", visit.path), done })
}
