//! From the controls to a plan: what it comes to, and how long it will take.

use std::rc::Rc;

use parallax_core::device::DeviceInfo;
use parallax_core::measure::runner::Mode;
use parallax_core::plan::{Plan, PlanError, Planning, Spec};
use parallax_core::suite::{CUBECL_VARIANTS, Caps};
use parallax_lab::way::Target;

use super::App;
use crate::environment::{self, turn};
use crate::expected::{Expected, Past};
use crate::measuring::{Bench, more_threads};
use crate::query;
use crate::view::Tone;
use crate::words::between;

/// Seconds of planning between two looks at what else the browser has to do.
const TURN: f64 = 0.02;

/// Whether kernels in CubeCL are asked for by name: ours, or CubeK's.
pub(super) fn names_cubecl(spec: &Spec) -> bool {
    CUBECL_VARIANTS.iter().any(|variant| spec.names_variant(variant))
}

impl App {
    /// The controls changed: take them over into spec, address and plan.
    pub(super) async fn change_settings(self: Rc<Self>) {
        if self.running.get() {
            return;
        }
        // Read first: a borrow in the head of a match would last through its arms.
        let read = self.view.read_settings(&self.spec.borrow());
        match read {
            Ok(spec) => {
                self.view.clear_notice("setting");
                self.view.set_query(&self.query(&spec));
                let other = self.way.other();
                self.view.other_target(other.target, &query::write(&spec, self.mode, other));
                *self.spec.borrow_mut() = spec;
                self.fetch_compilers().await;
                // That nothing matches is shown, and the Run button rests.
                let _ = self.make_plan().await;
            }
            Err(mistake) => {
                self.give_up_the_plan();
                self.view.notice("setting", Tone::Error, "A setting cannot be understood.", &mistake.to_string());
                self.view.allow_run(false);
            }
        }
    }

    /// Reach the device once more, with CubeCL's compilers, when they are asked for only now.
    async fn fetch_compilers(&self) {
        let wanted = self.way.target == Target::Browser && names_cubecl(&self.spec.borrow());
        let Some(bench) = self.bench.borrow_mut().take_if(|bench| wanted && !bench.cube) else { return };
        self.give_up_the_plan();
        self.view.allow_run(false);
        drop(bench);
        match Bench::open(self.ask(true)).await {
            Ok(bench) => {
                *self.orders.borrow_mut() = bench.orders.clone();
                *self.bench.borrow_mut() = Some(bench);
            }
            Err(why) => self.view.notice("lost", Tone::Error, "There is no device any more.", &why),
        }
    }

    /// The address that gives a spec.
    pub(super) fn query(&self, spec: &Spec) -> String {
        query::write(spec, self.mode, self.way)
    }

    /// Offer other ways to the device: what of WebGPU to ask for, or how many threads. It is open by then, so what is asked
    /// for anew is a page of its own.
    pub(super) async fn offer_ways(self: Rc<Self>) {
        let (app, way) = (self.clone(), self.way);
        let go = move |way| app.view.go_to(&query::write(&app.spec.borrow(), app.mode, way));
        match way.target {
            Target::Browser => self.view.reaches(way, environment::offers_matrices().await, go),
            Target::Wasm => self.view.threads(way, more_threads(), go),
        }
    }

    /// Plan the spec for the device and show that; unless another plan is begun meanwhile, which is then shown in its place.
    pub(super) async fn make_plan(&self) -> Result<(), PlanError> {
        let number = self.give_up_the_plan();
        let spec = self.spec.borrow().clone();
        let Some(device) = self.tuned_for(&spec) else { return Ok(()) };
        let overtaken = || self.plans.get() != number;
        let Some(planned) = in_turns(&spec, &device.caps, overtaken).await else { return Ok(()) };
        match &planned {
            Ok(_) => self.view.clear_notice("plan"),
            Err(PlanError::NothingMatches(_)) => {
                let advice = "Clear the filter, or choose other element types or another preset.";
                self.view.notice("plan", Tone::Warn, "No case matches these settings.", advice);
            }
            Err(other) => self.view.notice("plan", Tone::Warn, "These settings do not work here.", &other.to_string()),
        }
        let (plan, planned) = match planned {
            Ok(plan) => (plan, Ok(())),
            Err(nothing) => (Plan::default(), Err(nothing)),
        };
        self.view.plan(&plan);
        self.view.plan_line(&plan, self.time(&spec, &plan, &device).as_deref());
        self.view.allow_run(!plan.cases.is_empty());
        *self.plan.borrow_mut() = Some(plan);
        planned
    }

    /// There is no plan, nor one in the making, until the one of this number is made.
    fn give_up_the_plan(&self) -> u32 {
        *self.plan.borrow_mut() = None;
        self.plans.set(self.plans.get() + 1);
        self.plans.get()
    }

    /// The device, with what a spec's variants leave open; none while a run has it.
    fn tuned_for(&self, spec: &Spec) -> Option<DeviceInfo> {
        let mut bench = self.bench.borrow_mut();
        let device = &mut bench.as_mut()?.device;
        device.caps.tuning = parallax_lab::tuning(device, spec);
        Some(device.clone())
    }

    /// How long a run of the plan will take.
    pub(super) fn expected(&self, spec: &Spec, plan: &Plan, device: &DeviceInfo) -> Expected {
        let past = Past::of(&self.kept.borrow(), &device.name);
        Expected::of_run(spec, plan.cases.len(), device.kind.is_emulated(), &past)
    }

    /// The same in words; checks alone have no budget that would tell.
    fn time(&self, spec: &Spec, plan: &Plan, device: &DeviceInfo) -> Option<String> {
        let Expected { low, high } = self.expected(spec, plan, device);
        (self.mode != Mode::Verify).then(|| between(low, high))
    }

    /// Tell anew how long the plan will take, from what is kept by now.
    pub(super) fn tell_time(&self) {
        let (spec, plan, bench) = (self.spec.borrow(), self.plan.borrow(), self.bench.borrow());
        if let (Some(plan), Some(bench)) = (&*plan, &*bench) {
            self.view.plan_line(plan, self.time(&spec, plan, &bench.device).as_deref());
        }
    }
}

/// Plan in turns with the browser, because a preset takes longer than anybody should wait for an answer; `None` when it was
/// overtaken.
async fn in_turns(spec: &Spec, caps: &Caps, overtaken: impl Fn() -> bool) -> Option<Result<Plan, PlanError>> {
    let mut planning = match Planning::begin(spec, caps) {
        Ok(planning) => planning,
        Err(mistake) => return Some(Err(mistake)),
    };
    let mut turn_began = environment::seconds();
    while planning.step() {
        if environment::seconds() - turn_began > TURN {
            turn().await;
            if overtaken() {
                return None;
            }
            turn_began = environment::seconds();
        }
    }
    // What is shown of it takes a turn of its own.
    turn().await;
    (!overtaken()).then(|| planning.end())
}
