//! The page's interface to the worker, the program that measures. It runs in a worker if the browser supports that, so that page
//! and measurement do not disturb each other. Otherwise it runs in the page. The messages are the same in both places.

mod awaited;
mod programs;
mod worker_handle;

use std::rc::Rc;

use futures_channel::mpsc::UnboundedReceiver;
use parallax_protocol::messages::{Compilers, Request, Response};
pub use parallax_protocol::messages::{Job, OpenRequest, OtherTexts, Planned};
use parallax_report::CaseInfo;
use parallax_schema::device::{ClockInfo, DeviceInfo};
use parallax_schema::record::Event;
use parallax_schema::session::{RunEnd, Unplanned};
use parallax_schema::spec::Spec;

use crate::environment;
use awaited::Awaited;
pub use programs::more_threads;
use worker_handle::WorkerHandle;
pub use worker_handle::abandon;

/// Sender of requests, usable at any time.
#[derive(Clone)]
pub struct RequestSender {
    give: Rc<dyn Fn(Request)>,
    awaited: Awaited,
}

impl RequestSender {
    /// Plans a spec. Returns the plan, or the reason of its absence. `None` after a newer plan request.
    ///
    /// # Errors
    /// A bug of the worker. The device is then gone.
    pub async fn plan(&self, number: u32, spec: Spec) -> Option<Result<Result<Box<Planned>, Unplanned>, String>> {
        let answer = self.awaited.plan(number);
        (self.give)(Request::Plan { number, spec: Box::new(spec) });
        Some(match answer.await.ok()? {
            Response::Planned { planned, .. } => Ok(planned),
            other => Err(broken(Some(other))),
        })
    }

    /// Ends the run soon.
    pub fn stop(&self) {
        (self.give)(Request::Stop);
    }

    /// Reports a change of the tab's visibility.
    pub fn sight(&self, hidden: bool) {
        (self.give)(Request::Visibility { hidden });
    }
}

/// An open device, in a worker or in the page.
pub struct Session {
    /// The device.
    pub device: DeviceInfo,
    /// Its clock.
    pub clock: ClockInfo,
    /// Time of opening, in seconds on the page's clock.
    pub since: f64,
    /// Sender of requests during measurement.
    pub orders: RequestSender,
    /// Whether the spec names kernels in CubeCL.
    pub cube: bool,
    compilers: Option<Compilers>,
    words: UnboundedReceiver<Response>,
    /// Dropped with the device in it.
    worker: WorkerHandle,
}

impl Session {
    /// Opens a device, or returns the reason of its absence.
    pub async fn open(ask: OpenRequest) -> Result<Session, String> {
        let cube = ask.cube;
        let worker_handle::SpawnedWorker { worker, mut words, remark } = worker_handle::start(ask.way).await?;
        let (since, orders) = (environment::seconds(), worker.orders());
        orders.sight(environment::hidden());
        (orders.give)(Request::Open(ask));
        match words.recv().await {
            Ok(Response::Opened { mut device, clock, compilers }) => {
                device.features.extend(remark);
                Ok(Session { device: *device, clock, since, orders, cube, compilers, words, worker })
            }
            Ok(Response::Unavailable { why }) => Err(why),
            other => Err(broken(other.ok())),
        }
    }

    /// Entries of the record about the worker's place and the fetched compilers.
    pub fn place(&self) -> impl Iterator<Item = (String, String)> + use<> {
        let compilers = self.compilers.as_ref().map(|Compilers { sent, bytes, milliseconds }| {
            let sent = if sent.0 > 0 && sent < bytes { format!(", {sent} sent,") } else { String::new() };
            ("cube_module", format!("{bytes}{sent} in {milliseconds:.0} ms"))
        });
        let facts = [("measured_in", self.worker.place().to_owned())].into_iter().chain(compilers);
        facts.map(|(name, value)| (name.to_owned(), value))
    }

    /// Measures. `on_event` receives each event, with the workload facts of a record.
    ///
    /// # Errors
    /// A bug of the worker. The device is then gone.
    pub async fn run(&mut self, job: Job, mut on_event: impl FnMut(Event, Option<CaseInfo>)) -> Result<RunEnd, String> {
        (self.orders.give)(Request::Run(Box::new(job)));
        loop {
            match self.words.recv().await {
                Ok(Response::Event { event, known }) => on_event(*event, known),
                Ok(Response::Ended { end }) => return Ok(end),
                other => return Err(broken(other.ok())),
            }
        }
    }
}

fn broken(word: Option<Response>) -> String {
    match word {
        Some(Response::Broken { why }) => format!("internal error while measuring: {why}"),
        other => format!("internal error while measuring: unexpected response {other:?}"),
    }
}
