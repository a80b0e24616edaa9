//! A rank other than the first: it obeys the first.

use std::collections::BTreeMap;
use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parallax_ir::device::{Awaited, BackendError, Batch, Prepared};
use parallax_ir::{BufferSpec, Case, Inputs};
use parallax_schema::device::Caps;
use parallax_schema::units::Nanos;

use super::inputs::assemble;
use super::meeting::{MeetingError, Place, connect};
use super::peers::{Lost, watch};
use super::rank::Rank;
use super::wire::{Failure, Order, Reply, out_of_place, receive, send};
use super::{JoinError, hello};
use crate::group::prepare::unsupported;
use crate::group::program::PreparedProgram;
use crate::nccl::{ID, Id};
use crate::profiler::{Cuda, CudaOptions};

/// Returns the case of a text.
pub type Parse = fn(&str) -> Result<Case, String>;

/// Work of a rank other than the first.
trait Obey {
    /// Obeys a request with its bytes, and returns the answer with its bytes. Inputs follow on the connection.
    ///
    /// # Errors
    /// Those of the work, which the first rank gets, and those of the connection, which end the rank.
    fn obey(&mut self, order: Order, bytes: Vec<u8>, line: &mut TcpStream) -> Result<(Reply, Vec<u8>), Ended>;
}

/// Reason of an answer that is an error.
enum Ended {
    /// The first rank gets it.
    Work(BackendError),
    /// The connection is gone.
    Line(io::Error),
}

impl From<BackendError> for Ended {
    fn from(error: BackendError) -> Ended {
        Ended::Work(error)
    }
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Ended {
        Ended::Line(error)
    }
}

/// Opens the GPU of this rank, connects it with the first rank, and works until that one ends. `lost` is called if it ends in the
/// middle of work.
///
/// # Errors
/// Those of the device, of the library, and of the connection.
pub fn follow(options: CudaOptions, place: &Place, parse: Parse, lost: Lost) -> Result<(), JoinError> {
    let device = Cuda::open(options)?;
    let mut line = connect(place, &hello(&device, place)?)?;
    let over = Arc::default();
    watch(&line, &over, "rank 0".to_owned(), lost).map_err(MeetingError::from)?;
    let mut follower = Follower { rank: Rank::new(place.rank, device), parse, cases: BTreeMap::new() };
    Ok(serve(&mut line, &over, &mut follower).map_err(MeetingError::from)?)
}

/// Obeys requests until the last.
fn serve(line: &mut TcpStream, over: &AtomicBool, rank: &mut impl Obey) -> io::Result<()> {
    loop {
        let (order, bytes) = receive::<Order>(line, ID as u64)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        if order == Order::Quit {
            over.store(true, Ordering::Release);
            return send(line, &Reply::Done, &[]);
        }
        let (reply, bytes) = match rank.obey(order, bytes, line) {
            Ok(answer) => answer,
            Err(Ended::Work(error)) => (Reply::Failed(Failure::from(error)), Vec::new()),
            Err(Ended::Line(error)) => return Err(error),
        };
        send(line, &reply, &bytes)?;
    }
}

/// A rank with its prepared cases.
struct Follower {
    rank: Rank,
    parse: Parse,
    cases: BTreeMap<u32, (Case, PreparedProgram)>,
}

impl Follower {
    fn known(&mut self, number: u32) -> Result<&mut (Case, PreparedProgram), BackendError> {
        self.cases.get_mut(&number).ok_or_else(|| out_of_place(&format!("a request for case {number}")))
    }

    fn case(&mut self, number: u32) -> Result<&mut PreparedProgram, BackendError> {
        self.known(number).map(|(_, placed)| placed)
    }

    /// Prepares a case with inputs from the first rank.
    fn prepare(
        &mut self,
        (number, case): (u32, &str),
        caps: &Caps,
        sets: u32,
        line: &mut TcpStream,
    ) -> Result<(), Ended> {
        let case = (self.parse)(case).map_err(unsupported)?;
        send(line, &Reply::Done, &[])?;
        let inputs = inputs(&case, line)?;
        // The first rank records the time of connections.
        let placed = self.rank.prepare(&case, caps, &inputs, (sets, Nanos(0.0)))?;
        self.cases.insert(number, (case, placed));
        Ok(())
    }
}

