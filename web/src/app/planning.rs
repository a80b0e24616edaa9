//! From the controls to a plan: its cases and its expected duration.

use std::rc::Rc;

use parallax_protocol::target::Target;
use parallax_schema::case::CUBECL_VARIANTS;
use parallax_schema::device::DeviceInfo;
use parallax_schema::session::{ExpectedDuration, Mode, Outline, Unplanned};
use parallax_schema::spec::Spec;

use super::App;
use crate::environment::turn;
use crate::expected::{Past, of_run};
use crate::measuring::{Planned, Session, more_threads};
use crate::view::Tone;
use crate::{environment, query};

/// Returns whether the spec names kernels in CubeCL: ours or CubeK's.
pub(super) fn names_cubecl(spec: &Spec) -> bool {
    CUBECL_VARIANTS.iter().any(|variant| spec.names_variant(variant))
}

impl App {
    /// Applies changed controls to spec, address and plan.
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
                // The page shows an empty plan and disables the Run button.
                let _ = self.make_plan().await;
            }
            Err(mistake) => {
                self.give_up_the_plan();
                self.view.notice("setting", Tone::Error, "A setting is not valid.", &mistake.to_string());
                self.view.allow_run(false);
            }
        }
    }

    /// Replaces the spec, also in the controls and in the address.
    pub(super) fn set_spec(&self, spec: Spec) {
        self.view.settings(&spec, self.mode);
        self.view.set_query(&self.query(&spec));
        *self.spec.borrow_mut() = spec;
    }

    /// Reopens the device with CubeCL's compilers if the spec names them for the first time.
    async fn fetch_compilers(&self) {
        let wanted = self.way.target == Target::Browser && names_cubecl(&self.spec.borrow());
        let Some(bench) = self.bench.borrow_mut().take_if(|bench| wanted && !bench.cube) else { return };
        self.give_up_the_plan();
        self.view.allow_run(false);
        drop(bench);
        match Session::open(self.ask(true)).await {
            Ok(bench) => {
                *self.orders.borrow_mut() = bench.orders.clone();
                *self.bench.borrow_mut() = Some(bench);
            }
            Err(why) => self.view.notice("lost", Tone::Error, "The device is gone.", &why),
        }
    }

    /// Query of the address of a spec.
    pub(super) fn query(&self, spec: &Spec) -> String {
        query::write(spec, self.mode, self.way)
    }

    /// Offers other target configurations: browser modes, or numbers of threads. The device is already open, so a choice reloads
    /// the page.
    pub(super) async fn offer_ways(self: Rc<Self>) {
        let (app, way) = (self.clone(), self.way);
        let go = move |way| app.view.go_to(&query::write(&app.spec.borrow(), app.mode, way));
        match way.target {
            Target::Browser => self.view.reaches(way, environment::offers_matrices().await, go),
            Target::Wasm => self.view.threads(way, more_threads(), go),
        }
    }

    /// Plans the spec for the device and shows the plan. A newer plan that begins meanwhile supersedes it.
    pub(super) async fn make_plan(&self) -> Result<(), Unplanned> {
        let number = self.give_up_the_plan();
        // Empty during a run.
        if self.bench.borrow().is_none() {
            return Ok(());
        }
        let (orders, asked) = (self.orders.borrow().clone(), self.spec.borrow().clone());
        let Some(planned) = orders.plan(number, asked).await else { return Ok(()) };
        // Yield before the plan is drawn.
        turn().await;
        if self.plans.get() != number {
            return Ok(());
        }
        let planned = match planned {
            Ok(planned) => planned,
            Err(bug) => {
                self.view.notice("crash", Tone::Error, "Planning stopped working.", &format!("Reload the page: {bug}"));
                self.view.allow_run(false);
                return Ok(());
            }
        };
        match &planned {
            Ok(_) => ["plan", "query"].iter().for_each(|notice| self.view.clear_notice(notice)),
            Err(Unplanned::NothingMatches(_)) => {
                let advice = "Clear the filter, or choose other element types or another preset.";
                self.view.notice("plan", Tone::Warn, "No case matches these settings.", advice);
            }
            Err(Unplanned::Mistake(mistake)) => self.view.bad_address(mistake),
            Err(Unplanned::NotHere(why)) => {
                self.view.notice("plan", Tone::Warn, "These settings do not work here.", why);
            }
        }
        let (outline, planned) = match planned {
            Ok(planned) => (self.take_over(*planned), Ok(())),
            Err(nothing) => (Outline::default(), Err(nothing)),
        };
        self.view.plan(&outline);
        self.view.allow_run(outline.cases() > 0);
        *self.plan.borrow_mut() = Some(outline);
        self.tell_time();
        planned
    }

    /// Applies the spec as the planner spelled it, and the values of its tunables.
    fn take_over(&self, Planned { spec, tuning, outline }: Planned) -> Outline {
        *self.spec.borrow_mut() = spec;
        if let Some(bench) = &mut *self.bench.borrow_mut() {
            bench.device.caps.tuning = tuning;
        }
        outline
    }

    /// Discards the present and any pending plan. Returns the number of the next plan.
    pub(super) fn give_up_the_plan(&self) -> u32 {
        *self.plan.borrow_mut() = None;
        self.plans.set(self.plans.get() + 1);
        self.plans.get()
    }

    /// Expected duration of a run of the plan.
    pub(super) fn expected(&self, spec: &Spec, plan: &Outline, device: &DeviceInfo) -> ExpectedDuration {
        let past = Past::of(&self.kept.borrow(), &device.name);
        of_run(spec, plan.cases(), device.kind.is_emulated(), &past)
    }

    /// Expected duration as text; `None` for checks only, which have no budget to estimate from.
    fn time(&self, spec: &Spec, plan: &Outline, device: &DeviceInfo) -> Option<String> {
        (self.mode != Mode::Verify).then(|| self.expected(spec, plan, device).to_string())
    }

    /// Offers the quick look on a GPU with the default settings, before any other run.
    fn offer_look(&self, spec: &Spec, device: &DeviceInfo) {
        let offered = self.way.target == Target::Browser
            && self.mode == Mode::Measure
            && *spec == Spec::default()
            && self.remote.is_none()
            && self.linked.borrow().is_none();
        let emulated = device.kind.is_emulated();
        let past = Past::of(&self.kept.borrow(), &device.name);
        let time = || of_run(&Spec::quick_look(emulated), Spec::LOOKED_AT, emulated, &past);
        self.view.offer_look(offered.then(|| time().about()).as_deref());
    }

    /// Updates the displayed duration of the plan from the runs kept by now.
    pub(super) fn tell_time(&self) {
        let (spec, plan, bench) = (self.spec.borrow(), self.plan.borrow(), self.bench.borrow());
        if let (Some(plan), Some(bench)) = (&*plan, &*bench) {
            self.view.plan_line(plan, self.time(&spec, plan, &bench.device).as_deref());
            self.offer_look(&spec, &bench.device);
        }
    }
}
