//! Control flow of the page: query, device, plan, run, files.

mod history;
mod model;
mod planning;
mod running;
mod sharing;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use parallax_protocol::target::{Target, TargetConfig};
use parallax_report::CaseInfo;
use parallax_schema::device::{ClockInfo, DeviceInfo, DeviceKind};
use parallax_schema::record::{Event, Model, Run, RunSummary, Suite};
use parallax_schema::session::{Mode, Outline};
use parallax_schema::spec::Spec;
pub use sharing::embedded;
use wasm_bindgen_futures::spawn_local;

use crate::activity::Activity;
use crate::collector::Collector;
use crate::environment::ScreenLock;
use crate::live::Live;
use crate::measuring::{OpenRequest, OtherTexts, RequestSender, Session};
use crate::progress::Progress;
use crate::query::Request;
use crate::remote::Remote;
use crate::shelf::{RunMeta, RunStore};
use crate::view::{Tone, View};
use crate::{environment, query, reading};

/// State that outlives one event of the page.
struct App {
    view: View,
    mode: Mode,
    way: TargetConfig,
    texts: OtherTexts,
    remote: Option<Remote>,
    collector: Option<Collector>,
    spec: RefCell<Spec>,
    /// Empty while a run uses the session.
    bench: RefCell<Option<Session>>,
    /// Sends requests to the session, also during a run.
    orders: RefCell<RequestSender>,
    /// Empty during planning.
    plan: RefCell<Option<Outline>>,
    /// Number of plans begun. A newer plan supersedes an older one.
    plans: Cell<u32>,
    /// The current or latest run.
    run: RefCell<Option<Run>>,
    /// Workload facts of its records, by case.
    known: RefCell<BTreeMap<String, CaseInfo>>,
    progress: RefCell<Option<Progress>>,
    /// Activity of the current run.
    activity: RefCell<Option<Activity>>,
    /// Latest displayed samples of the run.
    live: RefCell<Live>,
    screen: RefCell<Option<ScreenLock>>,
    /// Store of kept runs; `None` if the browser keeps none.
    shelf: Option<RunStore>,
    /// Metadata of the kept runs.
    kept: RefCell<Vec<RunMeta>>,
    /// Summary from the page's link.
    linked: RefCell<Option<RunSummary>>,
    /// Kept run on display in place of the latest one.
    recalled: Cell<Option<f64>>,
    /// Model of the user.
    model: RefCell<Option<Model>>,
    running: Cell<bool>,
    stop: Cell<bool>,
    /// Whether the tab was hidden at any time during the run.
    was_hidden: Cell<bool>,
}

/// Milliseconds within which a browser should answer a device request.
const PATIENCE: i32 = 10_000;
const MUTE: &str = "It has not answered the request for a GPU; the page goes on as soon as it does. Its GPU \
                    process may hang: close other tabs that use the GPU, restart the browser, or look at chrome://gpu.";

/// Version and commit of the program that writes the results.
pub fn suite() -> Suite {
    Suite { version: env!("CARGO_PKG_VERSION").to_owned(), commit: env!("PARALLAX_COMMIT").to_owned() }
}

