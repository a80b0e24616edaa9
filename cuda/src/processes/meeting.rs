//! Connections between the first rank and all others.

use std::io;
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::wire::{Failure, Hello, Reply, ready, receive, send};

/// Place of a process in a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Number of the process, from zero.
    pub rank: u64,
    /// Number of processes.
    pub ranks: u64,
    /// Host of the first rank.
    pub host: String,
    /// Port on which the first rank waits for the others.
    pub port: u16,
    /// Version of the program: all ranks need the same.
    pub build: String,
}

/// Error of the first connections of a group.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeetingError {
    /// Not all ranks came in time.
    #[error(
        "{missing} of {ranks} ranks did not come to port {port} of this host within {seconds} s: start one process for each \
         rank, with the same MASTER_ADDR"
    )]
    Missing {
        /// Number of missing ranks.
        missing: u64,
        /// Number of ranks.
        ranks: u64,
        /// Port of the first rank.
        port: u16,
        /// Time limit in seconds.
        seconds: u64,
    },
    /// The port of the first rank cannot be opened.
    #[error("rank 0 cannot wait on port {port}: {why}; PARALLAX_PORT names another")]
    Port {
        /// Port of the first rank.
        port: u16,
        /// Error of the system.
        why: io::Error,
    },
    /// The first rank was not reached.
    #[error("rank {rank} did not reach rank 0 at {address} within {seconds} s: {why}; MASTER_ADDR names its host")]
    Unreached {
        /// Number of this rank.
        rank: u64,
        /// Host and port of the first rank.
        address: String,
        /// Time limit in seconds.
        seconds: u64,
        /// Error of the last attempt.
        why: io::Error,
    },
    /// A connection failed in its first messages.
    #[error("a connection between ranks failed: {0}")]
    Broken(#[from] io::Error),
    /// The first rank refused this one.
    #[error("rank 0 refused this rank: {0}")]
    Refused(String),
}

/// Time for all ranks to come. Launchers start processes of one job minutes apart where images are loaded first.
const PATIENCE: Duration = Duration::from_secs(300);
/// Pause between attempts.
const PAUSE: Duration = Duration::from_millis(50);
/// Time for the first message of a connection.
const FIRST: Duration = Duration::from_secs(10);

/// Connection with a rank, and its first message.
pub(super) struct Peer {
    pub(super) hello: Hello,
    pub(super) stream: TcpStream,
}

/// Opens the port of the first rank on all addresses of the host.
///
/// # Errors
/// [`MeetingError::Port`].
pub(super) fn listen(place: &Place) -> Result<TcpListener, MeetingError> {
    let any = [SocketAddr::from((Ipv6Addr::UNSPECIFIED, place.port)), SocketAddr::from(([0, 0, 0, 0], place.port))];
    TcpListener::bind(&any[..]).map_err(|why| MeetingError::Port { port: place.port, why })
}

/// Accepts all other ranks, in order of their numbers.
///
/// # Errors
/// [`MeetingError::Missing`]; errors of the system.
pub(super) fn accept(listener: &TcpListener, place: &Place) -> Result<Vec<Peer>, MeetingError> {
    accept_within(listener, place, PATIENCE)
}

fn accept_within(listener: &TcpListener, place: &Place, limit: Duration) -> Result<Vec<Peer>, MeetingError> {
    listener.set_nonblocking(true)?;
    let began = Instant::now();
    let mut peers: Vec<Peer> = Vec::new();
    while (peers.len() as u64) + 1 < place.ranks {
        match listener.accept() {
            Ok((stream, from)) => match welcome(stream, place, &peers) {
                Ok(peer) => peers.push(peer),
                Err(why) => log::warn!("a connection from {from} was refused: {why}"),
            },
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
                if began.elapsed() > limit {
                    let missing = place.ranks - 1 - peers.len() as u64;
                    let (ranks, port, seconds) = (place.ranks, place.port, limit.as_secs());
                    return Err(MeetingError::Missing { missing, ranks, port, seconds });
                }
                sleep(PAUSE);
            }
            Err(why) => return Err(why.into()),
        }
    }
    peers.sort_by_key(|peer| peer.hello.rank);
    Ok(peers)
}

/// Reads the first message of a connection, and answers it.
fn welcome(mut stream: TcpStream, place: &Place, known: &[Peer]) -> io::Result<Peer> {
    ready(&stream)?;
    stream.set_read_timeout(Some(FIRST))?;
    let (hello, _) = receive::<Hello>(&mut stream, 0)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    stream.set_read_timeout(None)?;
    if let Some(why) = mismatch(&hello, place, known) {
        send(&mut stream, &Reply::Failed(Failure::Other(why.clone())), &[])?;
        return Err(io::Error::other(why));
    }
    send(&mut stream, &Reply::Done, &[])?;
    Ok(Peer { hello, stream })
}

