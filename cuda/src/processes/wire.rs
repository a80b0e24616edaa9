//! Messages between the processes of a group, over TCP.
//!
//! A message is a header in JSON and bytes. Both lengths stand before it, and are limited: a process allocates no more than its
//! caller expects.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use parallax_ir::device::BackendError;
use parallax_schema::device::{Caps, MemoryStats};
use parallax_schema::units::Nanos;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Largest header in bytes. The largest one has the times of all stages of a trace.
const HEADER: u64 = 16 << 20;

/// Size of a piece of inputs in bytes: no rank needs a second copy of a large message.
pub(super) const PIECE: u64 = 16 << 20;

/// First message of a rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) rank: u64,
    pub(super) ranks: u64,
    /// Version of the program. Other versions may have other cases.
    pub(super) build: String,
    /// Name of the device.
    pub(super) device: String,
    /// Device memory in bytes.
    pub(super) memory: u64,
    /// Version of NCCL in words.
    pub(super) nccl: String,
}

/// Request of the first rank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Order {
    /// Connect the first `ranks` ranks through NCCL. The bytes are the identity.
    Connect { ranks: u64 },
    /// Prepare a case under a number. A rank that answers [`Reply::Done`] gets its inputs, each in pieces, and answers again.
    Prepare { number: u32, case: String, caps: Box<Caps>, sets: u32 },
    /// Replace the inputs, which follow in pieces.
    Refill { number: u32 },
    /// Fill results with a word.
    Poison { number: u32, word: u32 },
    /// Time a batch.
    Measure { number: u32, lead: u32, repeats: u32 },
    /// Execute, and wait for completion or for bytes of the result.
    Call { number: u32, executions: u32, result: bool },
    /// Execute once with events around each stage.
    Trace { number: u32 },
    /// Return bytes of a buffer.
    Read { number: u32, buffer: usize, from: u64, to: u64 },
    /// Return the memory of a case.
    Memory { number: u32 },
    /// Free a case.
    Drop { number: u32 },
    /// A piece of an input, as bytes.
    Piece,
    /// End without an error.
    Quit,
}

/// Answer of a rank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Reply {
    Done,
    /// Device time and host time of a batch.
    Sample([Nanos; 2]),
    /// Begin and end of each stage.
    Times(Vec<[Nanos; 2]>),
    Memory(MemoryStats),
    /// The bytes of the message are those of a buffer.
    Bytes,
    Failed(Failure),
}

/// Error of a rank, as [`BackendError`] has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Failure {
    Unsupported(String),
    Refused(String),
    OutOfMemory(String),
    Lost(String),
    Other(String),
}

impl From<BackendError> for Failure {
    fn from(error: BackendError) -> Failure {
        match error {
            BackendError::Unsupported(why) => Failure::Unsupported(why),
            BackendError::Refused(why) => Failure::Refused(why),
            BackendError::OutOfMemory(why) => Failure::OutOfMemory(why),
            BackendError::Lost(why) => Failure::Lost(why),
            other => Failure::Other(other.to_string()),
        }
    }
}

impl Failure {
    /// Returns the error, with the rank in front of its message.
    pub(super) fn of_rank(self, rank: u64) -> BackendError {
        let named = |why| format!("rank {rank}: {why}");
        match self {
            Failure::Unsupported(why) => BackendError::Unsupported(named(why)),
            Failure::Refused(why) => BackendError::Refused(named(why)),
            Failure::OutOfMemory(why) => BackendError::OutOfMemory(named(why)),
            Failure::Lost(why) => BackendError::Lost(named(why)),
            Failure::Other(why) => BackendError::Device(named(why)),
        }
    }
}

/// Error of a message that is not expected now.
pub(super) fn out_of_place(message: &impl std::fmt::Debug) -> BackendError {
    BackendError::Device(format!("{message:?} is out of place between ranks"))
}

