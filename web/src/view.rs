//! The only code that touches the document. Text goes in as text, never as markup.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use parallax_core::case::{CPU_VARIANT, DType};
use parallax_core::plan::{Plan, Planned};
use parallax_core::profiler::{Clock, ClockInfo, DeviceInfo, DeviceKind};
use parallax_core::record::{Outcome, Record, Run, Suite};
use parallax_core::report::Row;
use parallax_core::runner::Mode;
use parallax_core::spec::{Spec, SpecError};
use parallax_core::units::{Nanos, percent};
use parallax_core::workload::{self, Preset};
use wasm_bindgen::prelude::*;
use web_sys::{Element, EventTarget, HtmlButtonElement, HtmlElement, HtmlInputElement, HtmlProgressElement};

use crate::environment::window;
use crate::progress::rough;

/// How serious a notice is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Good to know.
    Info,
    /// Bears on the figures.
    Warn,
    /// Something cannot be done.
    Error,
}

/// The page as seen.
#[derive(Clone)]
pub struct View {
    groups: Rc<RefCell<Vec<Group>>>,
}

/// The rows of one problem in the table.
struct Group {
    problem: String,
    body: Element,
    /// The row of the case being measured.
    busy: Option<Element>,
    /// Median time and the cell that compares it, per row.
    medians: Vec<(Nanos, Element)>,
}

/// How often the progress bar moves.
const TICK_MS: i32 = 250;

/// An element of the skeleton. It is there, or index.html and this file disagree.
fn id(name: &str) -> HtmlElement {
    let element = window().document().and_then(|d| d.get_element_by_id(name));
    element.and_then(|e| e.dyn_into().ok()).unwrap_or_else(|| panic!("index.html has no element `{name}`"))
}

/// An element of the skeleton, of a certain type.
fn typed<T: JsCast>(name: &str) -> T {
    id(name).dyn_into().unwrap_or_else(|_| panic!("`{name}` in index.html is of another type"))
}

/// A new element with a class and text.
fn make(tag: &str, class: &str, text: &str) -> Element {
    let document = window().document().expect("a page has a document");
    let element = document.create_element(tag).unwrap_or_else(|_| panic!("`{tag}` is no tag"));
    if !class.is_empty() {
        element.set_class_name(class);
    }
    if !text.is_empty() {
        element.set_text_content(Some(text));
    }
    element
}

/// Put elements into another, in order.
fn fill<'a>(parent: &Element, children: impl IntoIterator<Item = &'a Element>) {
    for child in children {
        // Appending fails only for a cycle, which new elements cannot form.
        let _ = parent.append_child(child);
    }
}

fn empty(element: &Element) {
    element.set_text_content(None);
}

/// Set an attribute whose name is known to be valid.
fn attribute(element: &Element, name: &str, value: &str) {
    let _ = element.set_attribute(name, value);
}

/// Call `f` on every `event`, for as long as the page lives.
fn listen(target: &EventTarget, event: &str, f: impl Fn(&web_sys::Event) + 'static) {
    let f = Closure::<dyn Fn(web_sys::Event)>::new(move |e: web_sys::Event| f(&e)).into_js_value();
    let _ = target.add_event_listener_with_callback(event, f.unchecked_ref());
}

fn on_click(name: &str, f: impl Fn() + 'static) {
    listen(&id(name), "click", move |_| f());
}

/// Say that the page itself has broken. Works without a [`View`], from a panic.
pub fn crashed(what: &str) {
    let view = View::new();
    view.notice(
        "crash",
        Tone::Error,
        "This page stopped working.",
        &format!("Reload it. If it happens again, report this: {what}"),
    );
    view.allow_run(false);
    id("stop").set_hidden(true);
}

impl View {
    /// Of this page.
    pub fn new() -> View {
        View { groups: Rc::default() }
    }

