//! Diagnosis of each target from facts about a machine: working parts, missing parts, and one remedy for each.

use std::path::PathBuf;

use parallax_cuda::device::{Unavailable, listed};
use parallax_cuda::found::Library;
use parallax_cuda::nvrtc::NvrtcError;
use parallax_schema::device::DeviceKind;

use crate::browser::Family;
use crate::sensors::GpuActivity;

/// Facts about a machine. Unknown facts are absent.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Description of the CUDA device, or the reason for its absence.
    pub cuda: Result<String, Unavailable>,
    /// Result of the compilation of an empty kernel; absent without a device.
    pub compiles: Option<Result<(), String>>,
    /// Driver calls that are missing for single cases.
    pub lacking: Vec<&'static str>,
    /// NVIDIA's libraries.
    pub libraries: Vec<Library>,
    /// Present state of the boards.
    pub boards: Vec<GpuActivity>,
    /// Whether the driver restricts hardware counters to administrators, and this process is no administrator.
    pub counters_closed: Option<bool>,
    /// Adapters of wgpu, in the order of their numbers.
    pub adapters: Vec<(String, DeviceKind)>,
    /// Device of wgpu, or the reason for its absence.
    pub wgpu: Result<String, String>,
    /// Whether the Vulkan loader is present.
    pub vulkan_loader: Option<bool>,
    /// Names of the drivers in the Vulkan loader's folders.
    pub vulkan_drivers: Option<Vec<String>>,
    /// Dependencies of NVIDIA's Vulkan driver that do not load; absent without an NVIDIA GPU.
    pub gl_missing: Option<Vec<&'static str>>,
    /// GPU device files that this process may not open.
    pub closed_nodes: Vec<PathBuf>,
    /// The page, or its searched places.
    pub page: Result<String, String>,
    /// The browser, or the reason for its absence.
    pub browser: Result<PathBuf, String>,
    /// Version line of the browser.
    pub browser_version: Option<String>,
    /// WebGPU flags or preferences of the browser's start.
    pub browser_start: String,
    /// Family of the browser.
    pub browser_family: Family,
    /// Device that the page found in the browser, or the failure; absent without a page or a browser.
    pub in_page: Option<Result<(String, DeviceKind), String>>,
    /// Whether the machine has a font.
    pub fonts: Option<bool>,
    /// Description of the processor, or the reason for which it cannot compute.
    pub cpu: Result<String, String>,
    /// Frequency governor of the processor.
    pub governor: Option<String>,
    /// Number of runnable processes in the last minute, and number of processors.
    pub load: Option<(f64, usize)>,
}

/// State of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Runs on its intended device.
    Works,
    /// Runs on an emulation of a GPU by the processor.
    Emulated,
    /// Does not run.
    Missing,
}

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// No problem.
    Ok,
    /// Runs, with a possible improvement.
    Note,
    /// Prevents the target from running.
    Missing,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// Severity.
    pub grade: Grade,
    /// Description.
    pub what: String,
    /// Remedy; absent without a problem.
    pub remedy: Option<String>,
}

/// Findings of one target.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Diagnosis {
    /// Name of the target.
    pub target: &'static str,
    /// State of the target.
    pub state: State,
    /// Findings, in the order in which a run would reach them.
    pub findings: Vec<Finding>,
}

/// Findings under construction.
#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn ok(&mut self, what: impl Into<String>) {
        self.0.push(Finding { grade: Grade::Ok, what: what.into(), remedy: None });
    }

    fn note(&mut self, what: impl Into<String>, remedy: impl Into<String>) {
        self.0.push(Finding { grade: Grade::Note, what: what.into(), remedy: Some(remedy.into()) });
    }

    fn missing(&mut self, what: impl Into<String>, remedy: impl Into<String>) {
        self.0.push(Finding { grade: Grade::Missing, what: what.into(), remedy: Some(remedy.into()) });
    }

    fn of(self, target: &'static str, emulated: bool) -> Diagnosis {
        let state = match self.0.iter().any(|finding| finding.grade == Grade::Missing) {
            true => State::Missing,
            false if emulated => State::Emulated,
            false => State::Works,
        };
        Diagnosis { target, state, findings: self.0 }
    }
}

/// Returns the diagnosis of each target.
pub fn diagnose(facts: &Facts) -> Vec<Diagnosis> {
    vec![cuda(facts), wgpu(facts), browser(facts), cpu(facts), wasm(facts)]
}

/// Returns whether the required targets run; without any, whether a target runs on a GPU.
pub fn is_well(all: &[Diagnosis], wanted: &[String]) -> bool {
    let state = |name: &str| all.iter().find(|d| d.target == name).map_or(State::Missing, |d| d.state);
    match wanted {
        [] => all.iter().any(|d| !["cpu", "wasm"].contains(&d.target) && d.state == State::Works),
        wanted => wanted.iter().all(|name| state(name) != State::Missing),
    }
}

