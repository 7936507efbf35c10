//! Where a request comes from. Headers in which proxies report the client count only from configured proxies. All others
//! are removed here, so that nothing behind this reads what a client made up.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use http::header::FORWARDED;
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Request};
use redrive_core::ip_range::IpRange;

use super::tls::TlsPair;

/// How the server meets the network.
#[derive(Default)]
pub struct Edge {
    /// None: plain HTTP.
    pub tls: Option<TlsPair>,
    /// A proxy in front speaks TLS to clients.
    pub behind_proxy: bool,
    /// Proxies whose headers are believed.
    pub trusted_proxies: Vec<IpRange>,
}

/// The address of the client that sent a request: an extension of every request. Behind trusted proxies it is the address
/// that the outermost of them saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientAddress(IpAddr);

impl ClientAddress {
    pub fn new(address: IpAddr) -> Self {
        Self(address.to_canonical())
    }

    /// A request that came over no connection is this machine's own.
    pub fn of(extensions: &Extensions) -> Self {
        extensions.get().copied().unwrap_or(Self(IpAddr::V4(Ipv4Addr::LOCALHOST)))
    }

    pub fn ip(self) -> IpAddr {
        self.0
    }
}

impl fmt::Display for ClientAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Says `https` if the client speaks TLS; after [`Peer::admit`] nothing else sets it.
pub(crate) const SCHEME: HeaderName = HeaderName::from_static("x-forwarded-proto");
/// The host that the client asked a trusted proxy for.
pub(crate) const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Headers in which proxies report the scheme, with the value that means TLS.
static SCHEME_HEADERS: [(HeaderName, &str); 8] = [
    (SCHEME, "https"),
    (HeaderName::from_static("x-forwarded-protocol"), "https"),
    (HeaderName::from_static("x-forwarded-scheme"), "https"),
    (HeaderName::from_static("x-url-scheme"), "https"),
    (HeaderName::from_static("x-scheme"), "https"),
    (HeaderName::from_static("cloudfront-forwarded-proto"), "https"),
    (HeaderName::from_static("x-forwarded-ssl"), "on"),
    (HeaderName::from_static("front-end-https"), "on"),
];

impl Edge {
    /// Other machines can reach it, and nothing encrypts what they send.
    pub(super) fn exposes(&self, listen: SocketAddr) -> bool {
        !listen.ip().to_canonical().is_loopback() && self.tls.is_none() && !self.behind_proxy
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.trusted_proxies.iter().any(|range| range.contains(address))
    }

    /// Walks the proxies from the nearest to the first that is not trusted: what it was told by others, it may have made up.
    fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer;
        let mut hops = hops(headers);
        while self.trusts(client) {
            let Some(Some(hop)) = hops.next() else { break };
            client = hop;
        }
        client
    }
}

/// The reported hops, nearest first; none in the place of one that is no address.
fn hops(headers: &HeaderMap) -> Box<dyn Iterator<Item = Option<IpAddr>> + '_> {
    if headers.contains_key(FORWARDED_FOR) {
        return Box::new(list(headers, FORWARDED_FOR).map(hop));
    }
    Box::new(list(headers, FORWARDED).map(|element| hop(pair(element, "for")?)))
}

/// The elements of a list header, last first. A value that is no text has one empty element.
fn list(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    headers.get_all(name).iter().rev().flat_map(|value| value.to_str().unwrap_or_default().rsplit(','))
}

/// `192.0.2.7`, `192.0.2.7:4711`, `2001:db8::7`, `[2001:db8::7]:4711`, quoted or not.
fn hop(text: &str) -> Option<IpAddr> {
    let text = text.trim().trim_matches('"');
    let address: Option<IpAddr> = match text.strip_prefix('[') {
        Some(rest) => rest.split(']').next()?.parse().ok(),
        None => text.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|socket| socket.ip())),
    };
    address.map(|address| address.to_canonical())
}

/// RFC 7239: `for=192.0.2.60;proto=https;by=203.0.113.43`, names in any case, values quoted or not.
fn pair<'a>(element: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = element.split(';').filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(key, _)| key.trim().eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().trim_matches('"'))
}