    /// Show a notice in place of any other of the same key.
    pub fn notice(&self, key: &str, tone: Tone, title: &str, text: &str) {
        self.clear_notice(key);
        let class = match tone {
            Tone::Info => "notice",
            Tone::Warn => "notice warn",
            Tone::Error => "notice error",
        };
        let notice = make("p", class, "");
        attribute(&notice, "data-notice", key);
        fill(&notice, [&make("strong", "", title), &make("span", "", text)]);
        fill(&id("notices"), [&notice]);
    }

    /// Take a notice away.
    pub fn clear_notice(&self, key: &str) {
        if let Ok(Some(old)) = id("notices").query_selector(&format!("[data-notice={key}]")) {
            old.remove();
        }
    }

    /// A way out of a bad address.
    pub fn offer_defaults(&self) {
        if let Ok(Some(notice)) = id("notices").query_selector("[data-notice=query]") {
            let link = make("a", "", "Start with the default settings");
            attribute(&link, "href", "?");
            fill(&notice, [&link]);
        }
    }

    /// A command line listens: say so where the page otherwise promises that results stay in it.
    pub fn remote(&self) {
        let who = "A command line on this computer started this page and receives the results.";
        self.notice("remote", Tone::Info, "Remote run.", who);
        id("privacy").set_text_content(Some(
            "Nothing leaves this computer: results go to the command line that started the page.",
        ));
    }

    /// What was built, in the footer.
    pub fn version(&self, suite: &Suite) {
        let commit = if suite.commit.is_empty() { String::new() } else { format!(" · {}", suite.commit) };
        id("version").set_text_content(Some(&format!("Parallax {}{commit}", suite.version)));
    }

    /// Say in place of the device why there is none.
    pub fn no_device(&self, why: &str) {
        let device = id("device");
        empty(&device);
        fill(&device, [&make("p", "quiet", why)]);
    }

    /// The device and its clock.
    pub fn device(&self, device: &DeviceInfo, clock: &ClockInfo, isolated: bool) {
        let (kind, kind_class) = match device.kind {
            DeviceKind::Discrete => ("discrete GPU", "tag"),
            DeviceKind::Integrated => ("integrated GPU", "tag"),
            DeviceKind::Virtual => ("virtual GPU", "tag"),
            DeviceKind::Software => ("software adapter", "tag warn"),
            DeviceKind::Cpu => ("processor", "tag warn"),
            DeviceKind::Unknown => ("kind not told by the browser", "tag"),
        };
        let title = make("h3", "", "");
        let name = if device.name.is_empty() { "A GPU that the browser does not name" } else { &device.name };
        fill(&title, [&make("span", "", name), &make("span", kind_class, kind)]);

        let clock_name = match clock.clock {
            Clock::GpuTimestamps => "GPU timestamps",
            Clock::CudaEvents => "CUDA events",
            Clock::Host => "host clock",
        };
        let host_step = format!("steps of {}{}", clock.host_step, if isolated { "" } else { ", page not isolated" });
        let caps = &device.caps;
        let has_f16 = caps.dtypes.contains(&DType::F16);
        let subgroups = match caps.subgroup {
            Some((low, high)) if low == high => format!("{low} wide"),
            Some((low, high)) => format!("{low} to {high} wide"),
            None => "not available".to_owned(),
        };
        let facts = [
            ("Vendor", device.vendor.clone()),
            ("Interface", device.api.clone()),
            ("Driver", device.driver.clone()),
            ("Clock", format!("{clock_name}, steps of {}", clock.step)),
            ("Host clock", host_step),
            ("Half precision (f16)", if has_f16 { "yes" } else { "not available" }.to_owned()),
            ("Subgroups", subgroups),
            ("Largest binding", caps.max_binding.to_string()),
        ];
        let list = make("dl", "facts", "");
        for (term, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
            let pair = make("div", "", "");
            fill(&pair, [&make("dt", "", term), &make("dd", "", value)]);
            fill(&list, [&pair]);
        }
        let card = id("device");
        empty(&card);
        fill(&card, [&title, &list]);
        if !has_f16 {
            let note = "This browser offers no half precision on this device (shader-f16), so f16 cases do not run; the \
                        plan lists them. A newer browser or graphics driver may offer it.";
            fill(&card, [&make("p", "quiet aside", note)]);
        }
    }

