//! What every request of a connection goes through first. HTTP/1.1 asks for one `Host` header, no less and no more: two
//! of them are how requests are smuggled past a proxy. From here on its connection is busy, until the answer is sent.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::response::IntoResponse as _;
use bytes::Bytes;
use http::header::HOST;
use http::uri::Authority;
use http::{HeaderMap, Request, Response, Version};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;

use super::connections::{Phase, Slot};
use crate::problem::{Code, Problem};

/// Answers a request that names no host, or two, before anybody looks at it.
pub(super) struct Front {
    router: TowerToHyperService<Router>,
    slot: Arc<Slot>,
}

impl Front {
    pub(super) fn new(router: Router, slot: Arc<Slot>) -> Self {
        Self { router: TowerToHyperService::new(router), slot }
    }
}

impl Service<Request<Incoming>> for Front {
    type Response = Response<Answering>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        self.slot.enter(Phase::Busy);
        let slot = self.slot.clone();
        let answering = |response: Response<Body>| response.map(|body| Answering { body, slot });
        if request.version() >= Version::HTTP_11 && !has_one_host(request.headers()) {
            drop(request.map(|body| Asking { body, ended: false, slot: self.slot.clone() }));
            return Box::pin(std::future::ready(Ok(answering(Problem::plain(Code::BadHost).into_response()))));
        }
        let slot = self.slot.clone();
        let answer = self.router.call(request.map(|body| Asking { body, ended: false, slot }));
        Box::pin(async move { answer.await.map(answering) })
    }
}

/// The body of a request; its connection hears when somebody has lost interest before its end.
struct Asking {
    body: Incoming,
    ended: bool,
    slot: Arc<Slot>,
}

impl HttpBody for Asking {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        self.ended |= matches!(frame, Poll::Ready(None));
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        if !self.ended && !self.body.is_end_stream() {
            self.slot.left_unread();
        }
    }
}

/// The body of an answer; its connection hears when all of it was handed over.
pub(super) struct Answering {
    body: Body,
    slot: Arc<Slot>,
}

impl HttpBody for Answering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.slot.answered();
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
