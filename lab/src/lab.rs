//! The measuring side: takes orders, and says what comes of them. It knows neither the page nor where it runs.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use parallax_core::device::{Around, Profiler, Reach};
use parallax_core::measure::runner::{self, Flow};
use parallax_core::plan;
use parallax_core::units::Bytes;
use parallax_host::{Cpu, Place};
use parallax_shaders::Options;
use wasm_bindgen_futures::spawn_local;

use crate::compilers;
use crate::protocol::{Ask, Compilers, Job, Order, Word};
use crate::sight::{Sight, Watched};
use crate::way::{Target, Way};

async fn open(Ask { way, texts, cube }: Ask) -> Result<(Box<dyn Profiler>, Option<Compilers>), String> {
    let Way { target, reach, .. } = way;
    Ok(match target {
        Target::Browser => {
            let own = Options { experimental: reach == Reach::Unsafe, ..Options::default() };
            let texts = own.texts.clone().behind(move |file| Ok(texts.get(file).cloned()));
            let (texts, compilers) = compilers::beside(texts, cube).await;
            let opened = parallax_shaders::open(Options { texts, ..own }).await;
            (Box::new(opened.map_err(|why| why.to_string())?), compilers)
        }
        Target::Wasm => (Box::new(Cpu::open(processor())), None),
    })
}

/// Addresses of 32 bits reach 4 GiB; the references and what checks them want room beside a case.
const MEMORY: Bytes = Bytes(2 << 30);

/// Browsers tell nothing of the processor but how many threads it has.
fn processor() -> Place {
    let features = vec![if cfg!(target_feature = "simd128") { "simd128" } else { "no simd128" }.to_owned()];
    Place {
        name: "host processor".to_owned(),
        api: "wasm",
        memory: Some(MEMORY),
        features,
        breathe: || Box::pin(parallax_shaders::breathe()),
    }
}

/// Measures, one run at a time.
pub struct Lab {
    say: Box<dyn Fn(Word)>,
    /// Taken out while a run uses it.
    profiler: RefCell<Option<Around<Watched>>>,
    sight: Rc<Sight>,
    stop: Cell<bool>,
}

impl Lab {
    /// One that says so what it has to say.
    pub fn new(say: impl Fn(Word) + 'static) -> Rc<Lab> {
        let (profiler, sight, stop) = (RefCell::default(), Rc::default(), Cell::new(false));
        Rc::new(Lab { say: Box::new(say), profiler, sight, stop })
    }

    /// Do as ordered.
    pub fn take(self: &Rc<Self>, order: Order) {
        match order {
            Order::Open(ask) => spawn_local(self.clone().open(ask)),
            Order::Run(job) => {
                self.stop.set(false);
                spawn_local(self.clone().run(*job));
            }
            Order::Stop => self.stop.set(true),
            Order::Sight { hidden } => self.sight.tell(hidden),
            Order::Close => drop(self.profiler.take()),
        }
    }

    async fn open(self: Rc<Self>, ask: Ask) {
        (self.say)(match open(ask).await {
            Ok((inner, compilers)) => {
                let (device, clock) = (Box::new(inner.device().clone()), inner.clock().clone());
                let opened = Word::Opened { device, clock, compilers };
                *self.profiler.borrow_mut() = Some(Around::new(inner, Watched(self.sight.clone())));
                opened
            }
            Err(why) => Word::Unavailable(why),
        });
    }

    async fn run(self: Rc<Self>, job: Job) {
        let mut profiler = self.profiler.take().expect("the page orders a run of a device that is open and at rest");
        profiler.set_tuning(crate::tuning(profiler.device(), &job.spec));
        let plan = plan::plan(&job.spec, &profiler.device().caps).expect("the page has made the same plan");
        let on_event = |event| {
            (self.say)(Word::Event(Box::new(event)));
            if self.stop.get() { Flow::Stop } else { Flow::Continue }
        };
        let ended = runner::run(&plan, &job.spec, job.mode, &mut profiler, &job.so_far, on_event).await;
        *self.profiler.borrow_mut() = Some(profiler);
        (self.say)(Word::Ended(ended));
    }
}
