//! What measures, as the page sees it: a program of its own, in a worker where browsers offer there what it takes, so that neither
//! disturbs the other; otherwise in the page. Either way the two sides say the same to each other.

mod awaited;
mod beside;
mod programs;

use std::rc::Rc;

use futures_channel::mpsc::UnboundedReceiver;
use parallax_core::device::{ClockInfo, DeviceInfo};
use parallax_core::measure::runner::RunEnd;
use parallax_core::plan::{Spec, Unplanned};
use parallax_core::record::Event;
use parallax_core::report::CaseInfo;
use parallax_lab::protocol::{Compilers, Order, Word};
pub use parallax_lab::protocol::{Job, OpenRequest, OtherTexts, Planned};

use crate::environment;
use awaited::Awaited;
use beside::WorkerHandle;
pub use beside::abandon;
pub use programs::more_threads;

/// Orders that can be given at any time.
#[derive(Clone)]
pub struct RequestSender {
    give: Rc<dyn Fn(Order)>,
    awaited: Awaited,
}

impl RequestSender {
    /// Plan what was asked for, or say why there is nothing to run. `None` when another plan was ordered meanwhile.
    ///
    /// # Errors
    /// When measuring hit a bug; the device is then gone.
    pub async fn plan(&self, number: u32, spec: Spec) -> Option<Result<Result<Box<Planned>, Unplanned>, String>> {
        let answer = self.awaited.plan(number);
        (self.give)(Order::Plan { number, spec: Box::new(spec) });
        Some(match answer.await.ok()? {
            Word::Planned { planned, .. } => Ok(planned),
            other => Err(broken(Some(other))),
        })
    }

    /// End the run soon.
    pub fn stop(&self) {
        (self.give)(Order::Stop);
    }

    /// The tab went out of sight, or came back.
    pub fn sight(&self, hidden: bool) {
        (self.give)(Order::Visibility { hidden });
    }
}

/// An open device, wherever it is.
pub struct Session {
    /// What it is.
    pub device: DeviceInfo,
    /// Its clock.
    pub clock: ClockInfo,
    /// Seconds on the page's clock when it was opened.
    pub since: f64,
    /// What it can be told while it measures.
    pub orders: RequestSender,
    /// Whether kernels in CubeCL were asked for.
    pub cube: bool,
    compilers: Option<Compilers>,
    words: UnboundedReceiver<Word>,
    /// Dropped with the device in it.
    beside: WorkerHandle,
}

impl Session {
    /// Reach a device, or say why there is none.
    pub async fn open(ask: OpenRequest) -> Result<Session, String> {
        let cube = ask.cube;
        let beside::SpawnedWorker { beside, mut words, remark } = beside::start(ask.way).await?;
        let (since, orders) = (environment::seconds(), beside.orders());
        orders.sight(environment::hidden());
        (orders.give)(Order::Open(ask));
        match words.recv().await {
            Ok(Word::Opened { mut device, clock, compilers }) => {
                device.features.extend(remark);
                Ok(Session { device: *device, clock, since, orders, cube, compilers, words, beside })
            }
            Ok(Word::Unavailable { why }) => Err(why),
            other => Err(broken(other.ok())),
        }
    }

    /// What the record says of where it is and what was fetched for it.
    pub fn place(&self) -> impl Iterator<Item = (String, String)> + use<> {
        let compilers = self.compilers.as_ref().map(|Compilers { sent, bytes, milliseconds }| {
            let sent = if sent.0 > 0 && sent < bytes { format!(", {sent} sent,") } else { String::new() };
            ("cube_module", format!("{bytes}{sent} in {milliseconds:.0} ms"))
        });
        let told = [("measured_in", self.beside.place().to_owned())].into_iter().chain(compilers);
        told.map(|(name, value)| (name.to_owned(), value))
    }

    /// Measure, and hand over what happens, and what a record's workload says of it.
    ///
    /// # Errors
    /// When measuring hit a bug; the device is then gone.
    pub async fn run(&mut self, job: Job, mut on_event: impl FnMut(Event, Option<CaseInfo>)) -> Result<RunEnd, String> {
        (self.orders.give)(Order::Run(Box::new(job)));
        loop {
            match self.words.recv().await {
                Ok(Word::Event { event, known }) => on_event(*event, known),
                Ok(Word::Ended { end }) => return Ok(end),
                other => return Err(broken(other.ok())),
            }
        }
    }
}

fn broken(word: Option<Word>) -> String {
    match word {
        Some(Word::Broken { why }) => format!("measuring hit a bug of its own: {why}"),
        other => format!("measuring hit a bug of its own: it said {other:?}"),
    }
}
