//! Exchanges between GPUs, of this process or of several, by NVIDIA's library NCCL, loaded at run time.

mod api;

use std::ffi::c_int;
use std::rc::Rc;
use std::sync::Arc;

use cudarc::driver::sys::{CUdeviceptr, CUstream};
use parallax_ir::device::{BackendError, Ledger};
use parallax_ir::{Collective, Elem};
use parallax_schema::case::DType;

use self::api::{Api, api, version_words};
pub(crate) use self::api::{ID, Id, WANTED};
use crate::driver::{CudaContext, CudaStream};
use crate::errors::Context;
use crate::ffi::{Object, Owned};
use crate::memory::Buffer;

/// Environment variable of NCCL for multicast by the switch of NVLink (NVLS).
pub const NVLS: &str = "NCCL_NVLS_ENABLE";

/// `ncclSum`.
const SUM: c_int = 0;
/// Rank that sends a broadcast.
const ROOT: c_int = 0;

/// A collective on every rank, and the elements that its call counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exchange {
    collective: Collective,
    dtype: DType,
    count: u64,
}

impl Exchange {
    /// Returns the exchange of `ranks` ranks with `sent` and `received` elements on each. `None` for lengths that do not fit each
    /// other.
    pub(crate) fn new(
        collective: Collective,
        dtype: DType,
        ranks: u64,
        [sent, received]: [u64; 2],
    ) -> Option<Exchange> {
        let (fits, count) = match collective {
            Collective::AllReduce | Collective::Broadcast | Collective::SendRecv => (sent == received, sent),
            Collective::AllGather => (sent.checked_mul(ranks) == Some(received), sent),
            Collective::ReduceScatter => (received.checked_mul(ranks) == Some(sent), received),
            Collective::AllToAll => (sent == received && sent.is_multiple_of(ranks), sent / ranks),
        };
        fits.then_some(Exchange { collective, dtype, count })
    }

    /// Name of the library's call.
    fn call(&self) -> &'static str {
        match self.collective {
            Collective::AllReduce => "ncclAllReduce",
            Collective::AllGather => "ncclAllGather",
            Collective::ReduceScatter => "ncclReduceScatter",
            Collective::Broadcast => "ncclBroadcast",
            Collective::AllToAll | Collective::SendRecv => "ncclGroupEnd",
        }
    }

    /// Bytes of the counted elements.
    fn bytes(&self) -> u64 {
        self.count * Elem::Real.storage(self.dtype).bytes()
    }
}

/// Name of the library's call for these exchanges.
pub(crate) fn call_of(parts: &[Part]) -> &'static str {
    parts.first().map_or("ncclGroupEnd", |part| part.exchange.call())
}

/// `ncclDataType_t` of an element type.
fn type_code(dtype: DType) -> c_int {
    match dtype {
        DType::F16 => 6,
        DType::F32 => 7,
        DType::BF16 => 9,
    }
}

/// Memory and stream of one rank in an exchange.
#[derive(Clone, Copy)]
pub(crate) struct Side {
    pub(crate) sent: CUdeviceptr,
    pub(crate) received: CUdeviceptr,
    pub(crate) stream: CUstream,
}

/// An exchange with the memory of every rank of this process.
pub(crate) struct Part {
    pub(crate) exchange: Exchange,
    pub(crate) sides: Vec<Side>,
}

/// Communicators of the ranks of this process in a group.
pub(crate) struct Communicators {
    api: &'static Api,
    ranks: Vec<Owned>,
    /// Number of the first of them in the group.
    first: u64,
    /// Number of ranks of the group, in all processes.
    total: u64,
    /// Numbers that the processes of a group exchange to meet. `None` in a group of one process.
    meeting: Option<Buffer>,
    /// The contexts that the communicators use.
    _contexts: Vec<Arc<CudaContext>>,
}