fn cuda(facts: &Facts) -> Diagnosis {
    let mut found = Findings::default();
    match &facts.cuda {
        Ok(device) => found.ok(device),
        Err(Unavailable::NoDriver) => found.missing(
            "no NVIDIA driver: its library (libcuda.so.1, on Windows nvcuda.dll) is not on the loader's path",
            "install the driver of your NVIDIA GPU; in a container, start it with `docker run --gpus all`",
        ),
        Err(Unavailable::Stub) => found.missing(
            "libcuda is the CUDA toolkit's stub (folder `stubs`), no driver",
            "remove the folder `stubs` from LD_LIBRARY_PATH; install the NVIDIA driver if there is none",
        ),
        Err(Unavailable::OldDriver(major, minor)) => found.missing(
            format!("the NVIDIA driver is too old: it supports CUDA {major}.{minor}, and 12.8 is needed"),
            "update it to version 570 or newer",
        ),
        Err(Unavailable::NoDevice { count, .. }) => found.missing(
            format!("the NVIDIA driver shows {count} devices"),
            "check that `nvidia-smi` lists the GPU, and `unset CUDA_VISIBLE_DEVICES`",
        ),
        // Reported below, with the other libraries.
        Err(Unavailable::NoCompiler(NvrtcError::Missing { .. })) => {}
        Err(Unavailable::NoCompiler(NvrtcError::NoneFits { arch, found: each, remedy })) => found.missing(
            format!("no NVRTC compiles for compute capability {}.{}: {}", arch.major, arch.minor, each.join(", ")),
            *remedy,
        ),
        Err(Unavailable::Lacks(calls)) => found.missing(
            format!("the NVIDIA driver lacks {}", listed(calls)),
            "reinstall it, or remove other files named libcuda from the loader's path",
        ),
        Err(other @ Unavailable::Driver { doing, message, .. }) => found.missing(
            format!("the CUDA driver failed while {doing}: {message}"),
            other.remedy().unwrap_or("`nvidia-smi` says more"),
        ),
        Err(other) => {
            found.missing(other.to_string(), "`nvidia-smi` says more; after an update of the driver, restart")
        }
    }
    if let Some(Err(why)) = &facts.compiles {
        found.missing(
            format!("no kernel compiles: {why}"),
            "reinstall that NVRTC, or name the folder of another with PARALLAX_NVRTC_DIR",
        );
    }
    if !facts.lacking.is_empty() {
        found.note(
            format!("the driver lacks {}: cases that need one are skipped", listed(&facts.lacking)),
            "reinstall the driver, or remove other files named libcuda from the loader's path",
        );
    }
    for library in &facts.libraries {
        let remedy = || format!("`pip install {}`, or install {}", library.package, library.part_of);
        match &library.found {
            Ok(origin) => found.ok(format!("{} {origin}", library.name)),
            Err(tried) => {
                let what = format!("no {}, without which {} ({tried})", library.name, library.serves);
                if library.needed { found.missing(what, remedy()) } else { found.note(what, remedy()) }
            }
        }
    }
    if facts.counters_closed == Some(true) {
        found.note(
            "the driver gives hardware counters to administrators only, so profilers such as ncu show none",
            "`echo 'options nvidia NVreg_RestrictProfilingToAdminUsers=0' | sudo tee /etc/modprobe.d/nvidia-counters.conf`, \
             and restart",
        );
    }
    for board in &facts.boards {
        if !board.held.is_empty() {
            found.note(
                format!("the clocks of {} are throttled at this moment: {}", board.name, board.held.join(", ")),
                "wait until it has cooled; `nvidia-smi -q -d POWER,TEMPERATURE,PERFORMANCE` shows its limits",
            );
        }
        if board.processes > 0 {
            found.note(
                format!(
                    "{} other process(es) compute on {}, and figures would be of a shared GPU",
                    board.processes, board.name
                ),
                "end them; `nvidia-smi` lists them",
            );
        }
    }
    found.of("cuda", false)
}

/// NVIDIA's Vulkan driver.
const NVIDIA_VULKAN: &str = "libGLX_nvidia.so.0";

/// NVIDIA's Vulkan driver and the libraries that it loads at its start. Without one of them, Vulkan shows no adapter
/// and gives no reason.
pub const NVIDIA_GL: [&str; 7] =
    [NVIDIA_VULKAN, "libGLdispatch.so.0", "libGL.so.1", "libGLX.so.0", "libEGL.so.1", "libX11.so.6", "libXext.so.6"];