/// Starts the page.
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
            view.bad_address(&mistake);
            view.no_device("Not requested, because of the mistake above.");
            return unavailable(&mistake);
        }
    };
    let (mode, way) = (request.mode, request.way);
    let (other, instead) = (way.target.other(), query::write(&spec, mode, way.other()));
    if let (Target::Browser, Some(why)) = (way.target, environment::webgpu_missing()) {
        view.notice("webgpu", Tone::Error, "No WebGPU.", why);
        view.offer_instead(other, &instead, environment::site());
        view.no_device("Without WebGPU a page cannot use the GPU.");
        return unavailable(why);
    }
    let texts = match &request.kernels {
        None => Ok(OtherTexts::new()),
        Some(path) => other_texts(path).await.map_err(|why| format!("kernel sources from {path}: {why}")),
    };
    let texts = match texts {
        Ok(texts) => texts,
        Err(why) => {
            view.notice("kernels", Tone::Error, "No kernel texts.", &why);
            view.no_device("Not requested, because no case runs on it.");
            return unavailable(&why);
        }
    };
    view.settings(&spec, mode);
    // The command line starts its runs itself.
    let pressed = remote.is_none().then(|| view.run_early());
    let told = view.clone();
    let shelf = if remote.is_some() { None } else { RunStore::open(move || told.not_kept()).await };
    let opened = {
        let answered = Rc::new(Cell::new(false));
        let (mute, waits) = (view.clone(), answered.clone());
        spawn_local(async move {
            environment::sleep(PATIENCE).await;
            if !waits.get() {
                mute.notice("mute", Tone::Warn, "The browser does not answer.", MUTE);
            }
        });
        let opened =
            Session::open(OpenRequest { way, texts: texts.clone(), cube: planning::names_cubecl(&spec) }).await;
        answered.set(true);
        view.clear_notice("mute");
        opened
    };
    let bench = match opened {
        Ok(bench) => bench,
        Err(why) => {
            view.no_longer_early();
            view.allow_run(false);
            view.notice("webgpu", Tone::Error, "No device.", &why);
            view.offer_instead(other, &instead, environment::site());
            view.no_device("The browser offers WebGPU, but no device could be opened.");
            return unavailable(&why);
        }
    };
    show_device(&view, &bench.device, &bench.clock);
    view.show_settings();
    let collector = Collector::of(request.collector);
    if collector.is_some() {
        view.collector();
        // A copied address does not contain the token; the tab stores it.
        view.set_query(&query::write(&spec, mode, way));
    }
    let app = Rc::new(App {
        view,
        mode,
        way,
        texts,
        remote,
        collector,
        spec: RefCell::new(spec),
        orders: RefCell::new(bench.orders.clone()),
        bench: RefCell::new(Some(bench)),
        plan: RefCell::default(),
        plans: Cell::default(),
        run: RefCell::default(),
        known: RefCell::default(),
        progress: RefCell::default(),
        activity: RefCell::default(),
        live: RefCell::default(),
        screen: RefCell::default(),
        shelf,
        kept: RefCell::default(),
        linked: RefCell::new(linked),
        recalled: Cell::default(),
        model: RefCell::default(),
        running: Cell::new(false),
        stop: Cell::new(false),
        was_hidden: Cell::new(false),
    });
    let planned = app.make_plan().await;
    app.view.no_longer_early();
    app.listen();
    app.view.other_target(other, &instead);
    if let Some(remote) = &app.remote {
        match planned {
            Ok(()) => app.clone().measure().await,
            Err(nothing) => remote.tell(&Event::Unavailable { reason: nothing.why().to_owned() }),
        }
    } else {
        app.listen_to_wishes();
        app.listen_to_models();
        spawn_local(app.clone().offer_ways());
        app.clone().show_history().await;
        if pressed.is_some_and(|pressed| pressed.get()) {
            app.measure_again().await;
        }
    }
}

/// Kernel sources from the command line.
async fn other_texts(path: &str) -> Result<OtherTexts, String> {
    serde_json::from_str(&String::from(reading::text_at(path).await?)).map_err(|why| why.to_string())
}

/// Shows the device, and notices about the reliability of its figures.
fn show_device(view: &View, device: &DeviceInfo, clock: &ClockInfo) {
    view.device(device, clock, environment::isolated(), None);
    view.clock_notice(clock, None);
    if device.kind == DeviceKind::Software {
        view.notice(
            "software",
            Tone::Warn,
            "This is a software adapter, not a GPU.",
            "The browser emulates WebGPU on the processor. Results are checked all the same, but the times are not \
             those of a GPU. Turn graphics acceleration on in the browser's settings, or update the graphics driver.",
        );
    }
}

impl App {
    /// Returns the request to open a device.
    fn ask(&self, cube: bool) -> OpenRequest {
        OpenRequest { way: self.way, texts: self.texts.clone(), cube }
    }

    /// Connects the controls.
    fn listen(self: &Rc<Self>) {
        let app = self.clone();
        self.view.on_settings(move || spawn_local(app.clone().change_settings()));
        self.remember_the_name();
        let app = self.clone();
        self.view.on_run(move || spawn_local(app.clone().measure_again()));
        let app = self.clone();
        self.view.on_quick_look(move || spawn_local(app.clone().look()));
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
}
