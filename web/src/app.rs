//! The flow of the page: query, device, plan, run, files.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use parallax_core::plan::{self, NothingMatches, Plan};
use parallax_core::profiler::{ClockInfo, DeviceInfo, DeviceKind, Profiler};
use parallax_core::record::{Outcome, Run, SCHEMA, Suite, VERSION};
use parallax_core::report;
use parallax_core::runner::{self, Ended, Event, Flow, Mode};
use parallax_core::spec::Spec;
use parallax_shaders::{Options, Unavailable, Wgpu};
use wasm_bindgen_futures::spawn_local;

use crate::environment::{self, ScreenLock};
use crate::progress::{Progress, rough};
use crate::query::{self, Request};
use crate::remote::Remote;
use crate::share;
use crate::view::{Tone, View};

/// Everything that outlives one event of the page.
struct App {
    view: View,
    mode: Mode,
    remote: Option<Remote>,
    spec: RefCell<Spec>,
    /// Taken out while a run uses it.
    profiler: RefCell<Option<Wgpu>>,
    plan: RefCell<Option<Plan>>,
    /// The run in progress, or the last one.
    run: RefCell<Option<Run>>,
    progress: RefCell<Option<Progress>>,
    screen: RefCell<Option<ScreenLock>>,
    running: Cell<bool>,
    stop: Cell<bool>,
    /// The tab was hidden at some time during the run.
    was_hidden: Cell<bool>,
}

/// What wrote the results.
fn suite() -> Suite {
    Suite { version: env!("CARGO_PKG_VERSION").to_owned(), commit: env!("PARALLAX_COMMIT").to_owned() }
}

