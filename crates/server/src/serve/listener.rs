//! Accepts connections up to a bound, serves their requests and closes them in order.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, HttpBody};
use bytes::Bytes;
use http::header::HOST;
use http::uri::Authority;
use http::{HeaderMap, Request, Response, Version};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::connections::{ConnectionSlot, Connections, Phase};
use super::connections::{StreamTimeouts, TimedStream};
use crate::limits::ServerLimits;
use redrive_engine::tasks::Tasks;

/// The pause after a failed accept, most likely for want of file handles.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

pub(super) struct Listener {
    pub(super) address: SocketAddr,
    tasks: Arc<Tasks>,
}

impl Listener {
    pub(super) fn start(
        socket: TcpListener,
        router: Router,
        limits: &ServerLimits,
        stop: watch::Receiver<bool>,
    ) -> io::Result<Self> {
        let address = socket.local_addr()?;
        let tasks = Arc::new(Tasks::default());
        let accepting = AcceptLoop {
            socket,
            slots: Connections::new(limits.connections_max, limits.heads_max),
            grace: Duration::from_millis(limits.grace_ms),
            serving: ConnectionServer::new(router, limits),
            connections: Arc::default(),
        };
        tasks.start("accept", accepting.run(stop));
        Ok(Self { address, tasks })
    }

    /// Returns how many connections had to be cut off.
    pub(super) async fn finish(&self, grace: Duration) -> usize {
        self.tasks.finish(grace).await
    }
}

struct AcceptLoop {
    socket: TcpListener,
    slots: Arc<Connections>,
    grace: Duration,
    serving: ConnectionServer,
    connections: Arc<Tasks>,
}

impl AcceptLoop {
    async fn run(self, mut stop: watch::Receiver<bool>) {
        let graceful = GracefulShutdown::new();
        loop {
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => break,
                next = self.next() => {
                    if let Some((stream, slot)) = next {
                        self.serve(stream, slot, &graceful);
                    }
                }
            }
        }
        // New connections are refused from here; open ones are closed as soon as their request is answered.
        drop(self.socket);
        let _ = tokio::time::timeout(self.grace, graceful.shutdown()).await;
        let left = self.connections.finish(Duration::ZERO).await;
        if left > 0 {
            tracing::warn!(connections = left, "connections cut off after the grace time");
        }
    }

    async fn next(&self) -> Option<(TcpStream, ConnectionSlot)> {
        match self.socket.accept().await {
            Ok((stream, _)) => Some((stream, self.slots.admit().await)),
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                self.slots.cut_one();
                tokio::time::sleep(ACCEPT_PAUSE).await;
                None
            }
        }
    }

    fn serve(&self, stream: TcpStream, slot: ConnectionSlot, graceful: &GracefulShutdown) {
        // Answers are small and latency matters; a socket that refuses the option still works.
        let _ = stream.set_nodelay(true);
        let cut = slot.cut();
        let watched = graceful.watch(self.serving.connection(stream, slot));
        self.connections.start("connection", async move {
            tokio::select! {
                // Clients may drop their connection at any time.
                ended = watched => if let Err(error) = ended {
                    tracing::debug!(%error, "connection ended early");
                },
                () = cut.notified() => tracing::debug!("connection closed to make room"),
            }
        });
    }
}

/// Serves a connection over any stream.
struct ConnectionServer {
    router: Router,
    times: StreamTimeouts,
    idle: Duration,
}

impl ConnectionServer {
    fn new(router: Router, limits: &ServerLimits) -> Self {
        Self { router, times: StreamTimeouts::of(limits), idle: Duration::from_millis(limits.idle_timeout_ms) }
    }

    fn connection<S>(&self, stream: S, slot: ConnectionSlot) -> http1::Connection<TokioIo<TimedStream<S>>, RequestFront>
    where
        S: AsyncRead + AsyncWrite + Unpin + 'static,
    {
        let slot = Arc::new(slot);
        let mut http = http1::Builder::new();
        // The head timeout starts with the first byte of a head; before that the connection is idle.
        http.timer(TokioTimer::new()).header_read_timeout(self.idle.max(self.times.head()));
        let stream = TimedStream::new(stream, slot.clone(), self.times);
        http.serve_connection(TokioIo::new(stream), RequestFront::new(self.router.clone(), slot))
    }
}

/// An extension of a request that the router has to refuse for its `Host` header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BadHost;

pub(super) struct RequestFront {
    router: TowerToHyperService<Router>,
    slot: Arc<ConnectionSlot>,
}

impl RequestFront {
    pub(super) fn new(router: Router, slot: Arc<ConnectionSlot>) -> Self {
        Self { router: TowerToHyperService::new(router), slot }
    }
}

impl Service<Request<Incoming>> for RequestFront {
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        self.slot.enter(Phase::Busy);
        let slot = self.slot.clone();
        let answering = |response: Response<Body>| response.map(|body| AnswerBody { body, slot });
        if request.version() >= Version::HTTP_11 && !has_one_host(request.headers()) {
            request.extensions_mut().insert(BadHost);
        }
        let slot = self.slot.clone();
        let answer = self.router.call(request.map(|body| RequestBody { body, ended: false, slot }));
        Box::pin(async move { answer.await.map(answering) })
    }
}

/// The body of a request; tells its connection if it is dropped unread.
struct RequestBody {
    body: Incoming,
    ended: bool,
    slot: Arc<ConnectionSlot>,
}