/// Returns the reason against a rank.
fn mismatch(hello: &Hello, place: &Place, known: &[Peer]) -> Option<String> {
    let Hello { rank, ranks, build, .. } = hello;
    if build != &place.build {
        return Some(format!("it is {build}, rank 0 is {}: all ranks need one program", place.build));
    }
    if *ranks != place.ranks {
        return Some(format!("it is one of {ranks} ranks, rank 0 one of {}", place.ranks));
    }
    if !(1..place.ranks).contains(rank) || known.iter().any(|peer| peer.hello.rank == *rank) {
        return Some(format!("rank {rank} is taken: each process needs a number of its own"));
    }
    None
}

/// Connects with the first rank, which may start later.
///
/// # Errors
/// [`MeetingError::Unreached`], [`MeetingError::Refused`]; errors of the system.
pub(super) fn connect(place: &Place, hello: &Hello) -> Result<TcpStream, MeetingError> {
    let mut stream = reach(place, PATIENCE)?;
    ready(&stream)?;
    send(&mut stream, hello, &[])?;
    match receive::<Reply>(&mut stream, 0)? {
        Some((Reply::Done, _)) => Ok(stream),
        Some((Reply::Failed(why), _)) => Err(MeetingError::Refused(why.of_rank(place.rank).to_string())),
        _ => Err(MeetingError::Refused("it ended".to_owned())),
    }
}

fn reach(place: &Place, limit: Duration) -> Result<TcpStream, MeetingError> {
    let (began, address) = (Instant::now(), (place.host.as_str(), place.port));
    let attempt = || -> io::Result<TcpStream> {
        // Names are resolved anew: that of a pod appears when it runs.
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, FIRST) {
                Ok(stream) => return Ok(stream),
                Err(why) => last = why,
            }
        }
        Err(last)
    };
    loop {
        match attempt() {
            Ok(stream) => return Ok(stream),
            Err(why) if began.elapsed() > limit => {
                let address = format!("{}:{}", place.host, place.port);
                return Err(MeetingError::Unreached { rank: place.rank, address, seconds: limit.as_secs(), why });
            }
            Err(_) => sleep(PAUSE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn place(rank: u64, ranks: u64, port: u16) -> Place {
        Place { rank, ranks, host: "127.0.0.1".to_owned(), port, build: "1".to_owned() }
    }

    fn hello(rank: u64, ranks: u64, build: &str) -> Hello {
        let words = |text: &str| text.to_owned();
        Hello { rank, ranks, build: words(build), device: words("GPU"), memory: 1, nccl: words("NCCL 2.27.3") }
    }

    /// A listener on a free port of this machine.
    fn opened(ranks: u64) -> (TcpListener, Place) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        (listener, place(0, ranks, port))
    }

    #[test]
    fn ranks_meet_in_any_order_and_strangers_are_refused() {
        let (listener, first) = opened(3);
        let mut stranger = TcpStream::connect(("127.0.0.1", first.port)).expect("open");
        stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("sent");
        let port = first.port;
        let accepting =
            std::thread::spawn(move || accept_within(&listener, &first, Duration::from_secs(60)).expect("all come"));
        let come = |rank, build| connect(&place(rank, 3, port), &hello(rank, 3, build));
        let why = come(1, "2").expect_err("another build").to_string();
        assert!(why.contains("it is 2, rank 0 is 1"), "{why}");
        let lines = [2, 1].map(|rank| come(rank, "1").expect("a place"));
        let peers = accepting.join().expect("no panic");
        assert_eq!(peers.iter().map(|peer| peer.hello.rank).collect::<Vec<_>>(), [1, 2]);
        drop(lines);
    }

    #[test]
    fn a_rank_has_a_number_of_its_own_within_the_group() {
        let first = place(0, 3, 1);
        assert_eq!(mismatch(&hello(2, 3, "1"), &first, &[]), None);
        for (wrong, part) in
            [(hello(0, 3, "1"), "taken"), (hello(3, 3, "1"), "taken"), (hello(1, 2, "1"), "of 2 ranks")]
        {
            assert!(mismatch(&wrong, &first, &[]).is_some_and(|why| why.contains(part)), "{wrong:?}");
        }
    }

    #[test]
    fn missing_ranks_and_an_absent_first_rank_are_errors() {
        let (listener, first) = opened(4);
        let Err(why) = accept_within(&listener, &first, Duration::ZERO) else { panic!("no rank came") };
        assert!(why.to_string().starts_with("3 of 4 ranks"), "{why}");
        drop(listener);
        let why = reach(&place(1, 4, first.port), Duration::ZERO).expect_err("closed").to_string();
        assert!(why.contains("rank 1 did not reach rank 0 at 127.0.0.1:"), "{why}");
    }
}