    /// Fill the controls from a spec.
    pub fn settings(&self, spec: &Spec, mode: Mode) {
        let choice = |group: &str, kind: &str, name: &str, on: bool| {
            let label = make("label", "", "");
            let input: HtmlInputElement = make("input", "", "").unchecked_into();
            input.set_type(kind);
            input.set_name(group);
            input.set_value(name);
            input.set_checked(on);
            fill(&label, [&input, &make("span", "", name)]);
            label
        };
        empty(&id("presets"));
        // The awkward shapes are for checking; their figures mean nothing.
        for (name, preset) in Preset::ALL.into_iter().filter(|(_, p)| *p != Preset::Awkward) {
            fill(&id("presets"), [&choice("preset", "radio", name, spec.preset == preset)]);
        }
        empty(&id("dtypes"));
        for (name, dtype) in DType::ALL {
            // WGSL has no bf16; offering it would only offer skips. A link may still ask for it.
            let asked = spec.dtype.contains(&dtype);
            if dtype != DType::BF16 || asked {
                fill(&id("dtypes"), [&choice("dtype", "checkbox", name, asked)]);
            }
        }
        // Cases named one by one are run whatever the preset and the element types.
        for field in ["preset-field", "dtype-field"] {
            id(field).set_hidden(!spec.case.is_empty());
        }
        typed::<HtmlInputElement>("filter").set_value(&spec.filter.join(" "));
        typed::<HtmlInputElement>("budget").set_value(&spec.budget.to_string());

        // What only a link or the command line can set is shown, with a way to drop it.
        let with_control = ["preset", "dtype", "filter", "budget"];
        let mut others: Vec<(&str, String)> =
            spec.to_pairs().into_iter().filter(|(key, _)| !with_control.contains(key)).collect();
        if mode == Mode::Verify {
            others.push(("mode", "verify: check results, take no times".to_owned()));
        }
        let fixed = id("fixed");
        empty(&fixed);
        if !others.is_empty() {
            fill(&fixed, [&make("span", "quiet", "Set by the link:")]);
            for (key, value) in &others {
                fill(&fixed, [&make("code", "chip", &format!("{key}={value}"))]);
            }
            let reset = make("a", "", "drop these");
            attribute(&reset, "href", "?");
            fill(&fixed, [&reset]);
        }
        id("settings-section").set_hidden(false);
    }

    /// The controls' state, upon the spec that they were filled from.
    pub fn read_settings(&self, before: &Spec) -> Result<Spec, SpecError> {
        let mut spec = Spec { dtype: Vec::new(), filter: Vec::new(), ..before.clone() };
        for (group, key) in [("presets", "preset"), ("dtypes", "dtype")] {
            let Ok(chosen) = id(group).query_selector_all("input:checked") else { continue };
            for i in 0..chosen.length() {
                if let Some(input) = chosen.get(i).and_then(|n| n.dyn_into::<HtmlInputElement>().ok()) {
                    spec.set(key, &input.value())?;
                }
            }
        }
        for pattern in typed::<HtmlInputElement>("filter").value().split_whitespace() {
            spec.set("filter", pattern)?;
        }
        spec.set("budget", &typed::<HtmlInputElement>("budget").value())?;
        Ok(spec)
    }

    /// Mirror the settings in the address, without a history entry for each keystroke.
    pub fn set_query(&self, query: &str) {
        if let Ok(history) = window().history() {
            let _ = history.replace_state_with_url(&JsValue::NULL, "", Some(&format!("?{query}")));
        }
    }

    /// The page's address.
    pub fn address(&self) -> String {
        window().location().href().unwrap_or_default()
    }

