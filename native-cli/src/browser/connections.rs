//! Connections to a server, with limits on their number and idle time.
//!
//! A connection beyond the limit replaces another one: of those that wait for their sender, the one that waits longest.
//! Idle connections therefore cannot block the server for any sender.

use std::collections::HashMap;
use std::io::{Error, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::TlsAcceptor;

use super::address::{Ends, Sender};

/// Limits of a server on its connections.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Time limit of a TLS handshake.
    pub handshake: Duration,
    /// Time limit of the head of a request, and of the wait between requests.
    pub head: Duration,
    /// Time limit of the body of a request.
    pub body: Duration,
    /// Time limit without progress, within a body and within the transmission of a response.
    pub stall: Duration,
    /// Maximum number of connections of one sender.
    pub each: usize,
    /// Maximum number of connections. Systems give a program at least 256 descriptors.
    pub all: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        let seconds = Duration::from_secs;
        Limits { handshake: seconds(3), head: seconds(10), body: seconds(60), stall: seconds(10), each: 64, all: 192 }
    }
}

/// Memory for the heads of one connection, in bytes. A longer head is refused.
const HEAD: usize = 64 << 10;
/// Wait after the system has no descriptor for another connection.
const BREATH: Duration = Duration::from_millis(20);

/// Open connections by number.
#[derive(Default)]
struct Open {
    last: u64,
    all: HashMap<u64, Connection>,
}

struct Connection {
    sender: Sender,
    /// Whether the server is answering a request of the connection.
    busy: bool,
    /// Time of the last change of `busy`.
    since: Instant,
    task: AbortHandle,
}

impl Open {
    /// Closes connections until another one of this sender is within the limits.
    fn make_room(&mut self, sender: Sender, limits: &Limits) {
        while self.of(sender) >= limits.each {
            self.end_longest_of(sender);
        }
        while self.all.len() >= limits.all {
            self.end_longest();
        }
    }

    fn of(&self, sender: Sender) -> usize {
        self.all.values().filter(|connection| connection.sender == sender).count()
    }

    /// Closes the connection that waits longest, of the sender with the most connections.
    fn end_longest(&mut self) {
        let mut counts: HashMap<Sender, usize> = HashMap::new();
        for connection in self.all.values() {
            *counts.entry(connection.sender).or_default() += 1;
        }
        if let Some((sender, _)) = counts.into_iter().max_by_key(|(_, count)| *count) {
            self.end_longest_of(sender);
        }
    }

    fn end_longest_of(&mut self, sender: Sender) {
        let of_sender = self.all.iter().filter(|(_, connection)| connection.sender == sender);
        let longest = of_sender.min_by_key(|(number, connection)| (connection.busy, connection.since, **number));
        if let Some(number) = longest.map(|(number, _)| *number)
            && let Some(connection) = self.all.remove(&number)
        {
            connection.task.abort();
        }
    }
}

/// Open connections of one server.
#[derive(Default)]
struct Connections(Mutex<Open>);

impl Connections {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(|broken| broken.into_inner())
    }
}

/// Entry of one connection among the others. Dropping it removes the entry.
struct Seat {
    number: u64,
    connections: Arc<Connections>,
}

impl Seat {
    fn is_busy(&self, busy: bool) {
        if let Some(connection) = self.connections.open().all.get_mut(&self.number) {
            (connection.busy, connection.since) = (busy, Instant::now());
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.connections.open().all.remove(&self.number);
    }
}

/// Accepts and serves connections within the limits, until the future is dropped.
pub async fn serve(listener: TcpListener, tls: Option<TlsAcceptor>, router: Router, limits: Limits) {
    let connections = Arc::new(Connections::default());
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                let sender = Sender::new(from.ip());
                let mut open = connections.open();
                open.make_room(sender, &limits);
                open.last += 1;
                let number = open.last;
                let seat = Seat { number, connections: connections.clone() };
                let task = tokio::spawn(attend(stream, sender, tls.clone(), router.clone(), limits, seat));
                let task = task.abort_handle();
                open.all.insert(number, Connection { sender, busy: false, since: Instant::now(), task });
            }
            Err(error) if is_of_one_connection(&error) => continue,
            Err(error) => {
                log::warn!("no free connection ({error}); a waiting one is closed");
                connections.open().end_longest();
                sleep(BREATH).await;
            }
        }
        // Aborted connections close at this point.
        tokio::task::yield_now().await;
    }
}

fn is_of_one_connection(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::Interrupted
    )
}

/// Serves one connection from beginning to end. Its errors concern its sender alone.
async fn attend(
    stream: TcpStream,
    sender: Sender,
    tls: Option<TlsAcceptor>,
    router: Router,
    limits: Limits,
    seat: Seat,
) {
    let Ok(local) = stream.local_addr() else { return };
    let ends = Ends { sender, local };
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(limits.stall));
    let stream = Box::pin(stream);
    match tls {
        None => answer(stream, ends, router, limits, seat).await,
        Some(tls) => {
            if let Ok(Ok(stream)) = timeout(limits.handshake, tls.accept(stream)).await {
                answer(stream, ends, router, limits, seat).await;
            }
        }
    }
}

