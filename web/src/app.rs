//! The flow of the page: query, device, plan, run, files.

mod sharing;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use parallax_core::device::{ClockInfo, DeviceInfo, DeviceKind, Reach};
use parallax_core::measure::runner::{Mode, RunEnd, SoFar};
use parallax_core::plan::{PRECISION_PAGE, Plan, PlanError, Spec};
use parallax_core::record::{Event, Record, Run, RunSummary, Suite};
use parallax_core::units::Nanos;
use parallax_core::{plan, report};
use wasm_bindgen_futures::spawn_local;

use crate::activity::{Activity, Stage};
use crate::desk::Desk;
use crate::environment::ScreenLock;
use crate::expected::{Expected, Past};
use crate::live::Live;
use crate::measuring::{Bench, Job, Orders};
use crate::progress::Progress;
use crate::query::Request;
use crate::remarks::Remarks;
use crate::remote::Remote;
use crate::shelf::{Shelf, Spine};
use crate::target::Target;
use crate::view::{Tone, View, Wish};
use crate::words::{between, moment, rough};
use crate::{environment, measuring, query};

/// Everything that outlives one event of the page.
struct App {
    view: View,
    mode: Mode,
    target: Target,
    reach: Reach,
    remote: Option<Remote>,
    desk: Option<Desk>,
    spec: RefCell<Spec>,
    /// Taken out while a run uses it.
    bench: RefCell<Option<Bench>>,
    /// For it, also while a run uses it.
    orders: RefCell<Orders>,
    plan: RefCell<Option<Plan>>,
    /// The run in progress, or the last one.
    run: RefCell<Option<Run>>,
    progress: RefCell<Option<Progress>>,
    /// What the run in progress is doing.
    activity: RefCell<Option<Activity>>,
    /// What was last shown of its samples.
    live: RefCell<Live>,
    screen: RefCell<Option<ScreenLock>>,
    /// Where runs are kept, if they are.
    shelf: Option<Shelf>,
    /// What is told of them.
    kept: RefCell<Vec<Spine>>,
    /// What came with the page's link.
    linked: RefCell<Option<RunSummary>>,
    running: Cell<bool>,
    stop: Cell<bool>,
    /// The tab was hidden at some time during the run.
    was_hidden: Cell<bool>,
}

/// Milliseconds after which a browser that was asked for a device should have answered.
const PATIENCE: i32 = 10_000;
const MUTE: &str = "It was asked for a GPU and has said neither yes nor no; the page goes on as soon as it does. Its GPU \
                    process may hang: close other tabs that use the GPU, restart the browser, or look at chrome://gpu.";

/// What wrote the results.
pub fn suite() -> Suite {
    Suite { version: env!("CARGO_PKG_VERSION").to_owned(), commit: env!("PARALLAX_COMMIT").to_owned() }
}

