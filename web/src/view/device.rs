//! View of the device: the browser's description, and results of self-test and probes.

use parallax_protocol::target::Target;
use parallax_report as report;
use parallax_schema::case::DType;
use parallax_schema::device::{Clock, ClockInfo, DeviceInfo, DeviceKind, Dialect};
use parallax_schema::record::Baseline;
use parallax_schema::units::{percent, sentence};
use web_sys::Element;

use super::View;
use super::dom::{attribute, empty, facts, facts_from, fill, id, make, prose, say};
use super::notices::Tone;

impl View {
    /// Shows the reason of a missing device in its place.
    pub fn no_device(&self, why: &str) {
        let device = id("device");
        empty(&device);
        fill(&device, [&make("p", "quiet", why)]);
    }

    /// Shows the device and its clock, with the results of self-test and probes if available.
    pub fn device(&self, device: &DeviceInfo, clock: &ClockInfo, isolated: bool, baseline: Option<&Baseline>) {
        let card = id("device");
        empty(&card);
        fill(&card, [&title(device), &folded("Adapter details", &adapter_facts(device, clock, isolated))]);
        if device.caps.dialect == Dialect::Cpu {
            let note = "Plain code, compiled into this page. The browser's cost on the processor is the ratio to the target \
                        `cpu` of the command line on the same machine.";
            fill(&card, [&prose("p", "quiet aside", note)]);
        } else if !device.caps.dtypes.contains(&DType::F16) {
            let note = "This browser offers no half precision on this device (shader-f16), so f16 cases do not run; the \
                        plan lists them. A newer browser or graphics driver may offer it.";
            fill(&card, [&make("p", "quiet aside", note)]);
        }
        if let Some(baseline) = baseline {
            fill(&card, [&found(baseline)]);
        }
    }

    /// Shows a link to the page for the other target.
    pub fn other_target(&self, target: Target, query: &str) {
        let link = id("other-target");
        say(&link, instead(target));
        attribute(&link, "href", &format!("?{query}"));
        link.set_hidden(false);
    }

    /// Shows a notice about the reliability of the clock.
    pub fn clock_notice(&self, clock: &ClockInfo, baseline: Option<&Baseline>) {
        self.clear_notice("clock");
        let demoted = baseline.and_then(|b| b.timer.demoted.as_ref());
        match (demoted, &clock.note) {
            (Some(why), _) => self.notice("clock", Tone::Warn, "The device's clock is not used.", &sentence(why)),
            (None, Some(note)) => self.notice("clock", Tone::Info, "About the clock.", &sentence(note)),
            (None, None) => {}
        }
    }
}

/// Text of a link to the page for another target.
pub(super) fn instead(target: Target) -> &'static str {
    match target {
        Target::Browser => "Measure the GPU instead, through WebGPU",
        Target::Wasm => "Measure the processor instead, in WebAssembly",
    }
}

fn title(device: &DeviceInfo) -> Element {
    let (kind, class) = match device.kind {
        DeviceKind::Discrete => ("discrete GPU", "tag"),
        DeviceKind::Integrated => ("integrated GPU", "tag"),
        DeviceKind::Virtual => ("virtual GPU", "tag"),
        DeviceKind::Software => ("software adapter", "tag warn"),
        DeviceKind::Cpu => ("processor", "tag warn"),
        DeviceKind::Unknown => ("kind not named by the browser", "tag"),
    };
    let title = make("h3", "", "");
    let name = if device.name.is_empty() { "A GPU that the browser does not name" } else { &device.name };
    fill(&title, [&make("span", "", name), &make("span", class, kind)]);
    title
}

/// Collapsed details with a title.
fn folded(name: &str, content: &Element) -> Element {
    let details = make("details", "", "");
    fill(&details, [&make("summary", "", name), content]);
    details
}

/// Facts that need no measurement.
fn adapter_facts(device: &DeviceInfo, clock: &ClockInfo, isolated: bool) -> Element {
    let clock_name = match clock.clock {
        Clock::GpuTimestamps => "GPU timestamps",
        Clock::CudaEvents => "CUDA events",
        Clock::Host => "host clock",
    };
    let caps = &device.caps;
    let subgroups = match caps.subgroup {
        Some((low, high)) if low == high => format!("{low} wide"),
        Some((low, high)) => format!("{low} to {high} wide"),
        None => "not available".to_owned(),
    };
    let has_f16 = caps.dtypes.contains(&DType::F16);
    // GPU terms do not apply to a processor.
    let of_a_gpu = |fact: String| if caps.dialect == Dialect::Cpu { String::new() } else { fact };
    let of_a_processor = if caps.dialect == Dialect::Cpu { device.features.join(", ") } else { String::new() };
    facts([
        ("Vendor", device.vendor.clone()),
        ("Interface", device.api.clone()),
        ("Driver", device.driver.clone()),
        ("Clock", format!("{clock_name}, steps of {}", clock.step)),
        ("Host clock", format!("steps of {}{}", clock.host_step, if isolated { "" } else { ", page not isolated" })),
        ("Runs on", of_a_processor),
        ("Half precision (f16)", of_a_gpu(if has_f16 { "yes" } else { "not available" }.to_owned())),
        ("Subgroups", of_a_gpu(subgroups)),
        ("Largest binding", of_a_gpu(caps.max_binding.to_string())),
    ])
}

/// Results of self-test and probes.
fn found(baseline: &Baseline) -> Element {
    let holder = make("div", "found", "");
    holder.set_id("baseline");
    let clock = &baseline.clock;
    let mut test = sentence(&parallax_schema::record::sentence(&baseline.timer));
    if clock.zero_share > 0.0 || clock.negative_share > 0.0 {
        let shares = (percent(clock.zero_share), percent(clock.negative_share));
        test = format!("{test} Of short timings, {} came out as zero and {} as less.", shares.0, shares.1);
    }
    if !test.trim().is_empty() {
        fill(&holder, [&make("h4", "", "Clocks, as tested"), &make("p", "", test.trim())]);
    }
    fill(&holder, [&make("h4", "", "Ceilings: the best rates of our own probes here")]);
    let ceilings = report::ceilings(&baseline.ceilings);
    if ceilings.is_empty() {
        fill(&holder, [&make("p", "quiet", "None were measured, so no case has a share of them.")]);
    } else {
        fill(&holder, [&facts_from(ceilings.iter().map(|c| (c.name.as_str(), c.value.clone(), c.detail.as_str())))]);
    }
    for missing in &baseline.ceilings.missing {
        fill(&holder, [&make("p", "quiet", &format!("Not measured: {missing}"))]);
    }
    holder
}
