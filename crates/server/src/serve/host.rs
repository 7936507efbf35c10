//! HTTP/1.1 asks for one `Host` header, no less and no more: two of them are how requests are smuggled past a proxy.

use std::convert::Infallible;
use std::pin::Pin;

use axum::Router;
use axum::response::{IntoResponse as _, Response};
use http::header::HOST;
use http::uri::Authority;
use http::{HeaderMap, Request, Version};
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;

use crate::problem::{Code, Problem};

/// Answers a request that names no host, or two, before anybody looks at it.
#[derive(Clone)]
pub(super) struct WithHost(TowerToHyperService<Router>);

impl WithHost {
    pub(super) fn new(router: Router) -> Self {
        Self(TowerToHyperService::new(router))
    }
}

impl Service<Request<Incoming>> for WithHost {
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        if request.version() >= Version::HTTP_11 && !has_one_host(request.headers()) {
            return Box::pin(std::future::ready(Ok(Problem::plain(Code::BadHost).into_response())));
        }
        Box::pin(self.0.call(request))
    }
}

fn has_one_host(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(HOST).iter();
    let (Some(only), None) = (hosts.next(), hosts.next()) else { return false };
    // A client whose target has no authority sends an empty one.
    only.is_empty() || only.to_str().is_ok_and(|host| !host.contains('@') && host.parse::<Authority>().is_ok())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_host_is_named_once() {
        let of = |hosts: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(HOST, HeaderValue::from_static(host));
            }
            has_one_host(&headers)
        };
        for good in ["desk.example", "desk.example:7070", "127.0.0.1:1", "[::1]:7070", ""] {
            assert!(of(&[good]), "{good}");
        }
        assert!(!of(&[]) && !of(&["a", "a"]) && !of(&["a", "b"]));
        assert!(!of(&["a b"]) && !of(&["a/b"]) && !of(&["user@a"]));
    }
}
