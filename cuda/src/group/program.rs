//! A program of kernels and exchanges on every GPU of a group.
//!
//! Each GPU has the program on its rows of the buffers, as a case of its own. One thread issues the commands: those up to an
//! exchange for one GPU after the other, then the exchange for all of them as one group of NCCL. An exchange is queued on every GPU
//! before the commands behind it, so that no GPU waits for a command that is not queued.

use std::ops::Range;
use std::rc::Rc;
use std::time::Instant;

use async_trait::async_trait;
use cudarc::driver::sys::CUevent_flags;
use parallax_ir::device::stack::Stack;
use parallax_ir::device::{Awaited, BackendError, Batch, Prepared, Profiler, Sample};
use parallax_ir::{BufferSpec, Case, Inputs, QueueCommand, Stage, StageOp};
use parallax_schema::device::{Compiled, Launch, Launching, MemoryStats, Trace};
use parallax_schema::units::{Bytes, Nanos};

use super::Group;
use super::prepare::{parts, tell, unsupported};
use super::split::Split;
use super::trace::{Call, joined, times};
use crate::driver::CudaEvent;
use crate::errors::Context;
use crate::events::{elapsed, event, since};
use crate::nccl::{Communicators, Part, Side};
use crate::prepared::{PreparedCase, RESULT};
use crate::profiler::{Cuda, CudaOptions};

/// Exchanges of a stage; `None` for a stage that each rank runs by itself.
type Exchanges = Option<Vec<Part>>;

/// A case of kernels and exchanges on the GPUs of a group.
pub(crate) struct PreparedProgram {
    /// The case on each rank. They wait for all work before they drop their memory.
    cases: Vec<PreparedCase>,
    /// Mark of each rank for the others.
    reached: Vec<CudaEvent>,
    /// Exchanges of each stage, on each set of buffers.
    exchanges: Vec<Vec<Exchanges>>,
    splits: Vec<Split>,
    compiled: Compiled,
    communicators: Rc<Communicators>,
}

impl Group {
    /// Places a case of kernels and exchanges on its ranks, with `sets` copies of its buffers on each.
    ///
    /// # Errors
    /// [`BackendError::Refused`] without NCCL. [`BackendError::Unsupported`] for a buffer without a row for each rank. Errors of
    /// the driver, the compiler and NCCL.
    pub(super) fn prepare_everywhere(
        &mut self,
        case: &Case,
        inputs: &Inputs,
        sets: u32,
    ) -> Result<PreparedProgram, BackendError> {
        let began = Instant::now();
        let whole = case.whole_program(&self.info.caps).ok_or_else(|| unsupported(format!("{case} has no stages")))?;
        let (program, setup) = (&whole.0, whole.1);
        let (gpus, dtype) = (case.problem.gpus(), case.problem.dtype);
        let ranks = usize::try_from(gpus).unwrap_or(usize::MAX);
        let communicators = self.connected(ranks)?;
        self.open_others(ranks)?;
        let connected = since(began);
        let specs = case.problem.buffers();
        let splits = specs.iter().map(|spec| Split::new(spec, dtype, gpus)).collect::<Result<Vec<_>, _>>()?;
        let own: Vec<BufferSpec> = specs.iter().map(BufferSpec::of_rank).collect();
        let devices = std::iter::once(&mut self.first).chain(&mut self.others).take(ranks);
        let on_rank = |(rank, device): (u64, &mut Cuda)| {
            device.prepare_on((case, own.clone()), (program, setup), &inputs.of_rank(rank), sets)
        };
        let cases = (0..).zip(devices).map(on_rank).collect::<Result<Vec<_>, _>>()?;
        PreparedProgram::new(cases, &program.stages[setup..], splits, (communicators, connected))
    }

    /// Opens the first `count` ranks as devices of their own.
    fn open_others(&mut self, count: usize) -> Result<(), BackendError> {
        while self.others.len() + 1 < count {
            let first = &self.first.options;
            let options = CudaOptions { ordinal: first.ordinal + self.others.len() + 1, ..first.clone() };
            let mut other = Cuda::open(options).map_err(|error| BackendError::Device(error.to_string()))?;
            other.set_tuning(self.info.caps.tuning.clone());
            self.others.push(other);
        }
        Ok(())
    }
}

