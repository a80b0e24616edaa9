//! Where a run is measured: in a worker beside the page where browsers offer there what it takes, so that neither disturbs
//! the other; otherwise in the page. Either way the two sides say the same to each other.
//!
//! The worker runs the page's own program, or, to compute inputs, references and the processor's cases on more than one
//! thread, the same one compiled for memory that workers share.

mod beside;
mod compilers;
mod inside;
mod lab;
mod protocol;
mod sight;
mod threads;

use std::rc::Rc;

use futures_channel::mpsc::{UnboundedReceiver, unbounded};
use parallax_core::device::{ClockInfo, DeviceInfo};
use parallax_core::measure::runner::RunEnd;
use parallax_core::plan::{Spec, tuning_for};
use parallax_core::record::Event;
use parallax_core::suite::Tuning;

use crate::environment;
use beside::Beside;
pub use beside::{abandon, more_threads};
pub use inside::main as in_a_worker;
use lab::Lab;
pub use protocol::{Ask, Job, OtherTexts};
use protocol::{Compilers, Order, Word};

/// What a spec's variants leave open, on a device.
pub fn tuning(device: &DeviceInfo, spec: &Spec) -> Tuning {
    tuning_for(device, None, &spec.set).expect("tests hold the shipped files against the tunables, the spec its own")
}

/// Orders that can be given at any time.
#[derive(Clone)]
pub struct Orders(Rc<dyn Fn(Order)>);

impl Orders {
    /// End the run soon.
    pub fn stop(&self) {
        (self.0)(Order::Stop);
    }

    /// The tab went out of sight, or came back.
    pub fn sight(&self, hidden: bool) {
        (self.0)(Order::Sight { hidden });
    }
}

/// An open device, wherever it is.
pub struct Bench {
    /// What it is.
    pub device: DeviceInfo,
    /// Its clock.
    pub clock: ClockInfo,
    /// Seconds on the page's clock when it was opened.
    pub since: f64,
    /// What it can be told while it measures.
    pub orders: Orders,
    /// Whether kernels in CubeCL were asked for.
    pub cube: bool,
    compilers: Option<Compilers>,
    words: UnboundedReceiver<Word>,
    /// Dropped with the device in it.
    worker: Option<Beside>,
}

impl Bench {
    /// Reach a device, or say why there is none.
    pub async fn open(ask: Ask) -> Result<Bench, String> {
        let (started, cube) = (Beside::start(ask.way).await, ask.cube);
        let (worker, mut words, order): (_, _, Rc<dyn Fn(Order)>) = match started.worker {
            Some((beside, words)) => {
                let order = Rc::new(beside.orders());
                (Some(beside), words, order)
            }
            None => {
                let (sender, words) = unbounded();
                // Nobody hears any more only when this is about to be dropped.
                let lab = Lab::new(move |word| drop(sender.unbounded_send(word)));
                (None, words, Rc::new(move |order| lab.take(order)))
            }
        };
        let (since, orders) = (environment::seconds(), Orders(order));
        orders.sight(environment::hidden());
        (orders.0)(Order::Open(ask));
        match words.recv().await {
            Ok(Word::Opened { mut device, clock, compilers }) => {
                device.features.extend(started.remark);
                Ok(Bench { device: *device, clock, since, orders, cube, compilers, words, worker })
            }
            Ok(Word::Unavailable(why)) => Err(why),
            other => Err(broken(other.ok())),
        }
    }

    /// What the record says of where it is and what was fetched for it.
    pub fn place(&self) -> impl Iterator<Item = (String, String)> + use<> {
        let place = if self.worker.is_some() { "worker" } else { "page" };
        let compilers = self.compilers.as_ref().map(|Compilers { sent, bytes, milliseconds }| {
            let sent = if sent.0 > 0 && sent < bytes { format!(", {sent} sent,") } else { String::new() };
            ("cube_module", format!("{bytes}{sent} in {milliseconds:.0} ms"))
        });
        let told = [("measured_in", place.to_owned())].into_iter().chain(compilers);
        told.map(|(name, value)| (name.to_owned(), value))
    }

    /// Measure, and hand over what happens.
    ///
    /// # Errors
    /// When measuring hit a bug; the device is then gone.
    pub async fn run(&mut self, job: Job, mut on_event: impl FnMut(Event)) -> Result<RunEnd, String> {
        (self.orders.0)(Order::Run(Box::new(job)));
        loop {
            match self.words.recv().await {
                Ok(Word::Event(event)) => on_event(*event),
                Ok(Word::Ended(ended)) => return Ok(ended),
                other => return Err(broken(other.ok())),
            }
        }
    }
}

fn broken(word: Option<Word>) -> String {
    match word {
        Some(Word::Broken(what)) => format!("measuring hit a bug of its own: {what}"),
        other => format!("measuring hit a bug of its own: it said {other:?}"),
    }
}
