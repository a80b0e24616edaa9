//! Requests of the first rank to all others.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

use parallax_ir::device::BackendError;
use parallax_ir::{BufferSpec, Inputs};
use parallax_schema::case::DType;

use super::inputs::pieces;
use super::meeting::Peer;
use super::wire::{Hello, Order, Reply, receive, send};

/// Called with a sentence when a process of the group is gone. Exchanges with it never end: the caller ends this process.
pub type Lost = fn(&str);

/// Pause between looks at a connection that has unread messages.
const PAUSE: Duration = Duration::from_millis(100);

/// Watches a connection on a thread of its own, and reports its end unless `over` is set.
///
/// # Errors
/// Those of the connection.
pub(super) fn watch(stream: &TcpStream, over: &Arc<AtomicBool>, name: String, lost: Lost) -> io::Result<()> {
    let (stream, over) = (stream.try_clone()?, over.clone());
    std::thread::spawn(move || {
        loop {
            match stream.peek(&mut [0; 1]) {
                Ok(1..) => sleep(PAUSE),
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break,
            }
        }
        if !over.load(Ordering::Acquire) {
            lost(&format!("{name} has ended, and exchanges with it cannot end"));
        }
    });
    Ok(())
}

/// All other ranks.
pub(super) struct Peers {
    peers: Vec<Peer>,
    /// The group ends as intended.
    over: Arc<AtomicBool>,
}

impl Peers {
    /// Watches the connections of these ranks.
    ///
    /// # Errors
    /// Those of the connections.
    pub(super) fn new(peers: Vec<Peer>, lost: Lost) -> io::Result<Peers> {
        let over = Arc::default();
        peers.iter().try_for_each(|peer| {
            let name = format!("rank {} on {}", peer.hello.rank, peer.hello.device);
            watch(&peer.stream, &over, name, lost)
        })?;
        Ok(Peers { peers, over })
    }

    pub(super) fn hellos(&self) -> impl Iterator<Item = &Hello> {
        self.peers.iter().map(|peer| &peer.hello)
    }

    /// Sends a request to the first `count` other ranks.
    ///
    /// # Errors
    /// [`BackendError::Lost`] without a connection.
    pub(super) fn send(&mut self, count: usize, order: &Order, bytes: &[u8]) -> Result<(), BackendError> {
        let one = |peer: &mut Peer| send(&mut peer.stream, order, bytes).map_err(|why| gone(&peer.hello, &why));
        self.peers[..count].iter_mut().try_for_each(one)
    }

    /// Sends each of the first `count` other ranks its inputs.
    ///
    /// # Errors
    /// [`BackendError::Lost`] without a connection.
    pub(super) fn fill(
        &mut self,
        count: usize,
        inputs: &Inputs,
        of: (&[BufferSpec], DType),
    ) -> Result<(), BackendError> {
        self.peers[..count].iter_mut().try_for_each(|peer| {
            let own = inputs.of_rank(peer.hello.rank);
            let sent = pieces(&own, of, |piece| send(&mut peer.stream, &Order::Piece, piece));
            sent.map_err(|why| gone(&peer.hello, &why))
        })
    }

    /// Returns the answers of the first `count` other ranks. All are read, also after an error of one.
    ///
    /// # Errors
    /// The first error of a rank; [`BackendError::Lost`] without a connection.
    pub(super) fn answers(&mut self, count: usize) -> Result<Vec<Reply>, BackendError> {
        let all: Vec<_> = (0..count).map(|at| self.answer(at, 0).map(|(reply, _)| reply)).collect();
        all.into_iter().collect()
    }

    /// Returns the answer of an other rank, with at most `most` bytes.
    ///
    /// # Errors
    /// That of the rank; [`BackendError::Lost`] without a connection.
    pub(super) fn answer(&mut self, at: usize, most: u64) -> Result<(Reply, Vec<u8>), BackendError> {
        let Peer { hello, stream } = &mut self.peers[at];
        match receive::<Reply>(stream, most) {
            Ok(Some((Reply::Failed(failure), _))) => Err(failure.of_rank(hello.rank)),
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(gone(hello, &io::ErrorKind::UnexpectedEof.into())),
            Err(why) => Err(gone(hello, &why)),
        }
    }

    /// Sends one rank a request, and returns its answer with at most `most` bytes.
    ///
    /// # Errors
    /// As for [`Peers::answer`].
    pub(super) fn ask(&mut self, at: usize, order: &Order, most: u64) -> Result<(Reply, Vec<u8>), BackendError> {
        let peer = &mut self.peers[at];
        send(&mut peer.stream, order, &[]).map_err(|why| gone(&peer.hello, &why))?;
        self.answer(at, most)
    }
}

impl Drop for Peers {
    /// Lets all ranks end.
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        let count = self.peers.len();
        if let Err(why) = self.send(count, &Order::Quit, &[]).and_then(|()| self.answers(count)) {
            log::warn!("a rank did not end with the first: {why}");
        }
    }
}

/// Returns the error of a rank without a connection.
fn gone(hello: &Hello, why: &io::Error) -> BackendError {
    BackendError::Lost(format!("the connection with rank {} on {} failed: {why}", hello.rank, hello.device))
}