/// Bring the page to life.
pub async fn start(request: Request) {
    let view = View::new();
    view.version(&suite());
    let remote = request.report.map(Remote::new);
    let unavailable = |reason: &str| {
        if let Some(remote) = &remote {
            remote.unavailable(reason);
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
    if let Some(why) = environment::webgpu_missing() {
        view.notice("webgpu", Tone::Error, "No WebGPU.", why);
        view.no_device("Without WebGPU a page cannot use the GPU.");
        return unavailable(why);
    }
    let profiler = match open().await {
        Ok(profiler) => profiler,
        Err(why) => {
            let why = why.to_string();
            view.notice("webgpu", Tone::Error, "No device.", &why);
            view.no_device("The browser offers WebGPU, but no device could be opened.");
            return unavailable(&why);
        }
    };
    show_device(&view, profiler.device(), profiler.clock());
    let app = Rc::new(App {
        view,
        mode: request.mode,
        remote,
        spec: RefCell::new(spec),
        profiler: RefCell::new(Some(profiler)),
        plan: RefCell::default(),
        run: RefCell::default(),
        progress: RefCell::default(),
        screen: RefCell::default(),
        running: Cell::new(false),
        stop: Cell::new(false),
        was_hidden: Cell::new(false),
    });
    app.view.settings(&app.spec.borrow(), app.mode);
    let planned = app.make_plan();
    app.listen();
    if let Some(remote) = &app.remote {
        app.view.remote();
        match planned {
            Ok(()) => app.clone().measure().await,
            Err(nothing) => remote.unavailable(&nothing.to_string()),
        }
    }
}

async fn open() -> Result<Wgpu, Unavailable> {
    parallax_shaders::open(Options::default()).await
}

/// The device, and what about it bears on how far the figures can be trusted.
fn show_device(view: &View, device: &DeviceInfo, clock: &ClockInfo) {
    view.device(device, clock, environment::isolated());
    if matches!(device.kind, DeviceKind::Software | DeviceKind::Cpu) {
        view.notice(
            "software",
            Tone::Warn,
            "This is a software adapter, not a GPU.",
            "The browser emulates WebGPU on the processor. Results are checked all the same, but the times say nothing \
             about a GPU. Turn graphics acceleration on in the browser's settings, or update the graphics driver.",
        );
    }
    if let Some(note) = &clock.note {
        view.notice("clock", Tone::Info, "About the clock.", note);
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
            app.view.stopping();
        });
        let app = self.clone();
        self.view.on_visibility(move || app.notice_visibility());
        let app = self.clone();
        self.view.on_tick(move || app.draw_progress());
        let app = self.clone();
        self.view.on_download_json(move || app.download("json", share::json));
        let app = self.clone();
        self.view.on_download_trace(move || app.download("trace.json", share::chrome_trace));
        let app = self.clone();
        self.view.on_open_trace(move || {
            if let Some(run) = &*app.run.borrow() {
                let view = app.view.clone();
                share::open_trace(run, move |line| view.share_line(line));
            }
        });
        let app = self.clone();
        self.view.on_copy_link(move || {
            let app = app.clone();
            spawn_local(async move {
                let link = app.view.address();
                app.view.share_line(&match share::copy(&link).await {
                    Ok(()) => "The link is on the clipboard. It has the settings, not the results.".to_owned(),
                    Err(_) => format!("The browser did not allow copying. The link is {link}"),
                });
            });
        });
    }

    fn download(&self, ending: &str, text: fn(&Run) -> String) {
        let Some(run) = &*self.run.borrow() else { return };
        let name = format!("{}.{ending}", share::file_stem(run));
        self.view.share_line(&match share::download(&name, &text(run)) {
            Ok(()) => format!("Saved as {name}."),
            Err(_) => "The browser did not allow the download.".to_owned(),
        });
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
                self.view.set_query(&query::write(&spec, self.mode));
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

    /// Plan the spec for the device and show that.
    fn make_plan(&self) -> Result<(), NothingMatches> {
        let spec = self.spec.borrow();
        let profiler = self.profiler.borrow();
        let Some(profiler) = &*profiler else { return Ok(()) };
        let planned = plan::plan(&spec, &profiler.device().caps);
        if planned.is_ok() {
            self.view.clear_notice("plan");
        } else {
            let advice = "Clear the filter, or choose other element types or another preset.";
            self.view.notice("plan", Tone::Warn, "No case matches these settings.", advice);
        }
        let (plan, planned) = match planned {
            Ok(plan) => (plan, Ok(())),
            Err(nothing) => (Plan::default(), Err(nothing)),
        };
        let time = match self.mode {
            Mode::Measure => Some(rough(seconds_expected(&spec, plan.cases.len()))),
            Mode::Verify => None,
        };
        self.view.plan(&plan, time.as_deref());
        self.view.allow_run(!plan.cases.is_empty());
        *self.plan.borrow_mut() = Some(plan);
        planned
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
        let (Some(mut profiler), Some(plan)) = (self.profiler.take(), self.plan.borrow().clone()) else { return };
        let spec = self.spec.borrow().clone();
        let header = header(&profiler, &spec, &plan);
        if let Some(remote) = &self.remote {
            remote.begin(&header);
        }
        *self.run.borrow_mut() = Some(header);
        let guess = seconds_expected(&spec, plan.cases.len()) / plan.cases.len().max(1) as f64;
        let began = environment::seconds();
        *self.progress.borrow_mut() = Some(Progress::new(plan.cases.len(), guess, began));
        self.stop.set(false);
        self.was_hidden.set(environment::hidden());
        self.running.set(true);
        self.view.begin();
        self.keep_screen_on();

        let interrupted = loop {
            let done = self.run.borrow().as_ref().map_or(0, |run| run.records.len());
            let mode = self.mode;
            match runner::run(&plan, &spec, mode, &mut profiler, done, |event| self.on_event(event)).await {
                Ended::Complete => break None,
                Ended::Stopped if self.stop.get() => break Some("stopped by the user".to_owned()),
                Ended::Stopped => break Some("nobody receives the results any more".to_owned()),
                Ended::DeviceLost(case) => {
                    let what = format!("It happened during {case}. The run goes on with a fresh device.");
                    self.view.notice("lost", Tone::Warn, "The browser took the device away.", &what);
                    match self.reopen(profiler).await {
                        Ok(fresh) => profiler = fresh,
                        Err(why) => return self.end(None, Some(why), began),
                    }
                }
            }
        };
        self.end(Some(profiler), interrupted, began);
    }

    /// A fresh device in place of a lost one; it must be the same, because the plan and the header name it.
    async fn reopen(&self, lost: Wgpu) -> Result<Wgpu, String> {
        let device = lost.device().clone();
        drop(lost);
        let fresh = open().await.map_err(|why| format!("device lost, and no other to be had: {why}"))?;
        if *fresh.device() != device {
            return Err(format!("device lost, and the browser now offers another: {}", fresh.device().name));
        }
        Ok(fresh)
    }

    fn end(&self, profiler: Option<Wgpu>, interrupted: Option<String>, began: f64) {
        self.running.set(false);
        let alive = profiler.is_some();
        *self.profiler.borrow_mut() = profiler;
        *self.progress.borrow_mut() = None;
        *self.screen.borrow_mut() = None;
        if let Some(run) = &mut *self.run.borrow_mut() {
            run.interrupted = interrupted;
            if self.was_hidden.get() {
                run.environment.insert("hidden_during_run".to_owned(), "true".to_owned());
            }
            if let Some(remote) = &self.remote {
                remote.end(run.interrupted.as_deref(), &run.environment);
            }
            self.view.end(run, environment::seconds() - began);
        }
        if !alive {
            let advice = "Finished cases stand. Reload the page to try for a device again.";
            self.view.notice("lost", Tone::Error, "There is no device any more.", advice);
            self.view.allow_run(false);
        }
    }

    fn on_event(&self, event: Event<'_>) -> Flow {
        let mut run = self.run.borrow_mut();
        let Some(run) = &mut *run else { return Flow::Stop };
        match event {
            Event::Started { case, .. } => {
                self.view.case_started(case);
                if let Some(remote) = &self.remote {
                    remote.started(case);
                }
            }
            Event::Finished(record) => {
                let planned = !matches!(record.outcome, Outcome::Skipped { .. });
                if let Some(progress) = self.progress.borrow_mut().as_mut().filter(|_| planned) {
                    progress.finished(environment::seconds());
                }
                if let Some(remote) = &self.remote {
                    remote.record(record);
                }
                self.view.case_finished(record, &report::row(record, run));
                run.records.push(record.clone());
            }
        }
        self.draw_progress();
        let gone = self.remote.as_ref().is_some_and(Remote::gone);
        if self.stop.get() || gone { Flow::Stop } else { Flow::Continue }
    }

    fn draw_progress(&self) {
        if let Some(progress) = &*self.progress.borrow() {
            let now = environment::seconds();
            self.view.progress(progress.count(), progress.fraction(now), &rough(progress.left(now)));
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

    /// The tab was hidden or shown. Browsers slow hidden tabs down, which the figures cannot tell.
    fn notice_visibility(self: &Rc<Self>) {
        if !self.running.get() {
            return;
        }
        if !environment::hidden() {
            self.keep_screen_on();
        } else {
            self.was_hidden.set(true);
            let advice = "Browsers slow hidden tabs down, so samples taken meanwhile may be too long. The result file \
                          says so. For clean figures, run again and keep the tab in sight.";
            self.view.notice("hidden", Tone::Warn, "This tab was hidden during the run.", advice);
        }
    }
}

/// What is known of a run before its first case.
fn header(profiler: &Wgpu, spec: &Spec, plan: &Plan) -> Run {
    let skips = plan.skips.iter().map(|s| s.case.to_string());
    Run {
        schema: SCHEMA.to_owned(),
        version: VERSION,
        suite: suite(),
        target: "browser".to_owned(),
        started: environment::unix_time(),
        device: profiler.device().clone(),
        environment: environment::describe(),
        clock: profiler.clock().clone(),
        spec: spec.clone(),
        planned: skips.chain(plan.cases.iter().map(|c| c.case.to_string())).collect(),
        records: Vec::new(),
        interrupted: None,
    }
}

/// The budget is for sampling; compiling, uploading and checking come on top, about half a second a case.
fn seconds_expected(spec: &Spec, cases: usize) -> f64 {
    spec.budget + 0.5 * cases as f64
}
