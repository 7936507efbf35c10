//! `/v1/portal-links`: links that log a browser in once as a tenant, made and revoked by operators. A link's secret is shown
//! once, in the answer that makes it.

use http::HeaderMap;
use http::header::HOST;
use redrive_core::ids::Tenant;
use redrive_core::wire::{CreatePortalLink, CreatedPortalLink, PortalLinkView, PortalLinksAnswer};
use redrive_engine::PortalLinkRecord;

use crate::app::App;
use crate::auth::{Operator, PORTAL_MS_DEFAULT, Principal, new_link};
use crate::body::Json;
use crate::call::{ApiCall, Reply};
use crate::path::ServerId;
use crate::problem::{Code, HttpProblem, Result};
use crate::query::{NoQuery, TenantQuery};
use crate::serve::{FORWARDED_HOST, SCHEME};

pub(crate) async fn list(app: App, call: ApiCall<Operator, (), TenantQuery>) -> Result<Reply<PortalLinksAnswer>> {
    let tenant = call.who.tenant(&[call.query.tenant.as_ref()])?;
    Ok(Reply::ok(PortalLinksAnswer { links: all(&app, &tenant).await? }))
}

pub(crate) async fn all(app: &App, tenant: &Tenant) -> Result<Vec<PortalLinkView>> {
    Ok(app.store.portal_links(tenant).await?.into_iter().map(view).collect())
}

pub(crate) async fn create(
    app: App,
    call: ApiCall<Operator, (), NoQuery, Json<CreatePortalLink>>,
) -> Result<Reply<CreatedPortalLink>> {
    Ok(Reply::new(make(&app, &call.who, call.body.value, &call.headers).await?, true))
}

/// Only this answer contains the secret.
pub(crate) async fn make(
    app: &App,
    who: &Principal,
    request: CreatePortalLink,
    headers: &HeaderMap,
) -> Result<CreatedPortalLink> {
    let lives_ms = request.expires_ms.unwrap_or(PORTAL_MS_DEFAULT);
    let base = base_url(headers).ok_or_else(|| HttpProblem::plain(Code::BadHost))?;
    let (secret, link) = new_link(app.dice.as_ref(), request.tenant, lives_ms, &who.actor().name, app.store.now());
    let (id, expires_at) = (link.id.clone(), link.expires_at);
    app.store.create_portal_link(link, who.actor()).await?;
    Ok(CreatedPortalLink { id, url: format!("{base}/portal?token={secret}"), expires_at })
}

/// The address under which the caller reached this server; a browser reaches it there too.
fn base_url(headers: &HeaderMap) -> Option<String> {
    let scheme = if headers.get(SCHEME).is_some_and(|scheme| scheme == "https") { "https" } else { "http" };
    let host = headers.get(FORWARDED_HOST).or_else(|| headers.get(HOST))?.to_str().ok()?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']');
    (!host.is_empty() && host.chars().all(is_plain)).then(|| format!("{scheme}://{host}"))
}

pub(crate) async fn revoke(app: App, call: ApiCall<Operator, ServerId>) -> Result<Reply<PortalLinkView>> {
    Ok(Reply::ok(revoke_one(&app, &call.who, &call.path.0).await?))
}

/// Ends the link and its session.
pub(crate) async fn revoke_one(app: &App, who: &Principal, id: &str) -> Result<PortalLinkView> {
    let revoked = app.store.revoke_portal_link(id, who.actor()).await?;
    app.keyring.forget();
    Ok(view(revoked))
}

fn view(link: PortalLinkRecord) -> PortalLinkView {
    let PortalLinkRecord { id, tenant, hash: _, session: _, created_at, created_by, expires_at, used_at, revoked_at } =
        link;
    PortalLinkView { id, tenant, created_at, created_by, expires_at, used_at, revoked_at }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn url(headers: &[(&'static str, &'static str)]) -> Option<String> {
        let headers =
            headers.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        base_url(&headers.collect())
    }

    #[test]
    fn a_link_leads_to_the_host_that_was_asked() {
        assert_eq!(url(&[("host", "desk.example:7070")]).unwrap(), "http://desk.example:7070");
        assert_eq!(url(&[("host", "[::1]:7070")]).unwrap(), "http://[::1]:7070");
        let proxied = [("host", "10.0.0.7"), ("x-forwarded-host", "desk.example"), ("x-forwarded-proto", "https")];
        assert_eq!(url(&proxied).unwrap(), "https://desk.example");
        assert_eq!(url(&[]), None);
        assert_eq!(url(&[("host", "a b")]), None);
        assert_eq!(url(&[("host", "evil.example/?")]), None);
    }
}
