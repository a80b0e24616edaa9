//! An exchange on a group: execution, timing and read-back.

use std::borrow::Cow;
use std::ops::Range;
use std::rc::Rc;
use std::time::Instant;

use async_trait::async_trait;
use parallax_ir::device::{Awaited, BackendError, Batch, Ledger, Prepared, Rotation, Sample};
use parallax_ir::{BufferSpec, Inputs, Role};
use parallax_schema::case::DType;
use parallax_schema::device::{Compiled, Launch, Launching, MemoryStats, Trace};
use parallax_schema::units::{Bytes, Nanos};

use super::prepare::fill;
use super::rank::{Marks, Rank, align};
use super::split::Split;
use super::trace::trace;
use crate::errors::Context;
use crate::events::{elapsed, since};
use crate::memory::Buffer;
use crate::nccl::{Communicators, Part};

/// A set of buffers: those of each rank, in the workload's order.
pub(super) type Set = Vec<Vec<Buffer>>;

/// Bytes that represent a result in the measurement of read-back.
const RESULT: usize = 16;

/// An exchange with the memory of every rank.
pub(super) struct Bound {
    pub(super) label: Cow<'static, str>,
    pub(super) entry: &'static str,
    pub(super) parts: Vec<Part>,
}

/// A case on the GPUs of a group. All its members free themselves.
pub(crate) struct PreparedGroup {
    pub(super) rotation: Rotation,
    pub(super) ranks: Vec<Rank>,
    pub(super) marks: Vec<Marks>,
    pub(super) communicators: Rc<Communicators>,
    /// Exchanges of one execution, on each set of buffers.
    pub(super) executions: Vec<Vec<Bound>>,
    pub(super) specs: Vec<BufferSpec>,
    pub(super) splits: Vec<Split>,
    pub(super) sets: Vec<Set>,
    pub(super) dtype: DType,
    pub(super) compiled: Compiled,
    pub(super) opened: Instant,
    pub(super) ledger: Rc<Ledger>,
}

impl PreparedGroup {
    /// Queues an exchange on every rank's stream.
    pub(super) fn queue(&self, bound: &Bound) -> Result<(), BackendError> {
        // SAFETY: the sides are the case's own buffers, which `Exchange::new` compared with the exchange. The case waits for all
        // streams before it drops them.
        unsafe { self.communicators.queue(&bound.parts) }
    }

    fn execute(&mut self, times: u32) -> Result<(), BackendError> {
        for _ in 0..times {
            let set = self.rotation.take();
            self.executions[set].iter().try_for_each(|bound| self.queue(bound))?;
        }
        Ok(())
    }

    /// Waits for all work of every rank, also after an error on one of them.
    pub(super) fn wait(&self) -> Result<(), BackendError> {
        let waited = self.ranks.iter().map(|rank| rank.stream.synchronize()).fold(Ok(()), Result::and);
        let labels = || self.executions[0].iter().map(|bound| &*bound.label).collect::<Vec<_>>().join(", ");
        waited.doing(|| format!("running {}", labels()))
    }

    /// Queues a batch. The lead is before the first events. The ranks start the timed executions together.
    fn launch_all(&mut self, Batch { lead, repeats }: Batch) -> Result<(), BackendError> {
        self.execute(lead)?;
        align(&self.ranks, &self.marks)?;
        self.ranks.iter().zip(&self.marks).try_for_each(|(rank, marks)| rank.record(&marks.begin))?;
        self.execute(repeats)?;
        self.ranks.iter().zip(&self.marks).try_for_each(|(rank, marks)| rank.record(&marks.end))
    }

    /// Longest time of a rank between its events.
    fn longest(&self) -> Result<Nanos, BackendError> {
        let mut times = self.marks.iter().map(|marks| elapsed(&marks.begin, &marks.end));
        times.try_fold(Nanos(0.0), |longest, time| Ok(Nanos(longest.0.max(time?.0))))
    }

    /// Copies the first bytes of the result of every rank to the host, in stream order.
    fn fetch(&self, first: &mut [[u8; RESULT]]) -> Result<(), BackendError> {
        let computed = self.specs.iter().position(|spec| matches!(spec.role, Role::Output { .. }));
        let Some(output) = computed else { return Ok(()) };
        let buffers = self.sets[self.rotation.last()].iter().map(|buffers| &buffers[output]);
        self.ranks.iter().zip(buffers).zip(first).try_for_each(|((rank, buffer), first)| {
            rank.bind()?;
            buffer.fetch(first, rank.stream.cu_stream())
        })
    }

