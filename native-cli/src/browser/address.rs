//! Listening address of a server, its URLs, and the check that a request comes from the server's own page.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use axum::http::Request;
use axum::http::header::{self, HeaderName, HeaderValue};

/// Listening address of a server.
#[derive(Debug, Clone, Copy)]
pub struct At {
    /// IP address of the interface.
    pub host: IpAddr,
    /// Port; 0 selects any free port.
    pub port: u16,
    /// Whether the server uses HTTPS, with a certificate generated for it.
    pub tls: bool,
}

impl At {
    /// Returns the loopback address, which only this machine reaches.
    pub fn loopback(port: u16) -> At {
        At { host: Ipv4Addr::LOCALHOST.into(), port, tls: false }
    }
}

/// Both ends of the connection of a request. Every request has them among its extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    /// Remote end.
    pub sender: Sender,
    /// Local end: an address of this machine, and the port.
    pub local: SocketAddr,
}

/// Remote end of a connection, as limits count it. An IPv4 address counts by itself. An IPv6 address counts by its
/// 64-bit network, which belongs to one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sender(IpAddr);

impl Sender {
    /// Returns the sender of an address.
    pub fn new(address: IpAddr) -> Sender {
        Sender(match address.to_canonical() {
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
            address => address,
        })
    }
}

/// URLs of a server.
#[derive(Debug, Clone)]
pub struct Address {
    scheme: &'static str,
    /// Default port of the scheme, which browsers leave out.
    usual: u16,
    /// Hosts with ports under which pages may address the server. The first is for display.
    pub(super) authorities: Vec<String>,
}

impl Address {
    /// Returns the address of a server at these hosts. The first is for display.
    pub fn new(hosts: &[String], port: u16, tls: bool) -> Address {
        let (scheme, usual) = if tls { ("https", 443) } else { ("http", 80) };
        let authority = |host: &String| if port == usual { host.clone() } else { format!("{host}:{port}") };
        Address { scheme, usual, authorities: hosts.iter().map(authority).collect() }
    }

    /// Returns the URL of the front page, with a final slash.
    pub fn url(&self) -> String {
        format!("{}://{}/", self.scheme, self.authorities[0])
    }

    /// Returns whether a request is from the server's own page. The check is necessary because any site in any browser
    /// can send requests to any interface that its user reaches. A page may address the server by one of its names, or
    /// by the local address of the request's connection.
    pub fn is_ours<B>(&self, request: &Request<B>) -> bool {
        let named = |name: HeaderName| request.headers().get(name).map(HeaderValue::as_bytes);
        let Some(host) = named(header::HOST).and_then(|host| std::str::from_utf8(host).ok()) else { return false };
        let arrived = || request.extensions().get::<Ends>().is_some_and(|ends| self.names(host, ends.local));
        (self.authorities.iter().any(|authority| authority == host) || arrived())
            && named(header::ORIGIN).is_none_or(|origin| origin == format!("{}://{host}", self.scheme).as_bytes())
    }

    /// Returns whether a host, with its port unless that is the default port, is this local address.
    fn names(&self, host: &str, local: SocketAddr) -> bool {
        let local = SocketAddr::new(local.ip().to_canonical(), local.port());
        let alone = || host.trim_matches(['[', ']']).parse().map(|ip| SocketAddr::new(ip, self.usual));
        host.parse().or_else(|_| alone()) == Ok(local)
    }
}

/// Returns names and addresses that reach a bound address, from other machines and from this one. The first is for
/// display.
pub fn hosts(bound: IpAddr) -> Vec<String> {
    let text = |ip: IpAddr| if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() };
    let loopback =
        || -> IpAddr { if bound.is_ipv6() { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() } };
    let mut hosts = Vec::new();
    if bound.is_unspecified() {
        hosts.extend(outward(bound).map(text));
        hosts.push(text(loopback()));
    } else {
        hosts.push(text(bound));
    }
    if bound.is_unspecified() || bound.is_loopback() {
        hosts.push("localhost".to_owned());
    }
    hosts
}

/// Returns the address of this machine on the network of its default route. The system looks up a route; no packet is
/// sent.
fn outward(any: IpAddr) -> Option<IpAddr> {
    let far: SocketAddr =
        if any.is_ipv6() { ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], 9).into() } else { ([192, 0, 2, 1], 9).into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect(far).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_what_a_browser_names() {
        let both = hosts(Ipv4Addr::LOCALHOST.into());
        let all = ["192.0.2.1".to_owned(), "127.0.0.1".to_owned(), "localhost".to_owned()];
        let (local, lan) = ("127.0.0.1:8080", "198.51.100.7:8080");
        for (address, at, host, origin, ours) in [
            (Address::new(&both, 8080, false), local, "127.0.0.1:8080", "http://127.0.0.1:8080", true),
            (Address::new(&both, 8080, false), local, "localhost:8080", "http://localhost:8080", true),
            (Address::new(&both, 8080, false), local, "localhost:8080", "", true),
            (Address::new(&both, 8080, false), local, "localhost:8080", "http://127.0.0.1:8080", false),
            (Address::new(&both, 8080, false), local, "localhost:8080", "null", false),
            (Address::new(&both, 8080, true), local, "127.0.0.1:8080", "http://127.0.0.1:8080", false),
            (Address::new(&both, 443, true), "127.0.0.1:443", "127.0.0.1", "https://127.0.0.1", true),
            (Address::new(&both, 8080, false), local, "", "", false),
            // The host may also be the address of the interface that receives the request.
            (Address::new(&all, 8080, false), lan, "198.51.100.7:8080", "http://198.51.100.7:8080", true),
            (Address::new(&all, 8080, false), lan, "198.51.100.7:8080", "http://192.0.2.1:8080", false),
            (Address::new(&all, 8080, false), lan, "198.51.100.7:8081", "", false),
            (Address::new(&all, 8080, false), lan, "198.51.100.7", "", false),
            (Address::new(&all, 8080, false), lan, "198.51.100.8:8080", "", false),
            (Address::new(&all, 8080, false), lan, "elsewhere.example:8080", "", false),
            (Address::new(&all, 8080, false), "[::ffff:198.51.100.7]:8080", "198.51.100.7:8080", "", true),
            (Address::new(&all, 8080, false), "[2001:db8::7]:8080", "[2001:db8::7]:8080", "", true),
            (Address::new(&all, 443, true), "[2001:db8::7]:443", "[2001:db8::7]", "https://[2001:db8::7]", true),
            (Address::new(&all, 80, false), "198.51.100.7:80", "198.51.100.7", "http://198.51.100.7", true),
        ] {
            let ends = Ends { sender: Sender::new(Ipv4Addr::LOCALHOST.into()), local: at.parse().expect("an address") };
            let mut request = Request::builder().extension(ends);
            for (name, text) in [(header::HOST, host), (header::ORIGIN, origin)] {
                request = if text.is_empty() { request } else { request.header(name, text) };
            }
            assert_eq!(address.is_ours(&request.body(()).expect("a request")), ours, "{at} {host} {origin}");
        }
        assert_eq!(hosts(Ipv6Addr::LOCALHOST.into()), ["[::1]", "localhost"]);
        assert_eq!(hosts(IpAddr::from([192, 0, 2, 7])), ["192.0.2.7"]);
    }

    #[test]
    fn a_sender_is_an_address_or_the_network_of_a_device() {
        let of = |address: &str| Sender::new(address.parse().expect("an address"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!(of("2001:db8:0:1::5"), of("2001:db8:0:1:ffff::6"));
        assert_ne!(of("2001:db8:0:1::5"), of("2001:db8:0:2::5"));
    }
}
