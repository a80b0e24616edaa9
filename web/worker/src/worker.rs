//! The worker: takes requests and sends responses. It is independent of the page and of the thread that it runs on.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use parallax_cpu::{Cpu, HostEnvironment};
use parallax_engine::measure::runner;
use parallax_engine::measure::runner::Flow;
use parallax_engine::plan;
use parallax_engine::plan::settings::checked;
use parallax_engine::plan::{Planning, outline, tuning_for};
use parallax_ir::device::{Profiler, WithSensors};
use parallax_report::{CaseInfo, DeviceContext};
use parallax_schema::case::Tuning;
use parallax_schema::device::{BrowserMode, DeviceInfo};
use parallax_schema::record::{Baseline, Event};
use parallax_schema::session::Unplanned;
use parallax_schema::spec::Spec;
use parallax_schema::units::Bytes;
use parallax_shaders::WgpuOptions;
use parallax_workloads::Registry;
use wasm_bindgen_futures::spawn_local;

use crate::compilers;
use crate::sensors::PageSensors;
use crate::sight::Visibility;
use parallax_protocol::messages::{Compilers, Job, OpenRequest, Planned, Request, Response};
use parallax_protocol::target::{Target, TargetConfig};

async fn open(OpenRequest { way, texts, cube }: OpenRequest) -> Result<(Box<dyn Profiler>, Option<Compilers>), String> {
    let TargetConfig { target, reach, .. } = way;
    Ok(match target {
        Target::Browser => {
            let own = WgpuOptions { experimental: reach == BrowserMode::Unsafe, ..WgpuOptions::default() };
            let texts = own.texts.clone().with_lookup(move |file| Ok(texts.get(file).cloned()));
            let (texts, compilers) = compilers::beside(texts, cube).await;
            let opened = parallax_shaders::open(WgpuOptions { texts, ..own }).await;
            (Box::new(opened.map_err(|why| why.to_string())?), compilers)
        }
        Target::Wasm => (Box::new(Cpu::open(processor())), None),
    })
}

/// Memory for cases. 32-bit addresses reach 4 GiB; references and checks need room besides the case.
const MEMORY: Bytes = Bytes(2 << 30);

/// Returns the description of the processor. A browser shows only its number of threads.
fn processor() -> HostEnvironment {
    let features = vec![if cfg!(target_feature = "simd128") { "simd128" } else { "no simd128" }.to_owned()];
    HostEnvironment {
        name: "host processor".to_owned(),
        api: "wasm",
        memory: Some(MEMORY),
        features,
        yield_now: || Box::pin(parallax_shaders::yield_now()),
    }
}

/// Returns the values of a spec's tunables on a device.
fn tuning(device: &DeviceInfo, spec: &Spec) -> Tuning {
    tuning_for(device, None, &spec.set)
        .expect("tests check the shipped files against the tunables, and the spec its own values")
}

/// Milliseconds of planning between two yields to the event loop. The page runs this code if workers cannot measure.
const TURN: f64 = 20.0;

/// Returns the plan of a spec on a device, or `None` after a newer request.
async fn planned(
    asked: &Spec,
    mut device: DeviceInfo,
    overtaken: impl Fn() -> bool,
) -> Result<Option<Box<Planned>>, Unplanned> {
    let spec = checked(asked).map_err(|mistake| Unplanned::Mistake(mistake.to_string()))?;
    device.caps.tuning = tuning(&device, &spec);
    let mut planning = Planning::begin(&spec, &device.caps)?;
    let mut turn_began = js_sys::Date::now();
    while planning.step() {
        if js_sys::Date::now() - turn_began > TURN {
            parallax_shaders::yield_now().await;
            if overtaken() {
                return Ok(None);
            }
            turn_began = js_sys::Date::now();
        }
    }
    let outline = outline(&planning.end()?);
    Ok(Some(Box::new(Planned { spec, tuning: device.caps.tuning, outline })))
}

/// A worker. It measures one run at a time.
pub struct Worker {
    say: Box<dyn Fn(Response)>,
    /// Empty while a run uses the profiler.
    profiler: RefCell<Option<WithSensors<PageSensors>>>,
    sight: Rc<Visibility>,
    /// Path of the energy counter for the present run.
    counter: Rc<RefCell<Option<String>>>,
    stop: Cell<bool>,
    /// Number of the latest requested plan.
    plans: Cell<u32>,
}

impl Worker {
    /// Returns a worker that sends its responses through `say`.
    pub fn new(say: impl Fn(Response) + 'static) -> Rc<Worker> {
        let (profiler, sight, counter) = (RefCell::default(), Rc::default(), Rc::default());
        Rc::new(Worker { say: Box::new(say), profiler, sight, counter, stop: Cell::default(), plans: Cell::default() })
    }

    /// Carries out a request.
    pub fn take(self: &Rc<Self>, order: Request) {
        match order {
            Request::Open(ask) => spawn_local(self.clone().open(ask)),
            Request::Plan { number, spec } => {
                self.plans.set(number);
                spawn_local(self.clone().plan(number, *spec));
            }
            Request::Run(job) => {
                self.stop.set(false);
                spawn_local(self.clone().run(*job));
            }
            Request::Stop => self.stop.set(true),
            Request::Visibility { hidden } => self.sight.tell(hidden),
            Request::Close => drop(self.profiler.take()),
        }
    }

    async fn open(self: Rc<Self>, ask: OpenRequest) {
        (self.say)(match open(ask).await {
            Ok((inner, compilers)) => {
                let (device, clock) = (Box::new(inner.device().clone()), inner.clock().clone());
                let opened = Response::Opened { device, clock, compilers };
                let sensors = PageSensors { sight: self.sight.clone(), counter: self.counter.clone() };
                *self.profiler.borrow_mut() = Some(WithSensors::new(inner, sensors));
                opened
            }
            Err(why) => Response::Unavailable { why },
        });
    }

    async fn plan(self: Rc<Self>, number: u32, asked: Spec) {
        let device = self.profiler.borrow().as_ref().map(|profiler| profiler.device().clone());
        let device = device.expect("the page orders a plan for a device that is open and at rest");
        let planned = planned(&asked, device, || self.plans.get() != number).await;
        if let Some(planned) = planned.transpose() {
            (self.say)(Response::Planned { number, planned });
        }
    }

    async fn run(self: Rc<Self>, job: Job) {
        let mut profiler = self.profiler.take().expect("the page orders a run of a device that is open and at rest");
        profiler.set_tuning(tuning(profiler.device(), &job.spec));
        *self.counter.borrow_mut() = job.counter;
        let caps = profiler.device().caps.clone();
        let plan = plan::plan(&job.spec, &caps).expect("the page orders runs of its plans");
        let mut baseline = job.so_far.baseline.clone();
        let on_event = |event| {
            let ceilings = baseline.as_ref().map(|baseline| &baseline.ceilings);
            let known = match &event {
                Event::Record { record } => Some(CaseInfo::of(
                    record,
                    DeviceContext { catalog: &Registry, caps: &caps, ceilings, cache: job.spec.cache },
                )),
                _ => None,
            };
            if let Event::Baseline { baseline: found } = &event {
                baseline = Some(Baseline::clone(found));
            }
            (self.say)(Response::Event { event: Box::new(event), known });
            if self.stop.get() { Flow::Stop } else { Flow::Continue }
        };
        let ended = runner::run(&plan, &job.spec, job.mode, &mut profiler, &job.so_far, on_event).await;
        *self.profiler.borrow_mut() = Some(profiler);
        (self.say)(Response::Ended { end: ended });
    }
}
