//! GPUs of several processes as one device, on one host or on several.
//!
//! Each process has one GPU. The first one measures, checks and records. The others obey its requests, which come over TCP: prepare
//! a case, execute it, return bytes of a result. Data of a case is exchanged by NCCL only.
//!
//! A sample begins after an exchange of one number, which ends on all ranks at about the same time. Its time is the longest of a rank,
//! between events of its own stream. A rank that starts late, or waits for another, is in that time.

mod follow;
mod inputs;
mod joint;
mod meeting;
mod peers;
mod rank;
mod wire;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use async_trait::async_trait;
use parallax_ir::device::{BackendError, Coming, Prepared, Profiler, Transfer};
use parallax_ir::{Case, Inputs};
use parallax_schema::case::Tuning;
use parallax_schema::device::{ClockInfo, DeviceInfo};
use parallax_schema::units::Nanos;

pub use self::follow::{Parse, follow};
use self::joint::{Others, PreparedJoint};
pub use self::meeting::{MeetingError, Place};
pub use self::peers::Lost;
use self::peers::Peers;
use self::rank::Rank;
use self::wire::{Hello, Order};
use crate::device::Unavailable;
use crate::events::since;
use crate::group::joint_info;
use crate::group::prepare::unsupported;
use crate::group::split::Split;
use crate::nccl::{unique_id, version};
use crate::profiler::{Cuda, CudaOptions};

/// Error of opening a group of processes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The GPU of this process cannot be opened.
    #[error(transparent)]
    Device(#[from] Unavailable),
    /// NCCL cannot be loaded.
    #[error("{0}")]
    Library(BackendError),
    /// The processes do not meet.
    #[error(transparent)]
    Meeting(#[from] MeetingError),
}

/// First message of a rank with this device.
fn hello(device: &Cuda, place: &Place) -> Result<Hello, JoinError> {
    let info = &device.device.info;
    Ok(Hello {
        rank: place.rank,
        ranks: place.ranks,
        build: place.build.clone(),
        device: info.name.clone(),
        memory: info.caps.memory.map_or(0, |memory| memory.0),
        nccl: version().map_err(JoinError::Library)?,
    })
}

/// GPUs of several processes, of which this one has the first.
pub struct Processes {
    own: Rank,
    peers: Rc<RefCell<Peers>>,
    ranks: u64,
    info: DeviceInfo,
    /// Number of the next case.
    next: u32,
}

impl Processes {
    pub(crate) fn open(options: CudaOptions, place: &Place, lost: Lost) -> Result<Processes, JoinError> {
        let listener = meeting::listen(place)?;
        let device = Cuda::open(options)?;
        let own = hello(&device, place)?;
        let peers = Peers::new(meeting::accept(&listener, place)?, lost).map_err(MeetingError::from)?;
        let all = || std::iter::once(&own).chain(peers.hellos());
        let info = joint_info(&device.device.info, all().map(|hello| (hello.device.clone(), hello.memory)));
        if let Some(other) = all().find(|hello| hello.nccl != own.nccl) {
            log::warn!("rank {} has {}, rank 0 {}", other.rank, other.nccl, own.nccl);
        }
        let peers = Rc::new(RefCell::new(peers));
        Ok(Processes { own: Rank::new(0, device), peers, ranks: place.ranks, info, next: 0 })
    }

    /// Connects the first `ranks` ranks, at the first request.
    fn connect(&mut self, ranks: u64) -> Result<(), BackendError> {
        if self.own.is_connected(ranks) {
            return Ok(());
        }
        if ranks > self.ranks {
            return Err(unsupported(format!("{ranks} GPUs are needed, the group has {}", self.ranks)));
        }
        let (id, count) = (unique_id()?, ranks as usize - 1);
        let mut peers = self.peers.borrow_mut();
        peers.send(count, &Order::Connect { ranks }, &id.0)?;
        let own = self.own.connect(id, ranks);
        let others = peers.answers(count);
        own.and(others.map(drop))
    }

    /// Prepares a case on its ranks.
    fn prepare_joint(&mut self, case: &Case, inputs: &Inputs, sets: u32) -> Result<PreparedJoint, BackendError> {
        let (ranks, dtype, specs) = (case.problem.gpus(), case.problem.dtype, case.problem.buffers());
        let splits = specs.iter().map(|spec| Split::new(spec, dtype, ranks)).collect::<Result<Vec<_>, _>>()?;
        let began = Instant::now();
        self.connect(ranks)?;
        let connected = since(began);
        let (number, count) = (self.next, ranks as usize - 1);
        self.next += 1;
        let caps = &self.info.caps;
        let order = Order::Prepare { number, case: case.to_string(), caps: Box::new(caps.clone()), sets };
        let mut peers = self.peers.borrow_mut();
        peers.send(count, &order, &[])?;
        peers.answers(count)?;
        peers.fill(count, inputs, (&specs, dtype))?;
        let own = self.own.prepare(case, caps, &inputs.of_rank(0), (sets, connected));
        let answers = peers.answers(count);
        drop(peers);
        // From here on, the parts of the other ranks end with it.
        let others = Others { peers: self.peers.clone(), number, count };
        let own = own?;
        answers?;
        Ok(PreparedJoint { own, others, splits, specs, dtype })
    }
}

#[async_trait(?Send)]
impl Profiler for Processes {
    fn device(&self) -> &DeviceInfo {
        &self.info
    }

    fn set_tuning(&mut self, tuning: Tuning) {
        self.info.caps.tuning = tuning.clone();
        self.own.device.set_tuning(tuning);
    }

    fn clock(&self) -> &ClockInfo {
        self.own.device.clock()
    }

    fn now(&self) -> Nanos {
        self.own.device.now()
    }

    async fn yield_now(&self) {}

    async fn empty(&mut self) -> Result<Nanos, BackendError> {
        self.own.device.empty().await
    }

    async fn transfer(&mut self, way: Transfer, bytes: u64) -> Result<Option<Nanos>, BackendError> {
        self.own.device.transfer(way, bytes).await
    }

    async fn prefetch(&mut self, coming: &Coming<'_>) {
        self.own.device.prefetch(coming).await;
    }

    async fn prepare(&mut self, case: &Case, inputs: &Inputs, sets: u32) -> Result<Box<dyn Prepared>, BackendError> {
        match (case.problem.workload.spans_gpus(), case.problem.gpus()) {
            (false, 1) => self.own.device.prepare(case, inputs, sets).await,
            _ => Ok(Box::new(self.prepare_joint(case, inputs, sets)?)),
        }
    }
}
