use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use redrive_core::outbound::SpecialUse;
use reqwest::dns::{Addrs, Name, Resolving};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::*;

/// Answers each name with its addresses, and a name that has several answers with one after the other.
#[derive(Default)]
struct Names {
    answers: HashMap<&'static str, Vec<Vec<IpAddr>>>,
    asked: AtomicUsize,
}

impl Names {
    fn with(mut self, name: &'static str, answers: &[&[&str]]) -> Self {
        let answers = answers.iter().map(|one| one.iter().map(|ip| ip.parse().unwrap()).collect()).collect();
        self.answers.insert(name, answers);
        self
    }
}

impl Resolve for Names {
    fn resolve(&self, name: Name) -> Resolving {
        let turn = self.asked.fetch_add(1, Ordering::SeqCst);
        let answers = self.answers.get(name.as_str());
        let answer = answers.map(|all| all[turn.min(all.len() - 1)].clone());
        Box::pin(async move {
            let found = answer.ok_or_else(|| std::io::Error::other("no such name"))?;
            Ok(Box::new(found.into_iter().map(|ip| SocketAddr::new(ip, 0))) as Addrs)
        })
    }
}

fn allowing(ranges: &[&str]) -> OutboundPolicy {
    OutboundPolicy::new(ranges.iter().map(|range| range.parse().unwrap()).collect())
}

fn url(text: &str) -> OutboundUrl {
    text.parse().unwrap()
}

fn get(text: &str) -> OutboundRequest {
    OutboundRequest::new(Method::GET, url(text))
}

/// A server that gives every connection this answer, then closes it.
struct Fixed {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    _tasks: JoinSet<()>,
}

impl Fixed {
    async fn on(ip: &str, answer: &'static str) -> Self {
        let listener = TcpListener::bind((ip, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = requests.clone();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    match stream.read_u8().await {
                        Ok(byte) => head.push(byte),
                        Err(_) => break,
                    }
                }
                seen.lock().unwrap().push(String::from_utf8(head).unwrap());
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        Self { address, requests, _tasks: tasks }
    }

    fn count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }
}

const OK: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";

/// Promise T7: each form names an address that is not public.
const REFUSED_FORMS: [&str; 62] = [
    "http://127.0.0.1",
    "http://127.0.0.1.",
    "https://127.0.0.1:8443/path",
    "http://127.1",
    "http://127.0.1",
    "http://2130706433",
    "http://2130706433.",
    "http://0x7f000001",
    "http://0x7F.1",
    "http://0x7f.0x0.0x0.0x1",
    "http://0177.0.0.1",
    "http://0177.1",
    "http://017700000001",
    "http://00000177.0.0.1",
    "http://127.0.0.0x1",
    "http://127.000.000.001",
    "http://0",
    "http://0.0.0.0",
    "http://0x0",
    "http://[::]",
    "http://[::1]",
    "http://[0:0:0:0:0:0:0:1]:80",
    "http://[0000:0000:0000:0000:0000:0000:0000:0001]",
    "http://[::127.0.0.1]",
    "http://[::7f00:1]",
    "http://[::ffff:127.0.0.1]",
    "http://[::ffff:7f00:1]",
    "http://[::FFFF:0x7f]",
    "http://[0:0:0:0:0:ffff:127.0.0.1]",
    "http://[::ffff:10.0.0.1]",
    "http://[::ffff:8.8.8.8]",
    "http://[::ffff:0:127.0.0.1]",
    "http://[64:ff9b::7f00:1]",
    "http://[64:ff9b::127.0.0.1]",
    "http://[64:ff9b:1::a00:1]",
    "http://[2002:7f00:1::]",
    "http://[2002:a00:1::1]",
    "http://[2001:0:7f00:1::]",
    "http://[fe80::1]",
    "http://[fc00::1]",
    "http://[fd00:ec2::254]/latest/meta-data/",
    "http://[ff02::1]",
    "http://[2001:db8::1]",
    "http://10.0.0.1",
    "http://167772161",
    "http://012.0.0.1",
    "http://172.16.0.1",
    "http://172.31.255.255",
    "http://192.168.1.1",
    "http://192.168.257",
    "http://100.64.0.1",
    "http://169.254.169.254/latest/meta-data/",
    "http://2852039166",
    "http://0xa9fea9fe",
    "http://0251.0376.0251.0376",
    "http://168.63.129.16",
    "http://198.18.0.1",
    "http://224.0.0.1",
    "http://255.255.255.255",
    "http://\u{ff11}\u{ff12}\u{ff17}.0.0.1",
    "http://127\u{3002}0\u{3002}0\u{3002}1",
    "http://%31%32%37.0.0.1",
];

