//! A run from its first event to its last. The device may be lost and the tab may be hidden meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use parallax_protocol::target::{Target, TargetConfig};
use parallax_report as report;
use parallax_report::CaseInfo;
use parallax_schema::case::problem_of;
use parallax_schema::record::roofline::Ceilings;
use parallax_schema::record::{Event, Record, Run};
use parallax_schema::session::{Outline, ResumeState, RunEnd};
use parallax_schema::spec::{PRECISION_PAGE, Spec};
use parallax_schema::units::Nanos;
use wasm_bindgen_futures::spawn_local;

use super::{App, suite};
use crate::activity::{Activity, Stage};
use crate::environment;
use crate::environment::ScreenLock;
use crate::live::Live;
use crate::measuring::{Job, Session};
use crate::progress::Progress;
use crate::remarks::Remarks;
use crate::remote::Remote;
use crate::view::Tone;
use crate::words::rough;

impl App {
    /// Runs at the user's request, after a final read of the controls.
    pub(super) async fn measure_again(self: Rc<Self>) {
        self.clone().change_settings().await;
        self.measure().await;
    }

    /// Runs the quick look and restores the settings afterwards.
    pub(super) async fn look(self: Rc<Self>) {
        if self.running.get() {
            return;
        }
        let emulated = self.bench.borrow().as_ref().is_some_and(|bench| bench.device.kind.is_emulated());
        let settings = self.spec.replace(Spec::quick_look(emulated));
        if self.make_plan().await.is_ok() {
            self.clone().measure().await;
        }
        *self.spec.borrow_mut() = settings;
        let _ = self.make_plan().await;
    }

    /// Runs the plan on the device.
    pub(super) async fn measure(self: Rc<Self>) {
        if self.running.get() {
            return;
        }
        let Some(plan) = self.plan.borrow().clone() else { return };
        let Some(mut bench) = self.bench.take() else { return };
        let asked = self.spec.borrow().clone();
        let spec = Spec { precision: asked.precision.or(Some(PRECISION_PAGE)), ..asked.clone() };
        let mut header = header(self.way, &bench, &spec, &plan);
        header.name_device(&self.view.device_name());
        header.model = self.model_of(&asked);
        if let Some(remote) = &self.remote {
            remote.tell(&Event::Begin { run: Box::new(header.clone()) });
            if !remote.taken().await {
                *self.bench.borrow_mut() = Some(bench);
                return self.view.unasked(remote.path(), &self.query(&asked));
            }
            self.view.remote();
        }
        self.view.clear_notice("not-kept");
        if let Some(shelf) = &self.shelf {
            shelf.begin(&header, self.query(&asked));
        }
        *self.run.borrow_mut() = Some(header);
        self.known.borrow_mut().clear();
        let (began, since) = (environment::seconds(), bench.since);
        let expected = self.expected(&asked, &plan, &bench.device);
        *self.progress.borrow_mut() = Some(Progress::new(expected.middle(), began));
        self.stop.set(false);
        self.was_hidden.set(environment::hidden());
        self.running.set(true);
        self.recalled.set(None);
        self.view.begin();
        self.keep_screen_on();

        let never: BTreeSet<String> = plan.skips.iter().map(|skip| skip.case.clone()).collect();
        let interrupted = loop {
            let so_far = self.run.borrow().as_ref().map(ResumeState::from_run).unwrap_or_default();
            let mode = self.mode;
            let known = self.run.borrow().as_ref().is_some_and(|run| run.baseline.is_some());
            *self.activity.borrow_mut() = Some(Activity::new(mode, spec.ceilings && !known));
            *self.live.borrow_mut() = Live::default();
            self.draw_progress();
            let counter =
                self.remote.as_ref().filter(|_| spec.energy).map(|remote| format!("{}/energy", remote.path()));
            let later = Nanos::from_secs(bench.since - since);
            let job = Job { spec: spec.clone(), mode, so_far, counter };
            match bench.run(job, |event, known| self.on_event(event.later(later), known, &never)).await {
                Ok(RunEnd::Complete) => break None,
                Ok(RunEnd::Stopped) if self.stop.get() => break Some("stopped by the user".to_owned()),
                Ok(RunEnd::Stopped) => break Some("the results have no receiver any more".to_owned()),
                Ok(RunEnd::DeviceLost(case)) => {
                    let what = format!("It happened during {case}. The run goes on with a fresh device.");
                    self.view.notice("lost", Tone::Warn, "The browser took the device away.", &what);
                    self.view.cases_wait();
                    match self.reopen(bench).await {
                        Ok(fresh) => bench = fresh,
                        Err(why) => return self.end(None, Some(why), began),
                    }
                }
                Err(bug) => {
                    let advice = format!("If it happens again, report this: {bug}");
                    self.view.notice("crash", Tone::Error, "Measuring stopped working.", &advice);
                    return self.end(None, Some(bug), began);
                }
            }
        };
        self.end(Some(bench), interrupted, began);
    }