    /// The plan: cases by workload, and what will not run, by reason.
    pub fn plan(&self, plan: &Plan, time: Option<&str>) {
        let cases = plan.cases.len();
        let time = time.map(|t| format!(", about {t}")).unwrap_or_default();
        let skips = match plan.skips.len() {
            0 => String::new(),
            n => format!(" {n} cannot run here."),
        };
        let line =
            if cases == 0 { format!("Nothing to run.{skips}") } else { format!("{}{time}.{skips}", count(cases)) };
        id("plan-line").set_text_content(Some(&line));

        let holder = id("plan");
        empty(&holder);
        for workload in workload::all() {
            let of_this: Vec<&Planned> =
                plan.cases.iter().filter(|c| c.case.problem.workload.name == workload.name).collect();
            if of_this.is_empty() {
                continue;
            }
            let list = make("ul", "", "");
            let mut problem_before = String::new();
            let mut item = make("li", "", "");
            for planned in &of_this {
                let problem = planned.case.problem.to_string();
                if problem != problem_before {
                    item = make("li", "", "");
                    let short = problem.split_once('/').map_or(problem.as_str(), |(_, rest)| rest);
                    fill(&item, [&make("span", "case", short)]);
                    fill(&list, [&item]);
                    problem_before = problem;
                }
                fill(&item, [&chip(planned)]);
            }
            fill(&holder, [&foldable(workload.name, workload.about, &count(of_this.len()), &list, cases <= 12)]);
        }
        let mut reasons: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for skip in &plan.skips {
            reasons.entry(&skip.reason).or_default().push(skip.case.to_string());
        }
        if !reasons.is_empty() {
            let list = make("ul", "reasons", "");
            for (reason, cases) in reasons {
                let item = make("li", "", "");
                fill(&item, [&make("span", "", reason)]);
                fill(&item, &cases.iter().map(|case| make("span", "case", case)).collect::<Vec<_>>());
                fill(&list, [&item]);
            }
            let about = "with the reason for each";
            fill(&holder, [&foldable("Cannot run here", about, &count(plan.skips.len()), &list, false)]);
        }
        id("plan-section").set_hidden(plan.cases.is_empty() && plan.skips.is_empty());
    }

    /// Whether the Run button can be pressed.
    pub fn allow_run(&self, yes: bool) {
        typed::<HtmlButtonElement>("run").set_disabled(!yes);
    }

    /// A run begins: an empty table and a moving bar.
    pub fn begin(&self) {
        for group in self.groups.borrow_mut().drain(..) {
            group.body.remove();
        }
        for key in ["hidden", "lost"] {
            self.clear_notice(key);
        }
        self.share_line("");
        empty(&id("summary"));
        self.set_running(true);
        id("results-section").set_hidden(false);
        id("share").set_hidden(true);
    }

    fn set_running(&self, running: bool) {
        id("run").set_hidden(running);
        id("stop").set_hidden(!running);
        id("plan-line").set_hidden(running);
        id("progress").set_hidden(!running);
        let stop: HtmlButtonElement = typed("stop");
        stop.set_disabled(false);
        stop.set_text_content(Some("Stop"));
        if let Ok(inputs) = id("settings").query_selector_all("input") {
            for i in 0..inputs.length() {
                if let Some(input) = inputs.get(i).and_then(|n| n.dyn_into::<HtmlInputElement>().ok()) {
                    input.set_disabled(running);
                }
            }
        }
    }

    /// Stop was pressed.
    pub fn stopping(&self) {
        let stop: HtmlButtonElement = typed("stop");
        stop.set_disabled(true);
        stop.set_text_content(Some("Stopping after this case …"));
    }

    /// Where the run is.
    pub fn progress(&self, (done, total): (usize, usize), fraction: f64, left: &str) {
        typed::<HtmlProgressElement>("bar").set_value(fraction);
        id("progress-left").set_text_content(Some(&format!("{done} of {total}, about {left} left")));
        set_title(&format!("{done}/{total} · Parallax"));
    }

