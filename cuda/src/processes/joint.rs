//! A case on the GPUs of several processes, as the first rank has it.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use async_trait::async_trait;
use parallax_ir::device::{Awaited, BackendError, Batch, Prepared, Sample};
use parallax_ir::{BufferSpec, Inputs};
use parallax_schema::case::DType;
use parallax_schema::device::{Compiled, Launch, Launching, MemoryStats, Trace};
use parallax_schema::units::Nanos;

use super::peers::Peers;
use super::wire::{Order, Reply, out_of_place};
use crate::group::program::{PreparedProgram, joint_memory};
use crate::group::split::Split;

/// A case on all of its ranks. The other ranks free their parts with it.
pub(super) struct PreparedJoint {
    pub(super) own: PreparedProgram,
    pub(super) others: Others,
    pub(super) splits: Vec<Split>,
    pub(super) specs: Vec<BufferSpec>,
    pub(super) dtype: DType,
}

/// The parts of a case on the other ranks.
pub(super) struct Others {
    pub(super) peers: Rc<RefCell<Peers>>,
    /// Number of the case, and of other ranks that have it.
    pub(super) number: u32,
    pub(super) count: usize,
}

impl Others {
    /// Sends a request, does the own part, and returns its result with the answers.
    ///
    /// # Errors
    /// That of the own part, else the first of another rank.
    fn with<T>(
        &self,
        order: &Order,
        own: impl FnOnce() -> Result<T, BackendError>,
    ) -> Result<(T, Vec<Reply>), BackendError> {
        self.peers.borrow_mut().send(self.count, order, &[])?;
        let own = own();
        let answers = self.peers.borrow_mut().answers(self.count);
        Ok((own?, answers?))
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        let order = Order::Drop { number: self.number };
        let mut peers = self.peers.borrow_mut();
        if let Err(why) = peers.send(self.count, &order, &[]).and_then(|()| peers.answers(self.count)) {
            log::warn!("a rank did not free its part of a case: {why}");
        }
    }
}

#[async_trait(?Send)]
impl Prepared for PreparedJoint {
    fn compiled(&self) -> &Compiled {
        self.own.compiled()
    }

    /// Launches of one rank.
    fn launches(&self) -> Vec<Launch> {
        self.own.launches()
    }

    fn launching(&self) -> Option<Launching> {
        self.own.launching()
    }

    async fn launch_as(&mut self, launching: Launching) -> Result<(), BackendError> {
        self.own.launch_as(launching).await
    }

    async fn refill(&mut self, inputs: &Inputs) -> Result<(), BackendError> {
        let Others { peers, number, count } = &self.others;
        let mut peers = peers.borrow_mut();
        peers.send(*count, &Order::Refill { number: *number }, &[])?;
        peers.fill(*count, inputs, (&self.specs, self.dtype))?;
        let own = self.own.refill_rank(&inputs.of_rank(0));
        let answers = peers.answers(*count);
        own.and(answers.map(drop))
    }

    fn now(&self) -> Nanos {
        self.own.now()
    }

    async fn poison(&mut self, word: u32) -> Result<(), BackendError> {
        let order = Order::Poison { number: self.others.number, word };
        self.others.with(&order, || pollster::block_on(self.own.poison(word))).map(drop)
    }

    async fn measure(&mut self, batch: Batch) -> Result<Sample, BackendError> {
        let Batch { lead, repeats } = batch;
        let order = Order::Measure { number: self.others.number, lead, repeats };
        let (own, others) = self.others.with(&order, || pollster::block_on(self.own.measure(batch)))?;
        // The longest time of a rank.
        let time = others.iter().try_fold(own.time, |longest, reply| match reply {
            Reply::Sample([time, _]) => Ok(Nanos(longest.0.max(time.0))),
            other => Err(out_of_place(other)),
        })?;
        Ok(Sample { time, ..own })
    }

    async fn call(&mut self, executions: u32, until: Awaited) -> Result<Nanos, BackendError> {
        let order = Order::Call { number: self.others.number, executions, result: until == Awaited::Result };
        let (host, _) = self.others.with(&order, || pollster::block_on(self.own.call(executions, until)))?;
        Ok(host)
    }

    async fn trace(&mut self, stacks: bool) -> Result<Trace, BackendError> {
        let order = Order::Trace { number: self.others.number };
        let (mut observed, others) = self.others.with(&order, || self.own.observe(stacks))?;
        for reply in others {
            match reply {
                Reply::Times(times) => observed.times.push(times),
                other => return Err(out_of_place(&other)),
            }
        }
        Ok(observed.trace())
    }

    async fn read_back(&mut self, buffer: usize, bytes: Range<u64>) -> Result<Vec<u8>, BackendError> {
        let split = self.splits.get(buffer);
        let split = split.ok_or_else(|| BackendError::Device(format!("there is no buffer {buffer}")))?;
        let mut joined = Vec::new();
        for (rank, part) in split.parts(bytes)? {
            let Some(other) = rank.checked_sub(1) else {
                joined.extend(self.own.read_rank(buffer, part).await?);
                continue;
            };
            let (number, want) = (self.others.number, part.end - part.start);
            let order = Order::Read { number, buffer, from: part.start, to: part.end };
            let (_, read) = self.others.peers.borrow_mut().ask(other, &order, want)?;
            if read.len() as u64 != want {
                let why = format!("rank {rank} returned {} bytes, not {want}", read.len());
                return Err(BackendError::Device(why));
            }
            joined.extend(read);
        }
        Ok(joined)
    }

    /// Sums over all ranks; those of this process if another does not answer.
    fn memory(&self) -> MemoryStats {
        let own = self.own.memory();
        let order = Order::Memory { number: self.others.number };
        let Ok((_, others)) = self.others.with(&order, || Ok(())) else { return own };
        let of_rank = |reply: &Reply| if let Reply::Memory(stats) = reply { Some(*stats) } else { None };
        joint_memory(&std::iter::once(own).chain(others.iter().filter_map(of_rank)).collect::<Vec<_>>())
    }
}