impl HttpBody for RequestBody {
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

impl Drop for RequestBody {
    fn drop(&mut self) {
        if !self.ended && !self.body.is_end_stream() {
            self.slot.left_unread();
        }
    }
}

/// The body of an answer; tells its connection when it is complete.
pub(super) struct AnswerBody {
    body: Body,
    slot: Arc<ConnectionSlot>,
}

impl HttpBody for AnswerBody {
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

impl Drop for AnswerBody {
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
    use axum::routing::get;
    use http::HeaderValue;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

    use super::*;
    use crate::serve::connections::Phase;

    const LARGE: usize = 1024 * 1024;

    /// The client's end of a connection, and the result of serving it.
    fn connect() -> (DuplexStream, Arc<Connections>, impl Future<Output = hyper::Result<()>>) {
        let router =
            Router::new().route("/large", get(|| async { vec![b'x'; LARGE] })).route("/", get(|| async { "" }));
        let connections = Connections::new(10, 10);
        let serving = ConnectionServer::new(router, &ServerLimits::default());
        let (client, server) = duplex(64 * 1024);
        let slots = connections.clone();
        let served = async move { serving.connection(server, slots.admit().await).await };
        (client, connections, served)
    }

    async fn ask(client: &mut DuplexStream, path: &str) {
        client.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
    }

    async fn seconds<T>(future: impl Future<Output = T>) -> (u64, T) {
        let began = tokio::time::Instant::now();
        let done = future.await;
        (began.elapsed().as_secs(), done)
    }

    #[tokio::test(start_paused = true)]
    async fn an_unread_answer_closes_its_connection() {
        let (mut client, connections, served) = connect();
        ask(&mut client, "/large").await;
        let (after, ended) = seconds(served).await;
        assert!(ended.is_err());
        assert_eq!((after, connections.phases().len()), (30, 0));
        drop(client);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_read_by_drips_closes_its_connection() {
        let (mut client, _connections, served) = connect();
        ask(&mut client, "/large").await;
        let dripping = async {
            loop {
                let _ = client.read_u8().await;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let ended = async {
            tokio::select! { ended = served => ended, () = dripping => Ok(()) }
        };
        let (after, ended) = seconds(ended).await;
        assert!(ended.is_err());
        assert!((30..=31).contains(&after), "{after}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_read_slowly_arrives() {
        let (mut client, connections, served) = connect();
        let slow = async {
            ask(&mut client, "/large").await;
            let mut taken = 0;
            let mut piece = vec![0; 32 * 1024];
            while taken < LARGE {
                taken += client.read(&mut piece).await.unwrap();
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
            let phases = connections.phases();
            drop(client);
            phases
        };
        let (ended, phases) = tokio::join!(served, slow);
        assert_eq!((ended.is_ok(), phases), (true, vec![Phase::Idle]));
    }

    #[tokio::test(start_paused = true)]
    async fn half_a_head_is_waited_for_ten_seconds() {
        let (mut client, _connections, served) = connect();
        client.write_all(b"GET / HTTP/1.1\r\nho").await.unwrap();
        let (after, ended) = seconds(served).await;
        assert!(ended.is_err());
        assert_eq!(after, 10);
    }

    #[tokio::test(start_paused = true)]
    async fn half_of_a_second_head_is_waited_for_ten_seconds() {
        let (mut client, connections, served) = connect();
        let client = async {
            let mut answer = [0; 15];
            ask(&mut client, "/").await;
            client.read_exact(&mut answer).await.unwrap();
            tokio::time::sleep(Duration::from_secs(5)).await;
            let idle = connections.phases();
            client.write_all(b"GET / HTTP/1.1\r\nho").await.unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
            (idle, connections.phases(), client)
        };
        let (after, (ended, (idle, head, _client))) = seconds(async { tokio::join!(served, client) }).await;
        assert!(ended.is_err());
        assert_eq!((idle, head, after), (vec![Phase::Idle], vec![Phase::Head], 15));
    }

    async fn ask_with_body(client: &mut DuplexStream) {
        let head = format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {LARGE}\r\n\r\n");
        client.write_all(head.as_bytes()).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_reaches_a_client_that_sends_its_whole_body() {
        let (mut client, _connections, served) = connect();
        let client = async {
            ask_with_body(&mut client).await;
            for _ in 0..LARGE / 1024 {
                client.write_all(&[b'x'; 1024]).await.unwrap();
                tokio::task::yield_now().await;
            }
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            answer
        };
        let (ended, answer) = tokio::join!(served, client);
        assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
        assert!(ended.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_stalling_after_its_refusal_ends_in_five_seconds() {
        let (mut client, connections, served) = connect();
        let client = async {
            ask_with_body(&mut client).await;
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            (answer, connections.phases(), client)
        };
        let (after, (_, (answer, phases, _client))) = seconds(async { tokio::join!(served, client) }).await;
        assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
        assert_eq!((after, phases), (5, vec![Phase::Idle]), "and it makes way for others meanwhile");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_dripping_after_its_refusal_ends_in_time() {
        let (mut client, _connections, served) = connect();
        ask_with_body(&mut client).await;
        let dripping = async {
            loop {
                let _ = client.write_all(&[b'x'; 16 * 1024]).await;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let ended = async {
            tokio::select! { ended = served => ended, () = dripping => Ok(()) }
        };
        assert_eq!(seconds(ended).await.0, 30);
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_is_kept_for_thirty_seconds() {
        let (mut client, _connections, served) = connect();
        ask(&mut client, "/").await;
        let (after, _) = seconds(served).await;
        assert_eq!(after, 30);
    }

    #[test]
    fn exactly_one_host_header_is_required() {
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
