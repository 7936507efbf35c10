//! `/tenants`: how each of them stands.

use maud::html;
use redrive_core::wire::TenantView;

use super::components::{ago, empty, grouped, head, of, pager, said};
use super::layout::Tab;
use super::links;
use super::page::{Sheet, Visit};
use crate::api::v1::tenants::{TenantsQuery, seen_by};
use crate::app::App;
use crate::problem::Result;

pub(crate) async fn get(app: App, visit: Visit<(), TenantsQuery>) -> Result<Sheet> {
    let TenantsQuery { limit, cursor } = visit.query;
    let found = seen_by(&app, &visit.who, limit, cursor.clone()).await?;
    let next = found.next_cursor.as_ref().map(|next| links::with("/tenants", [("cursor", next.as_str())]));
    let worst = found.tenants.iter().max_by_key(|tenant| tenant.dead).filter(|tenant| tenant.dead > 0);
    let with_dead = found.tenants.iter().filter(|tenant| tenant.dead > 0).count() as u64;
    let headline = html! {
        @match worst {
            Some(worst) => { (of(with_dead, "tenant")) " with dead letters, most of them " (said(worst.tenant.as_str())) "’s." }
            None => "No tenant has a dead letter.",
        }
    };
    let action = html! { @if let Some(worst) = worst { a.button.primary href=(format!("/tenants/{}", worst.tenant)) { "Open " (said(worst.tenant.as_str())) } } };
    let main = html! {
        (head(&headline, &html! { "Each has its own patterns, breakers and limits; nobody sees another’s." }, &action))
        section.panel aria-label="Tenants" {
            @if found.tenants.is_empty() { (empty("No tenant yet.", &html! { "A tenant is known from its first report on." })) } @else {
                div.scroll { table {
                    thead { tr { th { "Tenant" } th.num { "Dead" } th.num { "Waiting" } th.num.wide { "Running" } th.num { "Last failure" } } }
                    tbody { @for tenant in &found.tenants { (row(tenant, visit.now)) } }
                } }
            }
        }
        (pager(cursor.as_ref().map(|_| "/tenants"), next.as_deref()))
    };
    Ok(Sheet::new("Tenants", Tab::Tenants, main))
}

fn row(tenant: &TenantView, now: redrive_core::time::Timestamp) -> maud::Markup {
    let runs = |state: &str| links::runs([("state", state), ("tenant", tenant.tenant.as_str())]);
    html! {
        tr {
            td { a href=(format!("/tenants/{}", tenant.tenant)) { (said(tenant.tenant.as_str())) } }
            td.num { a href=(runs("dead")) { (grouped(tenant.dead)) } }
            td.num { a href=(runs("scheduled")) { (grouped(tenant.scheduled)) } }
            td.num.wide { a href=(runs("running")) { (grouped(tenant.running)) } }
            td.num.muted { @if let Some(at) = tenant.last_failure_at { (ago(at, now)) } @else { "never" } }
        }
    }
}