/// Some forms of the table are no URL at all, which is as good.
#[tokio::test]
async fn no_form_of_a_special_address_is_reached() {
    let outbound = Outbound::with_resolver(OutboundPolicy::default(), Arc::new(Names::default())).unwrap();
    let mut refused = 0;
    for form in REFUSED_FORMS {
        let Ok(url) = form.parse::<OutboundUrl>() else { continue };
        let sent = outbound.send(OutboundRequest::new(Method::GET, url)).await;
        assert!(
            matches!(&sent, Err(error @ OutboundError::Refused { .. }) if error.is_permanent()),
            "{form}: {sent:?}"
        );
        refused += 1;
    }
    assert_eq!(refused, REFUSED_FORMS.len() - 1, "one form is malformed");
}

#[test]
fn urls_with_other_schemes_or_credentials_are_refused() {
    for (text, bad) in [
        ("ftp://example.com", BadOutboundUrl::Scheme),
        ("file:///etc/passwd", BadOutboundUrl::Scheme),
        ("gopher://127.0.0.1:6379/_x", BadOutboundUrl::Scheme),
        ("javascript:alert(1)", BadOutboundUrl::Scheme),
        ("http://user@example.com", BadOutboundUrl::Credentials),
        ("http://user:secret@example.com", BadOutboundUrl::Credentials),
        ("http://:secret@example.com", BadOutboundUrl::Credentials),
        ("http://example.com@127.0.0.1", BadOutboundUrl::Credentials),
        ("http://example.com:80@10.0.0.1", BadOutboundUrl::Credentials),
        ("http:\\\\example.com@127.0.0.1", BadOutboundUrl::Credentials),
    ] {
        assert_eq!(text.parse::<OutboundUrl>(), Err(bad), "{text}");
    }
    for text in
        ["", "example.com", "http://", "http://[::1", "http://a b", "http://127.0.0.1.1.1", "http://[fe80::1%25eth0]"]
    {
        assert!(matches!(text.parse::<OutboundUrl>(), Err(BadOutboundUrl::Malformed(_))), "{text}");
    }
    let long = format!("http://example.com/{}", "a".repeat(URL_MAX_BYTES));
    assert_eq!(long.parse::<OutboundUrl>(), Err(BadOutboundUrl::TooLong));
}

#[test]
fn the_host_of_a_tricky_url_is_the_one_connected_to() {
    for (text, host) in [
        ("http://127.0.0.1#@example.com", "127.0.0.1"),
        ("http://127.0.0.1?@example.com", "127.0.0.1"),
        ("http://127.0.0.1\\@example.com", "127.0.0.1"),
        ("http:127.0.0.1", "127.0.0.1"),
        ("http:/\\127.0.0.1", "127.0.0.1"),
        ("http://EXAMPLE.com.", "example.com."),
        ("http://b\u{fc}cher.example", "xn--bcher-kva.example"),
        ("http://ex\u{ad}ample.com", "example.com"),
        ("http://\u{24de}\u{2468}.example", "o9.example"),
        ("http://exa\tmple.com", "example.com"),
    ] {
        assert_eq!(url(text).host_text(), host, "{text:?}");
    }
}

#[tokio::test]
async fn a_name_with_only_special_addresses_is_refused() {
    let names = Names::default()
        .with("localhost", &[&["127.0.0.1", "::1"]])
        .with("localhost.", &[&["127.0.0.1"]])
        .with("private.example", &[&["10.0.0.5", "fd00::5"]])
        .with("metadata.google.internal", &[&["169.254.169.254"]])
        .with("nat64.example", &[&["64:ff9b::a00:1"]])
        .with("mapped.example", &[&["::ffff:127.0.0.1"]])
        .with("any.example", &[&["0.0.0.0"]]);
    let hosts: Vec<&'static str> = names.answers.keys().copied().collect();
    let outbound = Outbound::with_resolver(allowing(&["10.20.0.0/16"]), Arc::new(names)).unwrap();
    for host in hosts {
        let sent = outbound.send(get(&format!("http://{host}/"))).await;
        assert!(matches!(&sent, Err(OutboundError::Refused { host: of, .. }) if of == host), "{host}: {sent:?}");
    }
}