/// Returns the exchanges of a timed stage, by its position, with the memory of every rank in a set.
fn exchanges(
    cases: &[PreparedCase],
    ranks: u64,
    set: usize,
    (at, stage): (usize, &Stage),
) -> Result<Exchanges, BackendError> {
    if !matches!(stage.work, StageOp::Collective(_)) {
        return Ok(None);
    }
    let side = |rank: usize, ends: [usize; 2]| {
        let case = &cases[rank];
        let [sent, received] = ends.map(|index| Some(case.sets[set][index].as_ref()?.pointer()));
        Some(Side { sent: sent?, received: received?, stream: case.streams.of_stage(at)?.cu_stream() })
    };
    parts(stage, (&cases[0].specs, cases[0].dtype), [ranks as usize, cases.len()], side).map(Some)
}

/// Returns the commands up to the first exchange, and those from it on.
fn up_to_exchange(orders: &[QueueCommand], is_exchange: impl Fn(usize) -> bool) -> (&[QueueCommand], &[QueueCommand]) {
    let runs_one = |order: &QueueCommand| matches!(order, QueueCommand::Run { stage, .. } if is_exchange(*stage));
    orders.split_at(orders.iter().position(runs_one).unwrap_or(orders.len()))
}

impl PreparedProgram {
    /// Returns the program of the cases of this process's ranks, with these timed stages, and with communicators that were connected in
    /// this time. `splits` are those of a group of one process.
    pub(crate) fn new(
        cases: Vec<PreparedCase>,
        timed: &[Stage],
        splits: Vec<Split>,
        (communicators, connected): (Rc<Communicators>, Nanos),
    ) -> Result<PreparedProgram, BackendError> {
        let of_set = |set: usize| {
            let of_stage = |stage| exchanges(&cases, communicators.total(), set, stage);
            timed.iter().enumerate().map(of_stage).collect::<Result<Vec<_>, _>>()
        };
        let exchanges = (0..cases[0].sets.len()).map(of_set).collect::<Result<_, _>>()?;
        let mark = |case: &PreparedCase| case.context.new_event(CUevent_flags::CU_EVENT_DISABLE_TIMING);
        let reached = cases.iter().map(mark).collect::<Result<_, _>>().doing(|| "creating an event".into())?;
        let mut compiled = cases[0].compiled.clone();
        tell(&mut compiled, &communicators, connected);
        Ok(PreparedProgram { cases, reached, exchanges, splits, compiled, communicators })
    }

    /// Issues commands of one execution on a set.
    fn issue(&self, set: usize, mut orders: &[QueueCommand]) -> Result<(), BackendError> {
        let exchanges = &self.exchanges[set];
        loop {
            let (before, rest) = up_to_exchange(orders, |stage| exchanges[stage].is_some());
            self.cases.iter().try_for_each(|case| {
                case.bind()?;
                case.obey(set, before)
            })?;
            let Some((QueueCommand::Run { stage, .. }, later)) = rest.split_first() else { return Ok(()) };
            if let Some(parts) = &exchanges[*stage] {
                // SAFETY: the sides are the cases' own buffers, which `Exchange::new` compared with the exchange. The cases wait
                // for all streams before they drop them.
                unsafe { self.communicators.queue(parts) }?;
            }
            orders = later;
        }
    }

    /// Takes the set of the next execution, which is the same on all ranks.
    fn take(&mut self) -> usize {
        self.cases.iter_mut().map(|case| case.rotation.take()).fold(0, |_, set| set)
    }

    fn execute(&mut self, times: u32) -> Result<(), BackendError> {
        for _ in 0..times {
            let set = self.take();
            self.issue(set, self.cases[0].streams.orders())?;
        }
        Ok(())
    }

    /// Waits for all work of every rank, also after an error on one of them.
    fn wait(&self) -> Result<(), BackendError> {
        self.cases.iter().map(PreparedCase::wait).fold(Ok(()), Result::and)
    }

    /// Restores the buffers that executions modify, and waits.
    fn restored(&self) -> Result<(), BackendError> {
        self.cases.iter().try_for_each(|case| {
            case.bind()?;
            case.restored()
        })
    }

    /// Makes the main stream of every rank wait until all others have reached this point.
    fn align(&self) -> Result<(), BackendError> {
        self.cases.iter().zip(&self.reached).try_for_each(|(case, reached)| case.record(reached))?;
        for (at, case) in self.cases.iter().enumerate() {
            for (_, other) in self.reached.iter().enumerate().filter(|(other, _)| *other != at) {
                case.stream.wait(other).doing(|| "letting a GPU wait for another".into())?;
            }
        }
        self.communicators.meet(&self.cases[0].stream)
    }