/// Bring the page to life.
pub async fn start(request: Request) {
    let view = View::new();
    view.version(&suite());
    let linked = sharing::came_with_the_page(&view);
    let remote = request.report.map(Remote::new);
    let unavailable = |reason: &str| {
        if let Some(remote) = &remote {
            remote.tell(&Event::Unavailable { reason: reason.to_owned() });
        }
    };
    let spec = match request.spec {
        Ok(spec) => spec,
        Err(mistake) => {
            view.notice("query", Tone::Error, "The address of this page has a mistake.", &mistake);
            view.offer_defaults();
            view.no_device("Not asked for, because of the mistake above.");
            return unavailable(&mistake);
        }
    };
    let (mode, target, reach) = (request.mode, request.target, request.reach);
    let instead = query::write(&spec, mode, (target.other(), reach));
    if let (Target::Browser, Some(why)) = (target, environment::webgpu_missing()) {
        view.notice("webgpu", Tone::Error, "No WebGPU.", why);
        view.offer_the_processor(&instead);
        view.no_device("Without WebGPU a page cannot use the GPU.");
        return unavailable(why);
    }
    let shelf = if remote.is_some() { None } else { Shelf::open().await };
    let opened = {
        let answered = Rc::new(Cell::new(false));
        let (mute, waits) = (view.clone(), answered.clone());
        environment::after(PATIENCE, move || {
            if !waits.get() {
                mute.notice("mute", Tone::Warn, "The browser does not answer.", MUTE);
            }
        });
        let opened = Bench::open(target, reach).await;
        answered.set(true);
        view.clear_notice("mute");
        opened
    };
    let bench = match opened {
        Ok(bench) => bench,
        Err(why) => {
            view.notice("webgpu", Tone::Error, "No device.", &why);
            view.offer_the_processor(&instead);
            view.no_device("The browser offers WebGPU, but no device could be opened.");
            return unavailable(&why);
        }
    };
    show_device(&view, &bench.device, &bench.clock);
    let desk = Desk::of(request.desk);
    if desk.is_some() {
        view.desk();
        // A copied address gives nobody the token; the tab remembers it.
        view.set_query(&query::write(&spec, mode, (target, reach)));
    }
    let app = Rc::new(App {
        view,
        mode,
        target,
        reach,
        remote,
        desk,
        spec: RefCell::new(spec),
        orders: RefCell::new(bench.orders.clone()),
        bench: RefCell::new(Some(bench)),
        plan: RefCell::default(),
        run: RefCell::default(),
        progress: RefCell::default(),
        activity: RefCell::default(),
        live: RefCell::default(),
        screen: RefCell::default(),
        shelf,
        kept: RefCell::default(),
        linked: RefCell::new(linked),
        running: Cell::new(false),
        stop: Cell::new(false),
        was_hidden: Cell::new(false),
    });
    app.view.settings(&app.spec.borrow(), app.mode);
    let planned = app.make_plan();
    app.listen();
    app.view.other_target(target.other(), &instead);
    if let Some(remote) = &app.remote {
        app.view.remote();
        match planned {
            Ok(()) => app.clone().measure().await,
            Err(nothing) => remote.tell(&Event::Unavailable { reason: nothing.to_string() }),
        }
    } else {
        app.listen_to_wishes();
        spawn_local(app.clone().offer_reaches());
        app.show_history().await;
    }
}

/// The device, and what about it bears on how far the figures can be trusted.
fn show_device(view: &View, device: &DeviceInfo, clock: &ClockInfo) {
    view.device(device, clock, environment::isolated(), None);
    view.clock_notice(clock, None);
    if device.kind == DeviceKind::Software {
        view.notice(
            "software",
            Tone::Warn,
            "This is a software adapter, not a GPU.",
            "The browser emulates WebGPU on the processor. Results are checked all the same, but the times say nothing \
             about a GPU. Turn graphics acceleration on in the browser's settings, or update the graphics driver.",
        );
    }
}

impl App {
    /// Connect the controls.
    fn listen(self: &Rc<Self>) {
        let app = self.clone();
        self.view.on_settings(move || app.change_settings());
        let app = self.clone();
        self.view.on_run(move || spawn_local(app.clone().measure_again()));
        let app = self.clone();
        self.view.on_stop(move || {
            app.stop.set(true);
            app.orders.borrow().stop();
            app.view.stopping();
        });
        let app = self.clone();
        self.view.on_visibility(move || app.notice_visibility());
        let app = self.clone();
        self.view.on_tick(move || {
            app.draw_progress();
            app.draw_samples();
        });
        self.listen_to_sharing();
    }