#[tokio::test]
async fn the_system_resolver_is_checked_too() {
    let outbound = Outbound::new(OutboundPolicy::default()).unwrap();
    let error = outbound.send(get("http://localhost:1/hook?token=secret")).await.unwrap_err();
    assert!(matches!(&error, OutboundError::Refused { refused, .. } if refused.special_use == SpecialUse::Loopback));
    let text = format!("{error} {error:?}");
    assert!(text.contains("localhost is not reached") && !text.contains("secret"), "{text}");
}

/// The address that was checked is the address that is connected to, also when the name has another one a moment later.
#[tokio::test]
async fn a_rebound_name_is_checked_again_before_its_use() {
    let allowed = Fixed::on("127.0.0.1", OK).await;
    let forbidden = TcpListener::bind(("127.0.0.2", allowed.address.port())).await.unwrap();
    let names = Arc::new(Names::default().with("rebind.example", &[&["127.0.0.1"], &["127.0.0.2"]]));
    let outbound = Outbound::with_resolver(allowing(&["127.0.0.1/32"]), names.clone()).unwrap();
    let target = format!("http://rebind.example:{}/", allowed.address.port());

    let answer = outbound.send(get(&target)).await.unwrap();
    assert_eq!((answer.address, names.asked.load(Ordering::SeqCst)), (Some(allowed.address), 1), "resolved once");
    let error = outbound.send(get(&target)).await.unwrap_err();
    assert!(
        matches!(&error, OutboundError::Refused { refused, .. } if refused.address.to_string() == "127.0.0.2"),
        "{error}"
    );
    let nobody = tokio::time::timeout(Duration::ZERO, forbidden.accept()).await;
    assert!(nobody.is_err(), "nothing connected to the second address");
}

#[tokio::test]
async fn of_several_addresses_only_allowed_ones_are_used() {
    let server = Fixed::on("127.0.0.1", OK).await;
    let names = Names::default().with("both.example", &[&["127.0.0.2", "169.254.169.254", "127.0.0.1"]]);
    let outbound = Outbound::with_resolver(allowing(&["127.0.0.1/32"]), Arc::new(names)).unwrap();
    let target = format!("http://both.example:{}/", server.address.port());
    assert_eq!(outbound.send(get(&target)).await.unwrap().address, Some(server.address));
    let verdicts = outbound.check(&url(&target)).await.unwrap();
    assert_eq!(verdicts.iter().map(|one| one.verdict.is_ok()).collect::<Vec<_>>(), [false, false, true]);
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let target = Fixed::on("127.0.0.1", OK).await;
    let location = format!("http://{}/internal", target.address);
    let redirect =
        format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
    let server = Fixed::on("127.0.0.1", redirect.leak()).await;
    let outbound = Outbound::new(allowing(&["127.0.0.1/32"])).unwrap();
    let answer = outbound.send(get(&format!("http://{}/", server.address))).await.unwrap();
    assert_eq!((answer.status, answer.headers["location"].to_str().unwrap()), (StatusCode::FOUND, location.as_str()));
    assert_eq!((server.count(), target.count()), (1, 0));
}

#[tokio::test]
async fn a_request_carries_its_headers_and_no_proxy_is_used() {
    let server = Fixed::on("127.0.0.1", OK).await;
    let outbound = Outbound::new(allowing(&["127.0.0.1/32"])).unwrap();
    let request = OutboundRequest::new(Method::POST, url(&format!("http://{}/hook", server.address)))
        .with_header(HeaderName::from_static("x-signature"), HeaderValue::from_static("abc"))
        .with_body("");
    let answer = outbound.send(request).await.unwrap();
    assert_eq!((answer.status, &answer.body[..], answer.is_cut), (StatusCode::OK, &b"ok"[..], false));
    let head = server.requests.lock().unwrap()[0].to_ascii_lowercase();
    assert!(head.starts_with("post /hook http/1.1") && head.contains("x-signature: abc"), "{head}");
    assert!(head.contains(&format!("user-agent: {USER_AGENT}")) && !head.contains("referer"), "{head}");
}