    /// A case is being measured.
    pub fn case_started(&self, case: &str) {
        id("progress-case").set_text_content(Some(case));
        let (problem, variant) = case.rsplit_once('/').unwrap_or((case, ""));
        self.with_group(problem, |group| {
            let row = make("tr", "busy", "");
            fill(&row, [&make("td", "variant", variant)]);
            fill(&group.body, [&row]);
            group.busy = Some(row);
        });
    }

    /// A case ended. Cases that were never to run are in the plan, not in the table.
    pub fn case_finished(&self, record: &Record, row: &Row) {
        if matches!(record.outcome, Outcome::Skipped { .. }) {
            return;
        }
        self.with_group(&row.problem, |group| {
            if let Some(busy) = group.busy.take() {
                busy.remove();
            }
            let line = make("tr", "", "");
            attribute(&line, "data-case", &record.case);
            let verdict = format!("verdict {}", record.verdict().to_lowercase());
            let speed = make("td", "speed", "");
            let cells = [
                make("td", "variant", &row.variant),
                make("td", "num median", &row.median),
                make("td", "num interval", &row.interval),
                make("td", "num rate", &row.rate),
                speed.clone(),
                make("td", &verdict, &row.verdict),
                make("td", "clock", &row.clock),
            ];
            fill(&line, &cells);
            fill(&group.body, [&line]);
            if !row.note.is_empty() {
                let note = make("tr", "note", "");
                let cell = make("td", "", &row.note);
                attribute(&cell, "colspan", "7");
                fill(&note, [&cell]);
                fill(&group.body, [&note]);
            }
            if let Some(timing) = record.timing() {
                group.medians.push((timing.summary.median, speed));
                compare(&group.medians);
            }
        });
    }

    fn with_group(&self, problem: &str, f: impl FnOnce(&mut Group)) {
        let mut groups = self.groups.borrow_mut();
        if let Some(group) = groups.iter_mut().find(|g| g.problem == problem) {
            return f(group);
        }
        let body = make("tbody", "", "");
        let head = make("tr", "", "");
        let cell = make("th", "", "");
        attribute(&cell, "colspan", "7");
        attribute(&cell, "scope", "rowgroup");
        let (workload, rest) = problem.split_once('/').unwrap_or((problem, ""));
        fill(&cell, [&make("b", "", workload), &make("span", "case quiet", rest)]);
        fill(&head, [&cell]);
        fill(&body, [&head]);
        fill(&id("results"), [&body]);
        let mut group = Group { problem: problem.to_owned(), body, busy: None, medians: Vec::new() };
        f(&mut group);
        groups.push(group);
    }

    /// The run ended.
    pub fn end(&self, run: &Run, seconds: f64) {
        for group in self.groups.borrow_mut().iter_mut() {
            if let Some(busy) = group.busy.take() {
                busy.remove();
            }
        }
        self.set_running(false);
        set_title("Parallax");
        let of = |verdict: &str| run.records.iter().filter(|r| r.verdict() == verdict).count();
        let (right, wrong, failed, skipped) = (of("right"), of("WRONG"), of("FAILED"), of("skipped"));
        let summary = id("summary");
        empty(&summary);
        let lead = match &run.interrupted {
            Some(why) => format!("The run ended early after {}: {why}. ", rough(seconds)),
            None => format!("Done in {}. ", rough(seconds)),
        };
        fill(&summary, [&make("span", "", &lead)]);
        let bad = |n: usize, what: &str| (n > 0).then(|| make("span", "bad", &format!(", {n} {what}")));
        let good = make("span", "good", &format!("{right} right"));
        fill(&summary, [good].iter().chain(&bad(wrong, "wrong")).chain(&bad(failed, "failed")));
        let skipped = if skipped > 0 { format!(", {skipped} not run (see the plan).") } else { ".".to_owned() };
        fill(&summary, [&make("span", "", &skipped)]);
        id("share").set_hidden(false);
    }