/// Writes a message.
///
/// # Errors
/// Those of the connection.
pub(super) fn send(stream: &mut impl Write, header: &impl Serialize, bytes: &[u8]) -> io::Result<()> {
    let header = serde_json::to_vec(header).map_err(io::Error::other)?;
    let mut whole = Vec::with_capacity(16 + header.len());
    whole.extend((header.len() as u64).to_le_bytes());
    whole.extend((bytes.len() as u64).to_le_bytes());
    whole.extend(header);
    stream.write_all(&whole)?;
    stream.write_all(bytes)?;
    stream.flush()
}

/// Reads a message with at most `most` bytes behind its header. `None` at the end of the connection, before a message.
///
/// # Errors
/// Those of the connection; a message that is too long, or whose header is not of this type.
pub(super) fn receive<T: DeserializeOwned>(stream: &mut impl Read, most: u64) -> io::Result<Option<(T, Vec<u8>)>> {
    let mut first = [0; 1];
    if stream.read(&mut first)? == 0 {
        return Ok(None);
    }
    let mut lengths = [0; 16];
    lengths[0] = first[0];
    stream.read_exact(&mut lengths[1..])?;
    let length = |at: usize| u64::from_le_bytes(lengths[at..at + 8].try_into().expect("8 bytes"));
    let [header, bytes] = [length(0), length(8)];
    if header > HEADER || bytes > most {
        let why = format!("a message of {header} and {bytes} bytes exceeds {HEADER} and {most}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    let header = read(stream, header)?;
    let header = serde_json::from_slice(&header).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))?;
    Ok(Some((header, read(stream, bytes)?)))
}

/// Reads exactly this number of bytes.
fn read(stream: &mut impl Read, bytes: u64) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    stream.take(bytes).read_to_end(&mut all)?;
    if (all.len() as u64) < bytes { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(all) }
}

/// Prepares a connection: messages are short and awaited.
///
/// # Errors
/// Those of the connection.
pub(super) fn ready(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_as_they_were_sent() {
        let mut line = Vec::new();
        let orders = [
            (Order::Measure { number: 7, lead: 2, repeats: 100 }, vec![]),
            (Order::Connect { ranks: 4 }, vec![5; 128]),
            (Order::Quit, vec![]),
        ];
        for (order, bytes) in &orders {
            send(&mut line, order, bytes).expect("memory");
        }
        let mut from = &line[..];
        for (order, bytes) in orders {
            assert_eq!(receive(&mut from, 128).expect("whole"), Some((order, bytes)));
        }
        assert_eq!(receive::<Order>(&mut from, 128).expect("the end"), None);
    }

    #[test]
    fn long_cut_and_foreign_messages_are_errors() {
        let mut line = Vec::new();
        send(&mut line, &Reply::Bytes, &[1; 9]).expect("memory");
        assert!(receive::<Reply>(&mut &line[..], 8).is_err(), "more bytes than expected");
        assert!(receive::<Reply>(&mut &line[..line.len() - 1], 9).is_err(), "cut");
        assert!(receive::<Reply>(&mut &line[..5], 9).is_err(), "cut in its lengths");
        assert!(receive::<Order>(&mut &line[..], 9).is_err(), "another type");
        assert!(receive::<Reply>(&mut &b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..], 9).is_err(), "another protocol");
    }

    #[test]
    fn errors_of_a_rank_keep_their_kind() {
        for error in [
            BackendError::Unsupported("x".to_owned()),
            BackendError::Refused("x".to_owned()),
            BackendError::OutOfMemory("x".to_owned()),
            BackendError::Lost("x".to_owned()),
            BackendError::Device("x".to_owned()),
        ] {
            let back = Failure::from(error.clone()).of_rank(3);
            assert_eq!(std::mem::discriminant(&back), std::mem::discriminant(&error));
            assert!(back.to_string().ends_with("rank 3: x"), "{back}");
        }
    }
}