async fn answer<S>(stream: S, ends: Ends, router: Router, limits: Limits, seat: Seat)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (seat, router) = (Arc::new(seat), TowerToHyperService::new(router));
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ends);
        request.extensions_mut().insert(limits);
        let (seat, answer) = (seat.clone(), router.call(request));
        async move {
            seat.is_busy(true);
            let answer = answer.await;
            seat.is_busy(false);
            answer
        }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(limits.head).max_buf_size(HEAD);
    if let Err(error) = http.serve_connection(TokioIo::new(stream), service).await {
        log::debug!("{ends:?}: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::super::address::At;
    use super::super::page::Page;
    use super::super::server::Server;
    use super::super::tls;
    use super::*;
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream as Socket};

    const BIG: usize = 32 << 20;
    const ASKED: &str = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

    fn brief() -> Limits {
        let brief = Duration::from_millis(300);
        Limits { handshake: brief, head: brief, body: brief, stall: brief, each: 8, all: 12 }
    }

    /// Returns a server with a small page and a file larger than any socket buffer of a system.
    fn server(tls: bool, limits: Limits) -> (tempfile::TempDir, Server, SocketAddr) {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("index.html"), "hello").expect("written");
        std::fs::File::create(folder.path().join("big.wasm")).and_then(|file| file.set_len(BIG as u64)).expect("made");
        let page = Page::Folder(folder.path().to_owned());
        let at = At { tls, ..At::loopback(0) };
        let server = Server::start(page, at, limits, |_| Router::new()).expect("started");
        let address = server.address.authorities[0].parse().expect("an address");
        (folder, server, address)
    }

    fn connect(to: SocketAddr, said: &str) -> Socket {
        let mut stream = Socket::connect(to).expect("connected");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
        stream.write_all(said.as_bytes()).expect("sent");
        stream
    }

    /// Reads a connection to its end. Returns the number of bytes and the time.
    fn rest(mut stream: &Socket) -> (usize, Duration) {
        let (begun, mut bytes, mut some) = (Instant::now(), 0, [0; 1 << 16]);
        loop {
            match stream.read(&mut some) {
                Ok(0) => return (bytes, begun.elapsed()),
                Ok(n) => bytes += n,
                Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("the connection is kept"),
                Err(_) => return (bytes, begun.elapsed()),
            }
        }
    }

    #[test]
    fn a_connection_that_stands_still_is_ended_wherever_it_stands() {
        let (_folder, _server, at) = server(false, brief());
        for said in [
            "",
            "GET / HT",
            "GET / HTTP/1.1\r\nHost: x\r\nX: ",
            // Wait between requests.
            "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            // Body that never comes, of a refused request and of an answered one.
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx",
        ] {
            let (_, lived) = rest(&connect(at, said));
            assert!(lived < Duration::from_secs(5), "{said:?} is kept for {lived:?}");
        }
        let (_folder, _server, at) = server(true, brief());
        for said in ["", "\x16\x03\x01", "GET / HTTP/1.1\r\n\r\n"] {
            let (_, lived) = rest(&connect(at, said));
            assert!(lived < Duration::from_secs(5), "{said:?} is kept for {lived:?}");
        }
    }

    #[test]
    fn an_answer_that_is_not_read_is_given_up() {
        let (_folder, _server, at) = server(false, brief());
        let stream = connect(at, "GET /big.wasm HTTP/1.1\r\nHost: x\r\n\r\n");
        std::thread::sleep(Duration::from_secs(2));
        let (bytes, lived) = rest(&stream);
        assert!(bytes < BIG && lived < Duration::from_secs(5), "{bytes} bytes in {lived:?}");
        // A slow reader that makes progress receives the whole file.
        let mut slow = connect(at, "GET /big.wasm HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let mut some = vec![0; BIG / 4];
        for _ in 0..3 {
            slow.read_exact(&mut some).expect("a part");
            std::thread::sleep(Duration::from_millis(150));
        }
        assert!(rest(&slow).0 >= BIG / 4);
    }

    #[test]
    fn silent_connections_lock_out_no_one() {
        let patient = Duration::from_secs(600);
        let limits = Limits { handshake: patient, head: patient, stall: patient, ..brief() };
        let (_folder, _server, at) = server(false, limits);
        for said in ["", "GET / HT", "GET /big.wasm HTTP/1.1\r\nHost: x\r\n\r\n"] {
            let silent: Vec<Socket> = (0..100).map(|_| connect(at, said)).collect();
            let asked = connect(at, ASKED);
            let (bytes, lived) = rest(&asked);
            assert!(bytes > 5 && lived < Duration::from_secs(5), "{said:?}: {bytes} bytes in {lived:?}");
            assert!(silent.len() > 8 * limits.all);
        }
        let (_folder, server, at) = server(true, limits);
        let _silent: Vec<Socket> = (0..100).map(|_| connect(at, "")).collect();
        let fingerprint = server.fingerprint.as_deref().expect("a certificate");
        assert!(tls::testing::talk(at, fingerprint, ASKED).ends_with("hello"));
    }

    #[tokio::test]
    async fn the_longest_waiting_of_the_sender_with_most_goes_first_and_busy_ones_last() {
        let sender = |last| Sender::new([192, 0, 2, last].into());
        let limits = Limits { each: 3, all: 4, ..Limits::default() };
        let mut open = Open::default();
        let begun = Instant::now();
        let task = || tokio::spawn(std::future::pending::<()>()).abort_handle();
        let enter = |open: &mut Open, from, busy| {
            open.make_room(sender(from), &limits);
            open.last += 1;
            let since = begun + Duration::from_secs(open.last);
            open.all.insert(open.last, Connection { sender: sender(from), busy, since, task: task() });
            let mut left: Vec<u64> = open.all.keys().copied().collect();
            left.sort_unstable();
            left
        };
        for (from, busy, left) in [
            (1, true, vec![1]),
            (1, false, vec![1, 2]),
            (1, false, vec![1, 2, 3]),
            (1, false, vec![1, 3, 4]),
            (2, false, vec![1, 3, 4, 5]),
            (3, false, vec![1, 4, 5, 6]),
            (1, true, vec![1, 5, 6, 7]),
            (1, true, vec![5, 6, 7, 8]),
        ] {
            assert_eq!(enter(&mut open, from, busy), left);
        }
    }
}
