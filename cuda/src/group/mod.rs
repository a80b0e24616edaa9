//! Several GPUs of one host as one device, for exchanges between them.
//!
//! All ranks belong to this process. Each has its own context, stream and events. One thread queues the calls of all ranks as one
//! group of NCCL. A buffer lies on the GPUs row by row, one row of its slowest extent on each.
//!
//! A sample begins when every stream has reached the end of the lead: each stream waits for all others, and then records its first
//! event. Each stream records its second event behind the timed executions. The time of the sample is the longest time between both
//! events of a rank. A rank that starts late, or waits for another, is in that time.
//!
//! Programs of kernels and exchanges run on every GPU as on a device of its own, with exchanges between. Programs without
//! exchanges, such as probes of ceilings, run on the first GPU.

pub(crate) mod prepare;
mod prepared;
pub(crate) mod program;
mod rank;
pub(crate) mod split;
mod trace;

use std::collections::BTreeMap;
use std::rc::Rc;

use async_trait::async_trait;
use parallax_ir::device::{BackendError, Coming, Prepared, Profiler, Transfer};
use parallax_ir::{Case, Inputs};
use parallax_schema::case::Tuning;
use parallax_schema::device::{ClockInfo, DeviceInfo};
use parallax_schema::units::{Bytes, Nanos};

use self::rank::Rank;
use crate::device::{Unavailable, failed};
use crate::driver::{DriverError, device_count, device_name};
use crate::nccl::Communicators;
use crate::profiler::{Cuda, CudaOptions};

/// Open GPUs that work as one device.
pub struct Group {
    /// Communicators of the first ranks, by their number. They end before the contexts.
    communicators: BTreeMap<usize, Rc<Communicators>>,
    ranks: Vec<Rank>,
    /// The first GPU, for programs without exchanges.
    first: Cuda,
    /// The next GPUs, for programs of kernels and exchanges; opened at the first.
    others: Vec<Cuda>,
    info: DeviceInfo,
}

impl Group {
    pub(crate) fn open(options: CudaOptions, gpus: usize) -> Result<Group, Unavailable> {
        let ordinal = options.ordinal;
        let first = Cuda::open(options)?;
        let count = device_count().map_err(failed("counting devices"))?;
        if ordinal.saturating_add(gpus) > count {
            return Err(Unavailable::TooFew { wanted: gpus, first: ordinal, count });
        }
        let opened = (ordinal..ordinal + gpus).map(Rank::open).collect::<Result<Vec<_>, _>>();
        let ranks = opened.map_err(failed("opening the devices of a group"))?;
        let described =
            |rank: &Rank| Ok::<_, DriverError>((device_name(rank.context.cu_device())?, rank.context.total_mem()?));
        let facts = ranks.iter().map(described).collect::<Result<Vec<_>, _>>();
        let facts = facts.map_err(failed("describing the devices of a group"))?;
        let info = joint_info(&first.device.info, facts.into_iter());
        Ok(Group { communicators: BTreeMap::new(), ranks, first, others: Vec::new(), info })
    }

    /// Returns the communicators of the first `count` ranks, connected at the first request.
    ///
    /// # Errors
    /// A larger number than the group has, a missing library, or an error of the library.
    fn connected(&mut self, count: usize) -> Result<Rc<Communicators>, BackendError> {
        if let Some(known) = self.communicators.get(&count) {
            return Ok(known.clone());
        }
        let ranks = self.ranks.get(..count).ok_or_else(|| {
            BackendError::Unsupported(format!("{count} GPUs are needed, the group has {}", self.ranks.len()))
        })?;
        let ordinals: Vec<usize> = ranks.iter().map(|rank| rank.ordinal).collect();
        let contexts = ranks.iter().map(|rank| rank.context.clone()).collect();
        let made = Rc::new(Communicators::new(&ordinals, contexts)?);
        self.communicators.insert(count, made.clone());
        Ok(made)
    }
}

/// Returns the description of several GPUs as one device, from that of the first, and from the name and the memory in bytes of each.
pub(crate) fn joint_info(first: &DeviceInfo, facts: impl Iterator<Item = (String, u64)>) -> DeviceInfo {
    let (names, memory): (Vec<String>, Vec<u64>) = facts.unzip();
    let mut info = first.clone();
    info.name = joint_name(&names);
    info.ranks = u32::try_from(names.len()).unwrap_or(u32::MAX);
    info.caps.ranks = info.ranks;
    // Every rank holds an equal part.
    let least = Bytes(memory.into_iter().min().unwrap_or(0));
    info.caps.memory = Some(least);
    info.caps.max_binding = least;
    info
}

/// Returns one name for several GPUs: their number and name, or all names if they differ.
fn joint_name(names: &[String]) -> String {
    match names {
        [first, rest @ ..] if rest.iter().all(|name| name == first) => format!("{} × {first}", names.len()),
        _ => names.join(" + "),
    }
}

#[async_trait(?Send)]
impl Profiler for Group {
    fn device(&self) -> &DeviceInfo {
        &self.info
    }

    fn set_tuning(&mut self, tuning: Tuning) {
        self.info.caps.tuning = tuning.clone();
        self.others.iter_mut().for_each(|other| other.set_tuning(tuning.clone()));
        self.first.set_tuning(tuning);
    }

    fn clock(&self) -> &ClockInfo {
        self.first.clock()
    }

    fn now(&self) -> Nanos {
        self.first.now()
    }

    async fn yield_now(&self) {}

    async fn empty(&mut self) -> Result<Nanos, BackendError> {
        self.first.empty().await
    }

    async fn transfer(&mut self, way: Transfer, bytes: u64) -> Result<Option<Nanos>, BackendError> {
        self.first.transfer(way, bytes).await
    }

    async fn prefetch(&mut self, coming: &Coming<'_>) {
        self.first.prefetch(coming).await;
    }

    async fn prepare(&mut self, case: &Case, inputs: &Inputs, sets: u32) -> Result<Box<dyn Prepared>, BackendError> {
        match (case.problem.workload.spans_gpus(), case.problem.gpus()) {
            (true, _) => Ok(Box::new(self.prepare_exchange(case, inputs, sets)?)),
            (false, 1) => self.first.prepare(case, inputs, sets).await,
            (false, _) => Ok(Box::new(self.prepare_everywhere(case, inputs, sets)?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_named_by_its_gpus() {
        let named = |names: &[&str]| joint_name(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(named(&["NVIDIA H200", "NVIDIA H200"]), "2 × NVIDIA H200");
        assert_eq!(named(&["A", "B", "A"]), "A + B + A");
    }
}