    /// What came of a download, a link or a trace.
    pub fn share_line(&self, line: &str) {
        id("share-line").set_text_content(Some(line));
    }

    /// Call when a control changes.
    pub fn on_settings(&self, f: impl Fn() + 'static) {
        listen(&id("settings"), "input", move |_| f());
    }

    /// Call when Run is pressed.
    pub fn on_run(&self, f: impl Fn() + 'static) {
        listen(&id("settings"), "submit", move |event| {
            event.prevent_default();
            f();
        });
    }

    /// Call when Stop is pressed.
    pub fn on_stop(&self, f: impl Fn() + 'static) {
        on_click("stop", f);
    }

    /// Call when the tab is hidden or shown.
    pub fn on_visibility(&self, f: impl Fn() + 'static) {
        if let Some(document) = window().document() {
            listen(&document, "visibilitychange", move |_| f());
        }
    }

    /// Call several times a second.
    pub fn on_tick(&self, f: impl Fn() + 'static) {
        let f = Closure::<dyn Fn()>::new(f).into_js_value();
        let _ = window().set_interval_with_callback_and_timeout_and_arguments_0(f.unchecked_ref(), TICK_MS);
    }

    /// Call when the JSON file is asked for.
    pub fn on_download_json(&self, f: impl Fn() + 'static) {
        on_click("download-json", f);
    }

    /// Call when the trace file is asked for.
    pub fn on_download_trace(&self, f: impl Fn() + 'static) {
        on_click("download-trace", f);
    }

    /// Call when the trace is to be opened.
    pub fn on_open_trace(&self, f: impl Fn() + 'static) {
        on_click("open-trace", f);
    }

    /// Call when the link is asked for.
    pub fn on_copy_link(&self, f: impl Fn() + 'static) {
        on_click("copy-link", f);
    }
}

fn set_title(title: &str) {
    if let Some(document) = window().document() {
        document.set_title(title);
    }
}

fn count(cases: usize) -> String {
    if cases == 1 { "1 case".to_owned() } else { format!("{cases} cases") }
}

/// A variant in the plan; what it is, and why another runs in its place, on hovering.
fn chip(planned: &Planned) -> Element {
    let variant = planned.case.variant;
    let about = match planned.case.form() {
        Some(form) => form.about,
        None => CPU_VARIANT,
    };
    let (text, title) = match &planned.actual {
        Some(actual) => (format!("{variant} → {}", actual.variant), format!("{about}: {}", actual.reason)),
        None => (variant.to_owned(), about.to_owned()),
    };
    let chip = make("span", "chip", &text);
    attribute(&chip, "title", &title);
    chip
}

fn foldable(name: &str, about: &str, count: &str, content: &Element, open: bool) -> Element {
    let details = make("details", "", "");
    if open {
        attribute(&details, "open", "");
    }
    let summary = make("summary", "", "");
    fill(&summary, [&make("b", "", name), &make("span", "quiet", about), &make("span", "count", count)]);
    fill(&details, [&summary, content]);
    details
}

/// Draw every row of a problem against the fastest one, once there are two.
fn compare(medians: &[(Nanos, Element)]) {
    if medians.len() < 2 {
        return;
    }
    let fastest = medians.iter().map(|(m, _)| m.0).fold(f64::INFINITY, f64::min);
    for (median, cell) in medians {
        let speed = fastest / median.0;
        let meter = make("div", if speed >= 1.0 { "meter best" } else { "meter" }, "");
        let bar = make("i", "", "");
        // The style sheet scales the bar to what the label beside it leaves, so that lengths stay in proportion.
        attribute(&bar, "style", &format!("--speed:{speed:.3}"));
        fill(&meter, [&bar, &make("span", "", &percent(speed))]);
        empty(cell);
        fill(cell, [&meter]);
    }
}