    /// Queues a batch. The lead is before the first events. The ranks start the timed executions together.
    fn launch_all(&mut self, Batch { lead, repeats }: Batch) -> Result<(), BackendError> {
        self.execute(lead)?;
        self.align()?;
        self.cases.iter().try_for_each(|case| case.record(&case.begin))?;
        self.execute(repeats)?;
        self.cases.iter().try_for_each(|case| case.record(&case.end))
    }

    /// Runs the stages once, with events around each on every rank. A span includes the gap before its work.
    pub(crate) fn observe(&mut self, stacks: bool) -> Result<Observed, BackendError> {
        self.restored()?;
        let set = self.take();
        let steps = self.cases[0].steps(set);
        let pairs = |case: &PreparedCase| {
            let pair = |_| Ok::<_, BackendError>([event(&case.context)?, event(&case.context)?]);
            (0..steps.len()).map(pair).collect::<Result<Vec<_>, _>>()
        };
        let zeros = self.cases.iter().map(|case| event(&case.context)).collect::<Result<Vec<_>, _>>()?;
        let events = self.cases.iter().map(pairs).collect::<Result<Vec<_>, _>>()?;
        let mut calls = Vec::new();
        let mut submit = || {
            self.align()?;
            self.cases.iter().zip(&zeros).try_for_each(|(case, zero)| case.record(zero))?;
            for order in self.cases[0].streams.orders() {
                let QueueCommand::Run { stage, .. } = *order else {
                    self.issue(set, &[*order])?;
                    continue;
                };
                let record = |edge: usize| {
                    self.cases.iter().zip(&events).try_for_each(|(case, pairs)| match case.streams.of_stage(stage) {
                        Some(stream) => pairs[stage][edge].record(stream).doing(|| "recording an event".into()),
                        None => Ok(()),
                    })
                };
                record(0)?;
                let stack = stacks.then(Stack::capture);
                let begin = self.now();
                self.issue(set, &[*order])?;
                let (end, stack) = (self.now(), stack.as_ref().map(Stack::names).unwrap_or_default());
                let streams = &self.cases[0].streams;
                let stream = streams.of_stage(stage).and_then(|stream| streams.position(stream.cu_stream()));
                let (name, label) = (steps[stage].call(), steps[stage].label.to_string());
                calls.push(Call { name, label, stream, begin, end, stack });
                record(1)?;
            }
            Ok::<_, BackendError>(())
        };
        let submitted = submit();
        let wait = self.now();
        // Wait also after a failed call: no work may be in flight when the buffers are dropped.
        let waited = self.wait();
        let done = self.now();
        submitted.and(waited)?;
        Ok(Observed { calls, waited: [wait, done], times: times(&zeros, &events)? })
    }

    /// Replaces the inputs of the first rank of this process.
    pub(crate) fn refill_rank(&mut self, inputs: &Inputs) -> Result<(), BackendError> {
        pollster::block_on(self.cases[0].refill(inputs))
    }

    /// Returns bytes of a buffer of the first rank of this process.
    pub(crate) async fn read_rank(&mut self, buffer: usize, bytes: Range<u64>) -> Result<Vec<u8>, BackendError> {
        self.cases[0].read_back(buffer, bytes).await
    }
}

/// Observations of one execution.
pub(crate) struct Observed {
    calls: Vec<Call>,
    /// Begin and end of the host's wait.
    waited: [Nanos; 2],
    /// Begin and end of each stage on each rank, relative to the moment when the ranks were aligned.
    pub(crate) times: Vec<Vec<[Nanos; 2]>>,
}

impl Observed {
    /// Returns the spans of calls, wait and work.
    pub(crate) fn trace(&self) -> Trace {
        joined(&self.calls, self.waited, &self.times)
    }
}

#[async_trait(?Send)]
impl Prepared for PreparedProgram {
    fn compiled(&self) -> &Compiled {
        &self.compiled
    }

    /// Launches of one rank.
    fn launches(&self) -> Vec<Launch> {
        self.cases[0].launches()
    }

    fn launching(&self) -> Option<Launching> {
        Some(Launching::Stream)
    }

    async fn launch_as(&mut self, launching: Launching) -> Result<(), BackendError> {
        match launching {
            Launching::Stream => Ok(()),
            other => Err(unsupported(format!("programs of several GPUs have no launch mode `{}`", other.name()))),
        }
    }

    async fn refill(&mut self, inputs: &Inputs) -> Result<(), BackendError> {
        for (rank, case) in (0..).zip(&mut self.cases) {
            case.refill(&inputs.of_rank(rank)).await?;
        }
        Ok(())
    }

    fn now(&self) -> Nanos {
        since(self.cases[0].opened)
    }

    async fn poison(&mut self, word: u32) -> Result<(), BackendError> {
        self.cases.iter().try_for_each(|case| case.poison_all(word))
    }