#[tokio::test]
async fn a_long_answer_is_cut_at_its_bound() {
    let body = "x".repeat(300_000);
    let answer = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 300000\r\n\r\n{body}");
    let server = Fixed::on("127.0.0.1", answer.leak()).await;
    let outbound = Outbound::new(allowing(&["127.0.0.1/32"])).unwrap();
    for (max, got, is_cut) in [(1_000, 1_000, true), (0, 0, true), (300_000, 300_000, false)] {
        let request = get(&format!("http://{}/", server.address));
        let answer = outbound.send(OutboundRequest { answer_max_bytes: max, ..request }).await.unwrap();
        assert_eq!((answer.body.len(), answer.is_cut), (got, is_cut), "{max}");
    }
}

#[tokio::test]
async fn other_failures_are_transient_and_named() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let outbound = Outbound::with_resolver(allowing(&["127.0.0.1/32"]), Arc::new(Names::default())).unwrap();
    let request = OutboundRequest {
        timeout: Duration::from_millis(50),
        ..get(&format!("http://{}/", silent.local_addr().unwrap()))
    };
    let late = outbound.send(request).await.unwrap_err();
    assert_eq!(late.to_string(), "127.0.0.1 did not answer within 50 ms");
    let refused = outbound.send(get(&format!("http://{closed}/"))).await.unwrap_err();
    assert!(refused.to_string().starts_with("127.0.0.1 can't be reached: "), "{refused}");
    let unknown = outbound.send(get("http://nowhere.example/")).await.unwrap_err();
    assert_eq!(unknown.to_string(), "the name nowhere.example was not resolved: no such name");
    assert!([late, refused, unknown].iter().all(|error| !error.is_permanent()));
}

/// The same address in each of the spellings that URL parsers accept.
fn spelled(bits: u32, way: usize) -> String {
    let [a, b, c, d] = bits.to_be_bytes();
    let tail = bits & 0x00ff_ffff;
    let v4 = Ipv4Addr::from_bits(bits);
    match way {
        0 => format!("{v4}"),
        1 => format!("{bits}"),
        2 => format!("{bits:#x}"),
        3 => format!("0{bits:o}"),
        4 => format!("{a:#x}.{b:#x}.{c:#x}.{d:#x}"),
        5 => format!("0{a:o}.0{b:o}.0{c:o}.0{d:o}"),
        6 => format!("{a}.{tail}"),
        7 => format!("{a}.{b}.{}", u32::from(c) * 256 + u32::from(d)),
        8 => format!("{v4}."),
        9 => format!("[::ffff:{v4}]"),
        10 => format!("[::{v4}]"),
        11 => format!("[64:ff9b::{v4}]"),
        _ => format!("[2002:{:x}:{:x}::1]", bits >> 16, bits & 0xffff),
    }
}

proptest! {
    #[test]
    fn no_spelling_of_a_private_address_passes(low: u32, block in 0_usize..6, way in 0_usize..13) {
        let (network, bits): (u32, u32) = [
            (0x7f00_0000, 8), (0x0a00_0000, 8), (0xac10_0000, 12), (0xc0a8_0000, 16), (0xa9fe_0000, 16), (0x6440_0000, 10),
        ][block];
        let address = network | (low & (u32::MAX >> bits));
        let url = url(&format!("http://{}/", spelled(address, way)));
        let resolver = CheckedResolver::new(OutboundPolicy::default(), Arc::new(Names::default()));
        let refused = match url.host() {
            Host::Domain(_) => false,
            Host::Ipv4(v4) => resolver.check(v4.into()).verdict.is_err(),
            Host::Ipv6(v6) => resolver.check(v6.into()).verdict.is_err(),
        };
        prop_assert!(refused, "{:?}", url);
    }

    /// Whatever the text is, its host is never a name that a connector would read as an address.
    #[test]
    fn a_parsed_name_is_never_an_address(host in "[0-9a-fxX.:\\[\\]%]{1,20}") {
        if let Ok(url) = format!("http://{host}/").parse::<OutboundUrl>()
            && let Host::Domain(name) = url.host()
        {
            prop_assert!(name.parse::<IpAddr>().is_err(), "{}", name);
            prop_assert!(name.trim_matches(['[', ']']).parse::<IpAddr>().is_err(), "{}", name);
        }
    }
}
