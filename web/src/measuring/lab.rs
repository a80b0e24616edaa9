//! The measuring side: takes orders, and says what comes of them. It knows neither the page nor where it runs.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use parallax_core::device::Profiler;
use parallax_core::measure::runner::{self, Flow};
use parallax_core::plan;
use parallax_shaders::Options;
use wasm_bindgen_futures::spawn_local;

use super::protocol::{Job, Order, Word};
use super::sight::{Sight, Watched};

/// Measures, one run at a time.
pub struct Lab {
    say: Box<dyn Fn(Word)>,
    /// Taken out while a run uses it.
    profiler: RefCell<Option<Watched>>,
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
            Order::Open => spawn_local(self.clone().open()),
            Order::Run(job) => {
                self.stop.set(false);
                spawn_local(self.clone().run(*job));
            }
            Order::Stop => self.stop.set(true),
            Order::Sight { hidden } => self.sight.tell(hidden),
        }
    }

    async fn open(self: Rc<Self>) {
        (self.say)(match parallax_shaders::open(Options::default()).await {
            Ok(wgpu) => {
                let opened = Word::Opened { device: Box::new(wgpu.device().clone()), clock: wgpu.clock().clone() };
                *self.profiler.borrow_mut() = Some(Watched { inner: Box::new(wgpu), sight: self.sight.clone() });
                opened
            }
            Err(why) => Word::Unavailable(why.to_string()),
        });
    }

    async fn run(self: Rc<Self>, job: Job) {
        let mut profiler = self.profiler.take().expect("the page orders a run of a device that is open and at rest");
        profiler.set_tuning(super::tuning(profiler.device(), &job.spec));
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