    async fn measure(&mut self, batch: Batch) -> Result<Sample, BackendError> {
        self.restored()?;
        let begin = Instant::now();
        let launched = self.launch_all(batch);
        // Wait also after a failed call: no work may be in flight when the buffers are dropped.
        let waited = self.wait();
        let host = since(begin);
        launched?;
        waited?;
        // The longest time of a rank.
        let mut times = self.cases.iter().map(|case| elapsed(&case.begin, &case.end));
        let time = times.try_fold(Nanos(0.0), |longest, time| Ok::<_, BackendError>(Nanos(longest.0.max(time?.0))))?;
        Ok(Sample { time, host })
    }

    async fn call(&mut self, executions: u32, until: Awaited) -> Result<Nanos, BackendError> {
        self.restored()?;
        let mut first = vec![[0u8; RESULT]; self.cases.len()];
        let begin = Instant::now();
        let called = self.execute(executions).and_then(|()| match until {
            Awaited::Done => Ok(()),
            Awaited::Result => self.cases.iter().zip(&mut first).try_for_each(|(case, first)| {
                case.bind()?;
                case.fetch(first)
            }),
        });
        // Wait also after a failed call: no work may be in flight when the buffers are dropped.
        let waited = self.wait();
        let host = since(begin);
        called?;
        waited?;
        Ok(host)
    }

    async fn trace(&mut self, stacks: bool) -> Result<Trace, BackendError> {
        Ok(self.observe(stacks)?.trace())
    }

    async fn read_back(&mut self, buffer: usize, bytes: Range<u64>) -> Result<Vec<u8>, BackendError> {
        let split = self.splits.get(buffer);
        let split = split.ok_or_else(|| BackendError::Device(format!("there is no buffer {buffer}")))?;
        let mut joined = Vec::new();
        for (rank, part) in split.parts(bytes)? {
            joined.extend(self.cases[rank].read_back(buffer, part).await?);
        }
        Ok(joined)
    }

    /// Sums over all ranks.
    fn memory(&self) -> MemoryStats {
        joint_memory(&self.cases.iter().map(|case| case.memory()).collect::<Vec<_>>())
    }
}

/// Returns the sums of the memory of all ranks.
pub(crate) fn joint_memory(all: &[MemoryStats]) -> MemoryStats {
    let sum = |of: fn(&MemoryStats) -> Option<Bytes>| all.iter().map(|one| Some(of(one)?.0)).sum::<Option<u64>>();
    MemoryStats {
        current: Bytes(all.iter().map(|one| one.current.0).sum()),
        peak: Bytes(all.iter().map(|one| one.peak.0).sum()),
        reserved: sum(|one| one.reserved).map(Bytes),
        device_used: sum(|one| one.device_used).map(Bytes),
        ..MemoryStats::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_ir::Queues;
    use parallax_ir::device::typical;
    use parallax_workloads::parse_case;

    #[test]
    fn commands_are_issued_up_to_each_exchange_and_none_is_lost() {
        for (variant, exchanges) in [("fused", 1), ("overlapped", 3)] {
            let case = parse_case(&format!("train_step/fwd+bwd/n8,e3,v5,d4,f8,gpus2/f32/{variant}")).expect("valid");
            let stages = case.program(&typical::cuda()).expect("kernels").stages;
            let queues = Queues::from_stages(&stages).expect("valid");
            let is_exchange = |stage: usize| matches!(stages[stage].work, StageOp::Collective(_));
            let (mut orders, mut issued, mut found) = (&queues.orders[..], Vec::new(), 0);
            loop {
                let (before, rest) = up_to_exchange(orders, is_exchange);
                issued.extend_from_slice(before);
                let Some((exchange, later)) = rest.split_first() else { break };
                assert!(matches!(exchange, QueueCommand::Run { stage, .. } if is_exchange(*stage)), "{exchange:?}");
                issued.push(*exchange);
                (orders, found) = (later, found + 1);
            }
            assert_eq!((issued, found), (queues.orders, exchanges), "{variant}");
        }
    }

    #[test]
    fn every_buffer_of_a_step_has_a_row_for_each_rank() {
        let case = parse_case("train_step/fwd+bwd/n12,e3,v5,d4,f8,gpus3/f32/overlapped").expect("valid");
        for spec in case.problem.buffers() {
            let split = Split::new(&spec, case.problem.dtype, 3).expect("rows");
            assert_eq!(split.bytes, spec.of_rank().bytes(case.problem.dtype).0, "{}", spec.name);
        }
    }
}