    /// Opens a device in place of a lost one. It must be the same device, because the plan and the header name it.
    async fn reopen(&self, lost: Session) -> Result<Session, String> {
        let (device, cube) = (lost.device.clone(), lost.cube);
        drop(lost);
        let opened = Session::open(self.ask(cube)).await;
        let mut fresh = opened.map_err(|why| format!("device lost, and no other available: {why}"))?;
        fresh.device.caps.tuning = device.caps.tuning.clone();
        if fresh.device != device {
            return Err(format!("device lost, and the browser now offers another: {}", fresh.device.name));
        }
        *self.orders.borrow_mut() = fresh.orders.clone();
        Ok(fresh)
    }

    fn end(self: &Rc<Self>, bench: Option<Session>, interrupted: Option<String>, began: f64) {
        self.running.set(false);
        let alive = bench.is_some();
        *self.bench.borrow_mut() = bench;
        *self.progress.borrow_mut() = None;
        *self.activity.borrow_mut() = None;
        *self.screen.borrow_mut() = None;
        if let Some(run) = &mut *self.run.borrow_mut() {
            let hidden = self.was_hidden.get().then(|| ("hidden_during_run".to_owned(), "true".to_owned()));
            let event = Event::End { interrupted, environment: BTreeMap::from_iter(hidden) };
            if let Some(remote) = &self.remote {
                remote.tell(&event);
            }
            match &self.shelf {
                Some(shelf) => shelf.tell(&event),
                None if self.remote.is_none() => self.view.not_kept(),
                None => {}
            }
            run.apply(event);
            self.view.end(run, environment::seconds() - began);
            self.hold_against_the_link("this device", run);
        }
        spawn_local(self.clone().show_model_time());
        spawn_local(self.clone().show_history());
        spawn_local(self.clone().send_to_collector());
        if !alive {
            let advice = "Finished cases are kept. Reload the page to open a device again.";
            self.view.notice("lost", Tone::Error, "The device is gone.", advice);
            self.view.allow_run(false);
        }
    }

    /// `never` has the cases that the plan skipped.
    fn on_event(&self, event: Event, known: Option<CaseInfo>, never: &BTreeSet<String>) {
        if let (Event::Record { record }, Some(known)) = (&event, known) {
            self.known.borrow_mut().insert(record.case.clone(), known);
        }
        // The bar follows the clock. Only news are displayed at once.
        if self.take_in(event, never) {
            self.draw_progress();
        }
        if self.remote.as_ref().is_some_and(Remote::gone) {
            self.orders.borrow().stop();
        }
    }