/// Returns the identity of a connection between processes, for all of its ranks.
///
/// # Errors
/// [`BackendError::Refused`] without the library; an error of the library.
pub(crate) fn unique_id() -> Result<Id, BackendError> {
    let api = api()?;
    let mut id = Id([0; ID]);
    // SAFETY: the argument outlives the call.
    api.check("naming a connection", unsafe { (api.unique_id)(&mut id) })?;
    Ok(id)
}

/// Returns the library's version in words.
///
/// # Errors
/// [`BackendError::Refused`] without the library.
pub(crate) fn version() -> Result<String, BackendError> {
    Ok(version_words(api()?.version()))
}

impl Communicators {
    /// Connects the devices with these numbers, in order of rank.
    ///
    /// # Errors
    /// [`BackendError::Refused`] without the library; an error of the library.
    pub(crate) fn new(ordinals: &[usize], contexts: Vec<Arc<CudaContext>>) -> Result<Communicators, BackendError> {
        let api = api()?;
        let devices: Vec<c_int> =
            ordinals.iter().map(|number| c_int::try_from(*number).unwrap_or(c_int::MAX)).collect();
        let mut made: Vec<Object> = vec![std::ptr::null_mut(); devices.len()];
        // SAFETY: both arrays have an element for each device, and outlive the call.
        let status = unsafe { (api.init_all)(made.as_mut_ptr(), devices.len() as c_int, devices.as_ptr()) };
        api.check("connecting the GPUs", status)?;
        let owned = |one: Object| {
            let create = |to: *mut Object| {
                // SAFETY: `to` is valid.
                unsafe { *to = one };
                0
            };
            // SAFETY: the call above created the communicator, which its own call destroys.
            unsafe { Owned::new(api.destroy, |_| Ok::<(), BackendError>(()), create) }
        };
        let ranks = made.into_iter().map(owned).collect::<Result<_, _>>()?;
        Ok(Communicators { api, ranks, first: 0, total: ordinals.len() as u64, meeting: None, _contexts: contexts })
    }

    /// Connects the device of a context as one rank of `total`. It returns when all of them call it.
    ///
    /// # Errors
    /// [`BackendError::Refused`] without the library; an error of the library.
    pub(crate) fn join(
        id: Id,
        [rank, total]: [u64; 2],
        context: &Arc<CudaContext>,
    ) -> Result<Communicators, BackendError> {
        let api = api()?;
        context.bind_to_thread().doing(|| "binding the device to this thread".into())?;
        let [number, count] = [rank, total].map(|number| c_int::try_from(number).unwrap_or(c_int::MAX));
        let check = |status| api.check("connecting with the GPUs of other processes", status);
        // SAFETY: `to` is valid; a communicator that the call creates is destroyed by its own call.
        let made = unsafe { Owned::new(api.destroy, check, |to| (api.init_rank)(to, count, id, number)) }?;
        let meeting = Buffer::new(context, &Rc::<Ledger>::default(), "numbers of a meeting", 4)?;
        meeting.write(0, &[0; 4])?;
        let (first, meeting) = (rank, Some(meeting));
        Ok(Communicators { api, ranks: vec![made], first, total, meeting, _contexts: vec![context.clone()] })
    }

    /// Number of ranks of the group, in all processes.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Makes a stream wait until those of the other processes have reached this point. A group of one process needs no such
    /// exchange.
    ///
    /// # Errors
    /// An error of the library.
    pub(crate) fn meet(&self, stream: &CudaStream) -> Result<(), BackendError> {
        let Some(meeting) = &self.meeting else { return Ok(()) };
        let side = Side { sent: meeting.pointer(), received: meeting.pointer(), stream: stream.cu_stream() };
        let exchange = Exchange { collective: Collective::AllReduce, dtype: DType::F32, count: 1 };
        // SAFETY: the buffer has one number, and lives as long as the communicators, whose owner waits for the stream.
        unsafe { self.queue(&[Part { exchange, sides: vec![side] }]) }
    }

    /// Version of the library in words.
    pub(crate) fn version(&self) -> String {
        version_words(self.api.version())
    }