/// Returns the inputs of a case, which the first rank sends in pieces.
///
/// # Errors
/// Those of the connection; other messages than the pieces of these inputs.
fn inputs(case: &Case, line: &mut TcpStream) -> io::Result<Inputs> {
    let own: Vec<BufferSpec> = case.problem.buffers().iter().map(BufferSpec::of_rank).collect();
    let mut inputs = Inputs::seeded(&case.problem.shape, case.problem.dtype, own.clone(), 0);
    let piece = |want| match receive::<Order>(line, want)? {
        Some((Order::Piece, bytes)) => Ok(bytes),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "a piece of an input did not come")),
    };
    assemble(&mut inputs, (&own, case.problem.dtype), piece)?;
    Ok(inputs)
}

impl Obey for Follower {
    fn obey(&mut self, order: Order, bytes: Vec<u8>, line: &mut TcpStream) -> Result<(Reply, Vec<u8>), Ended> {
        let done = |()| (Reply::Done, Vec::new());
        Ok(match order {
            Order::Connect { ranks } => {
                let id = bytes.try_into().map_err(|_| out_of_place(&"an identity of another length"))?;
                done(self.rank.connect(Id(id), ranks)?)
            }
            Order::Prepare { number, case, caps, sets } => done(self.prepare((number, &case), &caps, sets, line)?),
            Order::Refill { number } => {
                let (case, placed) = self.known(number)?;
                let inputs = inputs(case, line)?;
                done(placed.refill_rank(&inputs)?)
            }
            Order::Poison { number, word } => done(pollster::block_on(self.case(number)?.poison(word))?),
            Order::Measure { number, lead, repeats } => {
                let sample = pollster::block_on(self.case(number)?.measure(Batch { lead, repeats }))?;
                (Reply::Sample([sample.time, sample.host]), Vec::new())
            }
            Order::Call { number, executions, result } => {
                let until = if result { Awaited::Result } else { Awaited::Done };
                pollster::block_on(self.case(number)?.call(executions, until))?;
                done(())
            }
            Order::Trace { number } => {
                let times = self.case(number)?.observe(false)?.times;
                (Reply::Times(times.into_iter().next().unwrap_or_default()), Vec::new())
            }
            Order::Read { number, buffer, from, to } => {
                let read = pollster::block_on(self.case(number)?.read_rank(buffer, from..to))?;
                (Reply::Bytes, read)
            }
            Order::Memory { number } => (Reply::Memory(self.case(number)?.memory()), Vec::new()),
            Order::Drop { number } => {
                self.cases.remove(&number);
                done(())
            }
            Order::Piece | Order::Quit => return Err(out_of_place(&order).into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A rank that counts requests, and refuses those of case 7.
    struct Counting(u32);

    impl Obey for Counting {
        fn obey(&mut self, order: Order, bytes: Vec<u8>, _: &mut TcpStream) -> Result<(Reply, Vec<u8>), Ended> {
            self.0 += 1;
            match order {
                Order::Read { number: 7, .. } => Err(BackendError::OutOfMemory("no room".to_owned()).into()),
                Order::Read { from, to, .. } => Ok((Reply::Bytes, vec![self.0 as u8; (to - from) as usize])),
                _ => Ok((Reply::Done, bytes)),
            }
        }
    }

    #[test]
    fn a_rank_answers_errors_and_goes_on_until_the_last_request() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let mut line = TcpStream::connect(listener.local_addr().expect("bound")).expect("open");
        let follower = std::thread::spawn(move || {
            let (mut line, _) = listener.accept().expect("a connection");
            let over = AtomicBool::new(false);
            let mut rank = Counting(0);
            let served = serve(&mut line, &over, &mut rank).is_ok();
            (served, over.into_inner(), rank.0)
        });
        let mut ask = |order: Order| {
            send(&mut line, &order, &[]).expect("sent");
            receive::<Reply>(&mut line, 4).expect("whole").expect("an answer")
        };
        let read = |number, to| Order::Read { number, buffer: 0, from: 0, to };
        assert_eq!(ask(read(1, 3)), (Reply::Bytes, vec![1; 3]));
        assert_eq!(ask(read(7, 3)), (Reply::Failed(Failure::OutOfMemory("no room".to_owned())), vec![]));
        assert_eq!(ask(read(2, 4)), (Reply::Bytes, vec![3; 4]));
        assert_eq!(ask(Order::Quit), (Reply::Done, vec![]));
        assert_eq!(follower.join().expect("no panic"), (true, true, 3));
    }
}