/// Whether the client speaks TLS to the outermost proxy; none if no header says.
fn reported_tls(headers: &HeaderMap) -> Option<bool> {
    let first = |name: &HeaderName| {
        let value = headers.get(name)?.to_str().unwrap_or_default();
        Some(value.split(',').next().unwrap_or_default().trim())
    };
    let plain = SCHEME_HEADERS.iter().filter_map(|(name, word)| Some(first(name)?.eq_ignore_ascii_case(word)));
    let standard = first(&FORWARDED).and_then(|element| pair(element, "proto"));
    plain.chain(standard.map(|proto| proto.eq_ignore_ascii_case("https"))).reduce(|any, one| any || one)
}

/// The other end of a connection.
#[derive(Clone)]
pub(super) struct Peer {
    pub(super) edge: Arc<Edge>,
    pub(super) address: IpAddr,
}

impl Peer {
    /// Gives a request its [`ClientAddress`] and leaves no header of a proxy that is not trusted.
    pub(super) fn admit<B>(&self, request: &mut Request<B>) {
        let headers = request.headers_mut();
        let is_trusted = self.edge.trusts(self.address);
        let reported = if is_trusted { reported_tls(headers) } else { None };
        let is_tls = reported.unwrap_or(self.edge.tls.is_some() || self.edge.behind_proxy);
        let client = self.edge.client(self.address, headers);
        if !is_trusted {
            headers.remove(FORWARDED_HOST);
        }
        for (name, _) in &SCHEME_HEADERS {
            headers.remove(name);
        }
        headers.remove(FORWARDED_FOR);
        headers.remove(FORWARDED);
        if is_tls {
            headers.insert(SCHEME, HeaderValue::from_static("https"));
        }
        request.extensions_mut().insert(ClientAddress::new(client));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROXY: &str = "10.0.0.1";

    fn edge(trusted: &[&str]) -> Edge {
        let trusted_proxies = trusted.iter().map(|range| range.parse().unwrap()).collect();
        Edge { trusted_proxies, ..Edge::default() }
    }

    fn admitted(edge: Edge, peer: &str, headers: &[(&'static str, &str)]) -> Request<()> {
        let mut request = Request::new(());
        for (name, value) in headers {
            let value = HeaderValue::from_str(value).unwrap();
            request.headers_mut().append(HeaderName::from_static(name), value);
        }
        Peer { edge: Arc::new(edge), address: peer.parse().unwrap() }.admit(&mut request);
        request
    }

    fn client(trusted: &[&str], peer: &str, headers: &[(&'static str, &str)]) -> String {
        ClientAddress::of(admitted(edge(trusted), peer, headers).extensions()).to_string()
    }

    fn is_tls(edge: Edge, peer: &str, headers: &[(&'static str, &str)]) -> bool {
        admitted(edge, peer, headers).headers().get(SCHEME).is_some_and(|scheme| scheme == "https")
    }

    #[test]
    fn the_client_is_the_last_hop_that_is_not_trusted() {
        let trusted = &["10.0.0.0/8", "fd00::/8"];
        for (peer, header, address) in [
            (PROXY, "203.0.113.7", "203.0.113.7"),
            (PROXY, "1.2.3.4, 203.0.113.7", "203.0.113.7"),
            (PROXY, "1.2.3.4,203.0.113.7 , 10.0.0.2,10.0.0.3", "203.0.113.7"),
            (PROXY, "203.0.113.7:4711", "203.0.113.7"),
            (PROXY, "2001:db8::7", "2001:db8::7"),
            (PROXY, "[2001:db8::7]:4711", "2001:db8::7"),
            (PROXY, "::ffff:203.0.113.7", "203.0.113.7"),
            ("::ffff:10.0.0.1", "203.0.113.7", "203.0.113.7"),
            ("fd00::1", "203.0.113.7, fd00::2", "203.0.113.7"),
            // All are proxies: the outermost.
            (PROXY, "10.0.0.3, 10.0.0.2", "10.0.0.3"),
            // What is no address hides what is beyond it.
            (PROXY, "203.0.113.7, unknown", PROXY),
            (PROXY, "203.0.113.7, unknown, 10.0.0.2", "10.0.0.2"),
            (PROXY, "", PROXY),
        ] {
            assert_eq!(client(trusted, peer, &[("x-forwarded-for", header)]), address, "{peer} {header}");
        }
        let two = [("x-forwarded-for", "1.2.3.4"), ("x-forwarded-for", "203.0.113.7")];
        assert_eq!(client(trusted, PROXY, &two), "203.0.113.7");
    }

    #[test]
    fn the_standard_header_counts_where_the_common_one_is_missing() {
        let trusted = &["10.0.0.0/8"];
        for (header, address) in [
            ("for=203.0.113.7", "203.0.113.7"),
            ("For=1.2.3.4, FOR=\"203.0.113.7:80\";proto=https;by=10.0.0.1", "203.0.113.7"),
            ("for=\"[2001:db8::7]:4711\"", "2001:db8::7"),
            ("for=203.0.113.7, proto=https", PROXY),
            ("for=_hidden", PROXY),
        ] {
            assert_eq!(client(trusted, PROXY, &[("forwarded", header)]), address, "{header}");
        }
        // Few proxies set this header, and the others pass on what a client made up.
        let both = [("forwarded", "for=1.2.3.4"), ("x-forwarded-for", "203.0.113.7")];
        assert_eq!(client(trusted, PROXY, &both), "203.0.113.7");
    }

    #[test]
    fn headers_of_other_peers_are_not_believed() {
        let forged = [
            ("x-forwarded-for", "203.0.113.7"),
            ("forwarded", "for=203.0.113.7;proto=https"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-ssl", "on"),
            ("x-forwarded-host", "desk.example"),
        ];
        for trusted in [&[][..], &["10.0.0.0/8"]] {
            let request = admitted(edge(trusted), "198.51.100.9", &forged);
            assert_eq!(ClientAddress::of(request.extensions()).to_string(), "198.51.100.9");
            assert!(request.headers().is_empty(), "{:?}", request.headers());
        }
        let believed = admitted(edge(&["198.51.100.9"]), "198.51.100.9", &forged);
        let mut names: Vec<&str> = believed.headers().keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["x-forwarded-host", "x-forwarded-proto"]);
    }

    #[test]
    fn a_trusted_proxy_reports_tls_in_any_spelling() {
        for (name, value) in [
            ("x-forwarded-proto", "https"),
            ("x-forwarded-proto", "HTTPS"),
            ("x-forwarded-proto", "https, http"),
            ("x-forwarded-proto", " https ,http"),
            ("x-forwarded-protocol", "https"),
            ("x-forwarded-scheme", "https"),
            ("x-url-scheme", "https"),
            ("cloudfront-forwarded-proto", "https"),
            ("x-forwarded-ssl", "on"),
            ("x-forwarded-ssl", "ON"),
            ("front-end-https", "On"),
            ("forwarded", "proto=https"),
            ("forwarded", "for=192.0.2.60; Proto=\"HTTPS\";by=203.0.113.43, for=10.0.0.1;proto=http"),
        ] {
            assert!(is_tls(edge(&["10.0.0.0/8"]), PROXY, &[(name, value)]), "{name}: {value}");
        }
        for (name, value) in [
            ("x-forwarded-proto", "http"),
            ("x-forwarded-proto", "http, https"),
            ("x-forwarded-proto", "httpsx"),
            ("x-forwarded-ssl", "off"),
            ("forwarded", "for=https"),
            ("forwarded", "proto=http, proto=https"),
            ("host", "https"),
        ] {
            assert!(!is_tls(edge(&["10.0.0.0/8"]), PROXY, &[(name, value)]), "{name}: {value}");
        }
    }

    #[test]
    fn a_proxy_in_front_means_tls_unless_it_says_otherwise() {
        let behind = |trusted: &[&str]| Edge { behind_proxy: true, ..edge(trusted) };
        assert!(is_tls(behind(&[]), PROXY, &[]));
        assert!(is_tls(behind(&[]), PROXY, &[("x-forwarded-proto", "http")]), "it is not trusted");
        assert!(is_tls(behind(&[PROXY]), PROXY, &[]));
        assert!(!is_tls(behind(&[PROXY]), PROXY, &[("x-forwarded-proto", "http")]));
        assert!(!is_tls(edge(&[]), PROXY, &[]));
    }

    #[test]
    fn only_loopback_is_served_in_plain_text_without_a_proxy() {
        for (listen, exposed) in [
            ("127.0.0.1:7070", false),
            ("127.8.8.8:7070", false),
            ("[::1]:7070", false),
            ("[::ffff:127.0.0.1]:7070", false),
            ("0.0.0.0:7070", true),
            ("[::]:7070", true),
            ("10.0.0.7:7070", true),
        ] {
            let listen = listen.parse().unwrap();
            assert_eq!(Edge::default().exposes(listen), exposed, "{listen}");
            assert!(!Edge { behind_proxy: true, ..Edge::default() }.exposes(listen), "{listen}");
        }
    }
}