    /// Applies an event to run, table and files. Returns whether the run changed its activity. Rounds are too frequent to display
    /// each.
    fn take_in(&self, event: Event, never: &BTreeSet<String>) -> bool {
        let (mut run, mut activity) = (self.run.borrow_mut(), self.activity.borrow_mut());
        let (Some(run), Some(activity)) = (&mut *run, &mut *activity) else { return false };
        if let Some(remote) = &self.remote {
            remote.tell(&event);
        }
        if let Some(shelf) = &self.shelf {
            shelf.tell(&event);
        }
        run.apply(event.clone());
        match &event {
            Event::Baseline { baseline } => {
                self.view.device(run.device(), &run.clock, environment::isolated(), Some(baseline));
                self.view.clock_notice(&run.clock, Some(baseline));
                let measured = baseline.ceilings != Ceilings::default();
                if measured {
                    activity.ceilings_end();
                }
                measured
            }
            Event::Drift { .. } => self.measuring(activity.round_begins()),
            Event::Progress { share, left } => {
                if let Some(progress) = &mut *self.progress.borrow_mut() {
                    progress.told(*share, left.secs(), environment::seconds());
                }
                false
            }
            Event::Started { case } => {
                self.view.case_started(case, activity.started(case));
                true
            }
            Event::Record { record } => {
                activity.finished(&record.case);
                // Cases that the plan skipped are in the plan, not in the table.
                if !never.contains(&record.case) {
                    self.show(record, run, never);
                }
                false
            }
            Event::Sampling { .. } => self.measuring(activity.round_begins()),
            Event::Samples { .. } => self.measuring(activity.round_ends()),
            Event::Spent { .. } | Event::Begin { .. } | Event::End { .. } | Event::Unavailable { .. } => false,
        }
    }

    /// Marks the open cases as measured on the first round of their group.
    fn measuring(&self, news: bool) -> bool {
        if news {
            self.view.cases_at(Stage::Measuring);
        }
        news
    }

    /// Shows a record in the table. Remarks on other cases of its problem may change with it.
    pub(super) fn show(&self, record: &Record, run: &Run, never: &BTreeSet<String>) {
        let (known, nothing) = (self.known.borrow(), CaseInfo::default());
        let of = |record: &Record| known.get(&record.case).unwrap_or(&nothing);
        self.view.case_finished(record, &report::row_in(record, of(record).rate, run));
        let of_ours = |other: &&Record| problem_of(&other.case) == problem_of(&record.case);
        for sibling in run.records.iter().filter(of_ours).filter(|other| !never.contains(&other.case)) {
            let row = report::row_in(sibling, of(sibling).rate, run);
            self.view.remarks(&sibling.case, &Remarks::on(sibling, &row, of(sibling), run));
        }
    }

    pub(super) fn draw_progress(&self) {
        if let (Some(progress), Some(activity)) = (&*self.progress.borrow(), &*self.activity.borrow()) {
            let now = environment::seconds();
            self.view.progress(progress.fraction(now), &rough(progress.left(now)), &activity.words());
        }
    }

    /// Shows the samples so far in the rows of their cases.
    pub(super) fn draw_samples(&self) {
        if let (true, Some(run)) = (self.running.get(), &*self.run.borrow()) {
            for glimpse in self.live.borrow_mut().news(run, environment::seconds()) {
                self.view.case_so_far(&glimpse);
            }
        }
    }

    /// Holds the screen lock during the run. Browsers release it for a hidden tab.
    fn keep_screen_on(self: &Rc<Self>) {
        let app = self.clone();
        spawn_local(async move {
            let lock = ScreenLock::hold().await;
            *app.screen.borrow_mut() = lock.filter(|_| app.running.get());
        });
    }

    /// Handles a change of the tab's visibility. It reports it to the engine, which discards samples of a hidden tab, and informs
    /// the user.
    pub(super) fn notice_visibility(self: &Rc<Self>) {
        self.orders.borrow().sight(environment::hidden());
        if !self.running.get() {
            return;
        }
        if !environment::hidden() {
            self.keep_screen_on();
        } else {
            self.was_hidden.set(true);
            let advice = "Browsers slow hidden tabs down, so samples taken meanwhile are discarded: they stay in the \
                          result file with the reason and count for no figure. A case that gets no other samples has no \
                          figure; keep the tab in sight for all of them.";
            self.view.notice("hidden", Tone::Warn, "This tab was hidden during the run.", advice);
        }
    }
}

/// Header of a run, before its first case.
fn header(TargetConfig { target, reach, .. }: TargetConfig, bench: &Session, spec: &Spec, plan: &Outline) -> Run {
    let mut environment = environment::describe();
    environment.extend(bench.place());
    Run {
        started: environment::unix_time(),
        environment,
        reach: (target == Target::Browser).then(|| reach.found(&bench.clock)),
        ..Run::begin_on(target.name(), suite(), (&bench.device, &bench.clock), spec, plan.names.clone())
    }
}