    /// Poisons the outputs of every set on every rank, and waits.
    pub(super) fn poison_all(&self, word: u32) -> Result<(), BackendError> {
        let outputs = |set: &Set| {
            set.iter().zip(&self.ranks).try_for_each(|(buffers, rank)| {
                rank.bind()?;
                let mut poisoned = self.specs.iter().zip(buffers).filter(|(spec, _)| spec.role.poisoned());
                poisoned.try_for_each(|(_, buffer)| buffer.poison(word, rank.stream.cu_stream()))
            })
        };
        let poisoned = self.sets.iter().try_for_each(outputs);
        // Wait also after a failed fill: no work may be in flight when the buffers are dropped.
        self.wait().and(poisoned)
    }
}

#[async_trait(?Send)]
impl Prepared for PreparedGroup {
    fn compiled(&self) -> &Compiled {
        &self.compiled
    }

    /// The library does not expose its kernels.
    fn launches(&self) -> Vec<Launch> {
        let launch = |bound: &Bound| Launch {
            label: bound.label.to_string(),
            entry: bound.entry.to_owned(),
            grid: [1; 3],
            block: [1; 3],
            ..Launch::default()
        };
        self.executions[0].iter().map(launch).collect()
    }

    fn launching(&self) -> Option<Launching> {
        Some(Launching::Stream)
    }

    async fn launch_as(&mut self, launching: Launching) -> Result<(), BackendError> {
        match launching {
            Launching::Stream => Ok(()),
            other => {
                let name = other.name();
                Err(BackendError::Unsupported(format!("exchanges between GPUs have no launch mode `{name}`")))
            }
        }
    }

    async fn refill(&mut self, inputs: &Inputs) -> Result<(), BackendError> {
        self.wait()?;
        fill(&self.ranks, (&self.specs, &self.splits, &self.sets), (inputs, self.dtype))
    }

    fn now(&self) -> Nanos {
        since(self.opened)
    }

    async fn poison(&mut self, word: u32) -> Result<(), BackendError> {
        self.poison_all(word)
    }

    async fn measure(&mut self, batch: Batch) -> Result<Sample, BackendError> {
        let begin = Instant::now();
        let launched = self.launch_all(batch);
        // Wait also after a failed call: no work may be in flight when the buffers are dropped.
        let waited = self.wait();
        let host = since(begin);
        launched?;
        waited?;
        Ok(Sample { time: self.longest()?, host })
    }

    async fn call(&mut self, executions: u32, until: Awaited) -> Result<Nanos, BackendError> {
        let mut first = vec![[0u8; RESULT]; self.ranks.len()];
        let begin = Instant::now();
        let called = self.execute(executions).and_then(|()| match until {
            Awaited::Done => Ok(()),
            Awaited::Result => self.fetch(&mut first),
        });
        // Wait also after a failed call: no work may be in flight when the buffers are dropped.
        let waited = self.wait();
        let host = since(begin);
        called?;
        waited?;
        Ok(host)
    }

    async fn trace(&mut self, stacks: bool) -> Result<Trace, BackendError> {
        trace(self, stacks)
    }

    async fn read_back(&mut self, buffer: usize, bytes: Range<u64>) -> Result<Vec<u8>, BackendError> {
        self.wait()?;
        let split = self.splits.get(buffer);
        let split = split.ok_or_else(|| BackendError::Device(format!("there is no buffer {buffer}")))?;
        let mut joined = Vec::new();
        for (rank, part) in split.parts(bytes)? {
            self.ranks[rank].bind()?;
            joined.extend(self.sets[self.rotation.last()][rank][buffer].read(part)?);
        }
        Ok(joined)
    }

    /// Sums over all ranks.
    fn memory(&self) -> MemoryStats {
        let sum = |of: fn(u64, u64, u64) -> u64| {
            let one = |rank: &Rank| {
                let (free, total) = rank.context.mem_get_info().ok()?;
                Some(of(rank.free_before, free, total))
            };
            self.ranks.iter().map(one).sum::<Option<u64>>().map(Bytes)
        };
        MemoryStats {
            current: self.ledger.current(),
            peak: self.ledger.peak(),
            reserved: sum(|before, free, _| before.saturating_sub(free)),
            device_used: sum(|_, free, total| total.saturating_sub(free)),
            ..MemoryStats::default()
        }
    }
}