fn wgpu(facts: &Facts) -> Diagnosis {
    let mut found = Findings::default();
    let emulated = facts.adapters.iter().all(|(_, kind)| kind.is_emulated());
    let install = "install the Vulkan driver of your GPU; `sudo apt-get install mesa-vulkan-drivers` has those of AMD, \
                   Intel, and an emulation";
    match (&facts.wgpu, facts.vulkan_loader, &facts.vulkan_drivers) {
        (Ok(device), ..) => found.ok(format!("opens {device}")),
        (_, Some(false), _) if facts.adapters.is_empty() => {
            found.missing("no Vulkan loader (libvulkan.so.1)", "`sudo apt-get install libvulkan1 mesa-vulkan-drivers`");
        }
        (_, _, Some(drivers)) if facts.adapters.is_empty() && drivers.is_empty() => {
            found.missing("the Vulkan loader has no driver", install);
        }
        (Err(why), ..) if facts.adapters.is_empty() => found.missing(why, install),
        (Err(why), ..) => found.missing(why, "name another one with --device"),
    }
    for (name, kind) in &facts.adapters {
        found.ok(format!("sees {name} ({kind:?})"));
    }
    if let Some(missing) = facts.gl_missing.as_ref().filter(|missing| !missing.is_empty()) {
        let what = format!("NVIDIA's Vulkan driver needs {}, which the loader does not find", missing.join(", "));
        let remedy = match missing.contains(&NVIDIA_VULKAN) {
            true => {
                "in a container, start it with `-e NVIDIA_DRIVER_CAPABILITIES=all`; elsewhere, install the driver's GL libraries"
            }
            false => "`sudo apt-get install libglvnd0 libgl1 libglx0 libegl1 libx11-6 libxext6`",
        };
        match facts.wgpu.is_ok() {
            true => found.note(what, remedy),
            false => found.missing(what, remedy),
        }
    }
    for node in &facts.closed_nodes {
        found.note(
            format!("no permission to open {}, the file of a GPU", node.display()),
            "`sudo usermod -aG render,video $USER`, and log in again",
        );
    }
    if facts.wgpu.is_ok() && emulated {
        found.note("no adapter is a GPU: the processor emulates one", install);
    }
    found.of("wgpu", emulated)
}

/// Returns findings on the page, and on a browser with a feature since a version.
fn page_in_a_browser(facts: &Facts, (what, since): (&str, u32)) -> Findings {
    let mut found = Findings::default();
    match &facts.page {
        Ok(page) => found.ok(format!("the page {page}")),
        Err(why) => found.missing(why, "`./x page` builds it in a checkout; --page names its folder elsewhere"),
    }
    let version = facts.browser_version.as_deref();
    let major = version.and_then(major);
    match &facts.browser {
        Err(why) => found.missing(why, "`sudo apt-get install chromium`, or name a browser with --browser PATH"),
        Ok(path) if major.is_some_and(|major| major < since) => found.missing(
            format!("{} is {}; {what} came with {since}", path.display(), version.unwrap_or_default()),
            "update the browser",
        ),
        Ok(path) => {
            let named = version.map(|version| format!(", {version}")).unwrap_or_default();
            found.ok(format!("{}{named}", path.display()));
            found.ok(format!("started with {}", facts.browser_start));
        }
    }
    found
}

fn browser(facts: &Facts) -> Diagnosis {
    let mut found = page_in_a_browser(facts, ("WebGPU", facts.browser_family.webgpu_since()));
    let mut emulated = false;
    match &facts.in_page {
        None => {}
        Some(Ok((device, kind))) => {
            emulated = kind.is_emulated();
            found.ok(format!("WebGPU in the page: {device}"));
            if emulated {
                found.note("the browser emulates the GPU on the processor", facts.browser_family.gpu_remedy());
            }
        }
        Some(Err(why)) => found.missing(format!("no WebGPU in the page: {why}"), facts.browser_family.gpu_remedy()),
    }
    if facts.fonts == Some(false) {
        found.note(
            "no font on this machine: screenshots of pages show no text",
            "`sudo apt-get install fonts-dejavu-core`",
        );
    }
    found.of("browser", emulated)
}

/// Returns the major version in a version line: `Chromium 140.0.7339.80 built on …`.
fn major(version: &str) -> Option<u32> {
    version.split_whitespace().find_map(|word| word.split_once('.')?.0.parse().ok())
}

/// Share of the processors from which other load is reported.
const BUSY: f64 = 0.25;

fn cpu(facts: &Facts) -> Diagnosis {
    let mut found = Findings::default();
    match &facts.cpu {
        Ok(device) => found.ok(device),
        Err(why) => found.missing(why, "correct the named part"),
    }
    if let Some(governor @ ("powersave" | "conservative" | "ondemand")) = facts.governor.as_deref() {
        found.note(
            format!("the processor's clocks follow the governor `{governor}`, and times with them"),
            "`sudo cpupower frequency-set -g performance`",
        );
    }
    if let Some((load, processors)) = facts.load
        && load > BUSY * processors as f64
    {
        found.note(
            format!("other work is running: a load of {load} on {processors} processors"),
            "end it, or times of the processor and of short GPU work vary with it; `top` shows it",
        );
    }
    found.of("cpu", false)
}

fn wasm(facts: &Facts) -> Diagnosis {
    page_in_a_browser(facts, ("SIMD in WebAssembly", facts.browser_family.simd_since())).of("wasm", false)
}

#[cfg(test)]
mod tests;