    /// Queues exchanges on the stream of every rank of this process, as one group of calls.
    ///
    /// # Safety
    /// Each side has the elements of its exchange, on the device of its rank, until its stream has been synchronised.
    pub(crate) unsafe fn queue(&self, parts: &[Part]) -> Result<(), BackendError> {
        // SAFETY: a plain call; the group ends below.
        self.api.check("beginning a group of calls", unsafe { (self.api.group_start)() })?;
        let queued = parts.iter().try_for_each(|Part { exchange, sides }| {
            (self.first..).zip(self.ranks.iter().zip(sides)).try_for_each(|(rank, (communicator, side))| {
                // SAFETY: the caller's.
                unsafe { self.queue_on(rank, communicator.object(), exchange, side) }
            })
        });
        // The group ends also after a failed call: the next one would otherwise be part of it.
        // SAFETY: a plain call.
        let ended = self.api.check(call_of(parts), unsafe { (self.api.group_end)() });
        queued.and(ended)
    }

    /// Queues one rank's part.
    ///
    /// # Safety
    /// As for [`Communicators::queue`].
    unsafe fn queue_on(
        &self,
        rank: u64,
        communicator: Object,
        exchange: &Exchange,
        &Side { sent, received, stream }: &Side,
    ) -> Result<(), BackendError> {
        let Api { all_reduce, reduce_scatter, broadcast, all_gather, send, receive, .. } = self.api;
        let (count, kind) = (exchange.count as usize, type_code(exchange.dtype));
        let ranks = self.total;
        let pair = |[to, from]: [u64; 2], [first, second]: [CUdeviceptr; 2]| {
            // SAFETY: the caller's.
            let sending = unsafe { send(first, count, kind, to as c_int, communicator, stream) };
            self.api.check("ncclSend", sending)?;
            // SAFETY: the caller's.
            let receiving = unsafe { receive(second, count, kind, from as c_int, communicator, stream) };
            self.api.check("ncclRecv", receiving)
        };
        // SAFETY: the caller's, for every call below.
        let status = unsafe {
            match exchange.collective {
                Collective::AllReduce => all_reduce(sent, received, count, kind, SUM, communicator, stream),
                Collective::ReduceScatter => reduce_scatter(sent, received, count, kind, SUM, communicator, stream),
                Collective::Broadcast => broadcast(sent, received, count, kind, ROOT, communicator, stream),
                Collective::AllGather => all_gather(sent, received, count, kind, communicator, stream),
                Collective::SendRecv => {
                    return pair([(rank + 1) % ranks, (rank + ranks - 1) % ranks], [sent, received]);
                }
                Collective::AllToAll => {
                    let part = |peer| [sent, received].map(|buffer| buffer + peer * exchange.bytes());
                    return (0..ranks).try_for_each(|peer| pair([peer, peer], part(peer)));
                }
            }
        };
        self.api.check(exchange.call(), status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_count_the_elements_that_the_header_says() {
        use Collective::{AllGather, AllReduce, AllToAll, Broadcast, ReduceScatter, SendRecv};
        for (collective, ranks, lengths, count) in [
            (AllReduce, 2, [7, 7], Some(7)),
            (Broadcast, 4, [7, 7], Some(7)),
            (SendRecv, 3, [1, 1], Some(1)),
            (AllGather, 3, [5, 15], Some(5)),
            (ReduceScatter, 3, [15, 5], Some(5)),
            (AllToAll, 2, [6, 6], Some(3)),
            (AllReduce, 2, [7, 8], None),
            (AllGather, 3, [15, 5], None),
            (AllGather, 3, [u64::MAX, 5], None),
            (ReduceScatter, 2, [5, 5], None),
            (AllToAll, 2, [7, 7], None),
        ] {
            let made = Exchange::new(collective, DType::F16, ranks, lengths);
            assert_eq!(made.map(|exchange| exchange.count), count, "{collective:?} {lengths:?}");
            assert!(made.is_none_or(|exchange| exchange.bytes() == 2 * exchange.count));
        }
    }
}