    /// The controls changed: take them over into spec, address and plan.
    fn change_settings(&self) {
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

    /// Offer what of WebGPU to ask for. The device is open by then, so what is asked for anew is a page of its own.
    async fn offer_reaches(self: Rc<Self>) {
        if self.target == Target::Browser {
            let app = self.clone();
            let go = move |reach| app.view.go_to(&query::write(&app.spec.borrow(), app.mode, (app.target, reach)));
            self.view.reaches(self.reach, parallax_shaders::offers_matrices().await, go);
        }
    }

    /// Connect the buttons of the kept runs.
    fn listen_to_wishes(self: &Rc<Self>) {
        let app = self.clone();
        self.view.on_wish(move |wish, id| spawn_local(app.clone().grant(wish, id)));
    }

    /// The kept runs, and a question about one that was left in the middle.
    async fn show_history(self: Rc<Self>) {
        let Some(shelf) = &self.shelf else { return };
        let spines = shelf.spines().await.unwrap_or_default();
        self.view.history(&spines);
        *self.kept.borrow_mut() = spines.clone();
        self.tell_time();
        match Shelf::left(&spines).first() {
            Some(left) if !self.running.get() => self.view.left(left),
            _ => self.view.clear_notice("left"),
        }
    }

    /// What is wished for a kept run.
    async fn grant(self: Rc<Self>, wish: Wish, id: f64) {
        let Some(shelf) = &self.shelf else { return };
        let spines = shelf.spines().await.unwrap_or_default();
        let spine = spines.iter().find(|spine| spine.id == id);
        // A browser that cannot write any more shows the same list again.
        match (wish, spine) {
            (Wish::Remove, _) => drop(shelf.remove(id)),
            (Wish::Keep, Some(spine)) => drop(shelf.close(spine)),
            _ => {}
        }
        if wish != Wish::Remove && !self.running.get() {
            match shelf.read(id).await {
                Ok(run) => self.recall(run, id),
                Err(why) => self.view.notice("kept", Tone::Error, "That run cannot be shown.", &why),
            }
        }
        self.show_history().await;
    }

    /// Show a run from the shelf in place of the last one.
    fn recall(&self, run: Run, id: f64) {
        self.view.clear_notice("kept");
        self.view.begin();
        for record in run.records.iter().filter(|record| record.verdict() != "skipped") {
            self.show(record, &run, &BTreeSet::new());
        }
        let ended = run.interrupted.as_ref().map_or(String::new(), |why| format!(" It ended early: {why}."));
        self.view.results(&run, &format!("The run of {} on {}.{ended} ", moment(id), run.device().name));
        self.hold_against_the_link("the kept run", &run);
        *self.run.borrow_mut() = Some(run);
    }

    /// The address that gives a spec, on a target.
    fn query(&self, spec: &Spec, target: Target) -> String {
        query::write(spec, self.mode, (target, self.reach))
    }

    /// Plan the spec for the device and show that.
    fn make_plan(&self) -> Result<(), PlanError> {
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
    fn expected(&self, spec: &Spec, plan: &Plan, device: &DeviceInfo) -> Expected {
        let past = Past::of(&self.kept.borrow(), &device.name);
        Expected::of_run(spec, plan.cases.len(), device.kind.is_emulated(), &past)
    }

    /// The same in words; checks alone have no budget that would tell.
    fn time(&self, spec: &Spec, plan: &Plan, device: &DeviceInfo) -> Option<String> {
        let Expected { low, high } = self.expected(spec, plan, device);
        (self.mode != Mode::Verify).then(|| between(low, high))
    }

    /// Tell anew how long the plan will take, from what is kept by now.
    fn tell_time(&self) {
        let (spec, plan, bench) = (self.spec.borrow(), self.plan.borrow(), self.bench.borrow());
        if let (Some(plan), Some(bench)) = (&*plan, &*bench) {
            self.view.plan_line(plan, self.time(&spec, plan, &bench.device).as_deref());
        }
    }

    /// Run on request of the user, after a last look at the controls.
    async fn measure_again(self: Rc<Self>) {
        self.change_settings();
        self.measure().await;
    }

    /// Run the plan on the device.
    async fn measure(self: Rc<Self>) {
        if self.running.get() {
            return;
        }
        let (Some(mut bench), Some(plan)) = (self.bench.take(), self.plan.borrow().clone()) else { return };
        let asked = self.spec.borrow().clone();
        let spec = Spec { precision: asked.precision.or(Some(PRECISION_PAGE)), ..asked.clone() };
        let header = header((self.target, self.reach), &bench, &spec, &plan);
        if let Some(remote) = &self.remote {
            remote.tell(&Event::Begin { run: Box::new(header.clone()) });
        }
        if let Some(shelf) = &self.shelf {
            shelf.begin(&header, self.query(&asked, self.target));
        }
        *self.run.borrow_mut() = Some(header);
        let (began, since) = (environment::seconds(), bench.since);
        let expected = self.expected(&asked, &plan, &bench.device);
        *self.progress.borrow_mut() = Some(Progress::new(expected.middle(), began));
        self.stop.set(false);
        self.was_hidden.set(environment::hidden());
        self.running.set(true);
        self.view.begin();
        self.keep_screen_on();

        let never: BTreeSet<String> = plan.skips.iter().map(|s| s.case.to_string()).collect();
        let interrupted = loop {
            let so_far = self.run.borrow().as_ref().map(SoFar::of).unwrap_or_default();
            let mode = self.mode;
            let known = self.run.borrow().as_ref().is_some_and(|run| run.baseline.is_some());
            *self.activity.borrow_mut() = Some(Activity::new(mode, spec.ceilings && !known));
            *self.live.borrow_mut() = Live::default();
            self.draw_progress();
            let (job, later) = (Job { spec: spec.clone(), mode, so_far }, Nanos::from_secs(bench.since - since));
            match bench.run(job, |event| self.on_event(event.later(later), &never)).await {
                Ok(RunEnd::Complete) => break None,
                Ok(RunEnd::Stopped) if self.stop.get() => break Some("stopped by the user".to_owned()),
                Ok(RunEnd::Stopped) => break Some("nobody receives the results any more".to_owned()),
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

    /// A fresh device in place of a lost one; it must be the same, because the plan and the header name it.
    async fn reopen(&self, lost: Bench) -> Result<Bench, String> {
        let device = lost.device.clone();
        drop(lost);
        let mut fresh = Bench::open(self.target, self.reach)
            .await
            .map_err(|why| format!("device lost, and no other to be had: {why}"))?;
        fresh.device.caps.tuning = device.caps.tuning.clone();
        if fresh.device != device {
            return Err(format!("device lost, and the browser now offers another: {}", fresh.device.name));
        }
        *self.orders.borrow_mut() = fresh.orders.clone();
        Ok(fresh)
    }

    fn end(self: &Rc<Self>, bench: Option<Bench>, interrupted: Option<String>, began: f64) {
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
            if let Some(shelf) = &self.shelf {
                shelf.tell(&event);
            }
            run.apply(event);
            self.view.end(run, environment::seconds() - began);
            self.hold_against_the_link("this device", run);
        }
        spawn_local(self.clone().show_history());
        spawn_local(self.clone().send_to_desk());
        if !alive {
            let advice = "Finished cases stand. Reload the page to try for a device again.";
            self.view.notice("lost", Tone::Error, "There is no device any more.", advice);
            self.view.allow_run(false);
        }
    }

    /// `never` are the cases that the plan has skipped.
    fn on_event(&self, event: Event, never: &BTreeSet<String>) {
        // The bar moves by the clock; only news are said at once.
        if self.take_in(event, never) {
            self.draw_progress();
        }
        if self.remote.as_ref().is_some_and(Remote::gone) {
            self.orders.borrow().stop();
        }
    }

    /// Take an event over into run, table and files. Whether the run turned to something else with it: rounds are too many
    /// to say each of them.
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
                false
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
                // Cases that were never to run are in the plan, not in the table.
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

    /// The cases on their way are measured from now on, if that is news.
    fn measuring(&self, news: bool) -> bool {
        if news {
            self.view.cases_at(Stage::Measuring);
        }
        news
    }

    /// A record in the table; what is said of the others of its problem may change with it.
    fn show(&self, record: &Record, run: &Run, never: &BTreeSet<String>) {
        self.view.case_finished(record, &report::row(record, run));
        let problem = |r: &Record| r.case.rsplit_once('/').map(|(problem, _)| problem.to_owned());
        let ours = problem(record);
        for sibling in run.records.iter().filter(|r| problem(r) == ours && !never.contains(&r.case)) {
            self.view.remarks(&sibling.case, &Remarks::on(sibling, &report::row(sibling, run), run));
        }
    }

    fn draw_progress(&self) {
        if let (Some(progress), Some(activity)) = (&*self.progress.borrow(), &*self.activity.borrow()) {
            let now = environment::seconds();
            self.view.progress(progress.fraction(now), &rough(progress.left(now)), &activity.words());
        }
    }

    /// What samples say so far, in the rows of their cases.
    fn draw_samples(&self) {
        if let (true, Some(run)) = (self.running.get(), &*self.run.borrow()) {
            for glimpse in self.live.borrow_mut().news(run, environment::seconds()) {
                self.view.case_so_far(&glimpse);
            }
        }
    }

    /// Hold the screen lock while the run lasts. Browsers take it back when the tab is hidden.
    fn keep_screen_on(self: &Rc<Self>) {
        let app = self.clone();
        spawn_local(async move {
            let lock = ScreenLock::hold().await;
            *app.screen.borrow_mut() = lock.filter(|_| app.running.get());
        });
    }

    /// The tab was hidden or shown. The engine, told so, leaves samples of a hidden tab out; the user should know.
    fn notice_visibility(self: &Rc<Self>) {
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

/// What is known of a run before its first case.
fn header((target, reach): (Target, Reach), bench: &Bench, spec: &Spec, plan: &Plan) -> Run {
    let mut environment = environment::describe();
    environment.insert("measured_in".to_owned(), bench.place().to_owned());
    Run {
        started: environment::unix_time(),
        environment,
        reach: (target == Target::Browser).then(|| reach.found(&bench.clock)),
        ..Run::begin_on(target.name(), suite(), (&bench.device, &bench.clock), spec, plan)
    }
}
