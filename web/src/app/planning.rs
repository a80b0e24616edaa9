//! From the controls to a plan: what it comes to, and how long it will take.

use parallax_core::device::DeviceInfo;
use parallax_core::measure::runner::Mode;
use parallax_core::plan;
use parallax_core::plan::{Plan, PlanError, Spec};

use super::App;
use crate::expected::{Expected, Past};
use crate::measuring::{self, Bench};
use crate::query;
use crate::target::Target;
use crate::view::Tone;
use crate::words::between;

impl App {
    /// The controls changed: take them over into spec, address and plan.
    pub(super) fn change_settings(&self) {
        if self.running.get() {
            return;
        }
        // Read first: a borrow in the head of a match would last through its arms.
        let read = self.view.read_settings(&self.spec.borrow());
        match read {
            Ok(spec) => {
                self.view.clear_notice("setting");
                self.view.set_query(&self.query(&spec, self.target));
                self.view.other_target(self.target.other(), &self.query(&spec, self.target.other()));
                *self.spec.borrow_mut() = spec;
                // That nothing matches is shown, and the Run button rests.
                let _ = self.make_plan();
            }
            Err(mistake) => {
                self.view.notice("setting", Tone::Error, "A setting cannot be understood.", &mistake.to_string());
                self.view.allow_run(false);
            }
        }
    }

    /// The address that gives a spec, on a target.
    pub(super) fn query(&self, spec: &Spec, target: Target) -> String {
        query::write(spec, self.mode, target)
    }

    /// Plan the spec for the device and show that.
    pub(super) fn make_plan(&self) -> Result<(), PlanError> {
        let spec = self.spec.borrow();
        let mut bench = self.bench.borrow_mut();
        let Some(Bench { device, .. }) = &mut *bench else { return Ok(()) };
        device.caps.tuning = measuring::tuning(device, &spec);
        let planned = plan::plan(&spec, &device.caps);
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
        self.view.plan_line(&plan, self.time(&spec, &plan, device).as_deref());
        self.view.allow_run(!plan.cases.is_empty());
        *self.plan.borrow_mut() = Some(plan);
        planned
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
