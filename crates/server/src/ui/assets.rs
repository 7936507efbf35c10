//! The stylesheet and scripts, embedded in the binary. Browsers cache and revalidate them.

use std::sync::LazyLock;

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use http::header::{CACHE_CONTROL, ETAG, IF_NONE_MATCH};
use http::{HeaderValue, Method, StatusCode};
use sha2::{Digest as _, Sha256};

use super::page::{PageRoute, open};
use crate::app::App;
use crate::call::typed;

/// The icon, as a data URL to save a request.
pub(crate) const ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 20 20'%3E%3Cpath d='M3 10a7 7 0 0 1 12-4.9V2.5M17 10a7 7 0 0 1-12 4.9v2.6' fill='none' stroke='%230b5fd0' stroke-width='2.2' stroke-linecap='round'/%3E%3C/svg%3E";

const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

struct Asset {
    path: &'static str,
    media: &'static str,
    body: &'static str,
}

macro_rules! assets {
    ($($name:literal, $media:ident;)+) => {
        const ALL: &[Asset] = &[$(Asset {
            path: concat!("/assets/", $name),
            media: $media,
            body: include_str!(concat!("assets/", $name)),
        },)+];
    };
}

assets! {
    "desk.css", CSS;
    "desk.js", SCRIPT;
    "fix.js", SCRIPT;
    "keys.js", SCRIPT;
    "list.js", SCRIPT;
    "live.js", SCRIPT;
}

pub(crate) fn table() -> impl Iterator<Item = PageRoute> {
    ALL.iter().map(|asset| {
        open(Method::GET, asset.path, move |_: App, request: Request| async move { serve(asset, &request) })
    })
}

static TAGS: LazyLock<Vec<HeaderValue>> = LazyLock::new(|| ALL.iter().map(|asset| tag(asset.body)).collect());

fn tag(body: &str) -> HeaderValue {
    let hash = Sha256::digest(body.as_bytes());
    let hex: String = hash.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    HeaderValue::from_str(&format!("\"{hex}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}

fn serve(asset: &'static Asset, request: &Request) -> Response {
    let at = ALL.iter().position(|one| one.path == asset.path).unwrap_or_default();
    let tag = TAGS.get(at).cloned().unwrap_or(HeaderValue::from_static("\"\""));
    let known = request.headers().get(IF_NONE_MATCH).is_some_and(|known| *known == tag);
    let mut response = match known {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => typed(StatusCode::OK, asset.media, asset.body),
    };
    response.headers_mut().insert(ETAG, tag);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
