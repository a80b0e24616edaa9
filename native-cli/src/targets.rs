//! List of targets.

use std::path::Path;

use anyhow::bail;
use parallax_engine::plan::{Planned, plan};
use parallax_ir::Case;
use parallax_ir::device::Profiler;
use parallax_schema::case::choices;
use parallax_schema::device::{BrowserMode, DeviceKind};
use parallax_schema::spec::Spec;

use crate::args::{Device, Native};
use crate::browser::{BrowserOptions, Family, PageTarget};
use crate::cards::Card;
use crate::console::errln;
use crate::sensors::instrumented;
use crate::texts::{cuda_texts, wgsl_folder, wgsl_texts};
use crate::{cards, memory, processes, ranks, system, tuning};

/// A target.
pub struct Target {
    /// Name in flags and records.
    pub name: &'static str,
    /// Opens the target, or returns the reason for its absence in one sentence.
    pub open: fn(&Device) -> Result<Opened, String>,
}

/// An open target.
pub enum Opened {
    /// Device of this process.
    Here(Box<dyn Profiler>),
    /// Page in a browser, which plans and measures by itself, on the GPU or on the processor.
    Browser(BrowserOptions),
}

/// Name of the target for the processor, with code of this program.
pub const CPU: &str = "cpu";
/// Name of the target for the processor, with the same code compiled into the page.
pub const WASM: &str = PageTarget::Wasm.name();

/// Every target, best first. A new target needs a crate that implements `Profiler`, and a line here.
pub const TARGETS: &[Target] = &[
    Target { name: "cuda", open: cuda },
    Target { name: "wgpu", open: wgpu },
    Target { name: PageTarget::Browser.name(), open: browser },
    Target { name: CPU, open: cpu },
    Target { name: WASM, open: wasm },
];

/// Opens a device of this process with sensors and with the tunables of its class.
fn here(profiler: impl Profiler + 'static, options: &Native) -> Result<Opened, String> {
    let mut profiler = instrumented(Box::new(profiler), options.lock_clocks)?;
    tuning::apply(&mut profiler, options, &[]).map_err(|e| e.to_string())?;
    Ok(Opened::Here(Box::new(profiler)))
}

fn cuda(options: &Device) -> Result<Opened, String> {
    let texts = cuda_texts(&options.native).map_err(|e| e.to_string())?;
    let ordinal = match card(&options.native)? {
        Some(card) => card.cuda.ok_or_else(|| unreachable_through("CUDA", &card))?,
        None => 0,
    };
    let arithmetic = options.native.arithmetic.unwrap_or_default();
    let wanted = parallax_cuda::CudaOptions { ordinal, texts, arithmetic, ..Default::default() };
    if options.native.processes {
        return joined(wanted, &options.native);
    }
    match options.native.gpus.unwrap_or(1) {
        1 => here(parallax_cuda::open(wanted).map_err(|e| e.to_string())?, &options.native),
        gpus => here(parallax_cuda::open_group(wanted, gpus as usize).map_err(|e| e.to_string())?, &options.native),
    }
}

/// Opens the GPUs of several processes from the first of them. Another process works for the first here, and ends the program with it.
fn joined(wanted: parallax_cuda::CudaOptions, options: &Native) -> Result<Opened, String> {
    let place = processes::place(options.gpus)?;
    if place.rank == 0 {
        return here(parallax_cuda::open_processes(wanted, &place, lost).map_err(|e| e.to_string())?, options);
    }
    let parse = |case: &str| parallax_workloads::parse_case(case).map_err(|e| e.to_string());
    let code = match parallax_cuda::follow(wanted, &place, parse, lost) {
        Ok(()) => 0,
        Err(why) => {
            errln!("parallax: rank {}: {why}", place.rank);
            2
        }
    };
    // The commands of the program are those of the first rank alone.
    std::process::exit(code)
}

/// Ends this process after the loss of another one. Finished results are in the run file.
fn lost(why: &str) {
    errln!("parallax: {why}; `--resume` continues the run of rank 0");
    system::end_at_once(1)
}

/// Checks that no group of GPUs is requested, for targets other than `cuda`.
fn one_device(options: &Native) -> Result<(), String> {
    if options.processes {
        return Err("--processes: only for cuda, whose GPUs exchange data through NCCL".to_owned());
    }
    match options.gpus.unwrap_or(1) {
        1 => Ok(()),
        gpus => Err(format!("--gpus {gpus}: only for cuda, whose GPUs exchange data through NCCL")),
    }
}

fn cpu(options: &Device) -> Result<Opened, String> {
    one_device(&options.native)?;
    here(crate::cpu::open(), &options.native)
}

fn wgpu(options: &Device) -> Result<Opened, String> {
    one_device(&options.native)?;
    let wanted = wgpu_options(&options.native)?;
    let profiler = pollster::block_on(parallax_shaders::open(wanted)).map_err(|e| e.to_string())?;
    here(profiler, &options.native)
}

/// Returns the options of the requested device, or of the best one.
pub fn wgpu_options(options: &Native) -> Result<parallax_shaders::WgpuOptions, String> {
    let texts = wgsl_texts(options).map_err(|e| e.to_string())?;
    let adapter = match card(options)? {
        Some(card) => Some(card.wgpu.ok_or_else(|| unreachable_through("wgpu", &card))?),
        None => cards::usual_adapter(),
    };
    let checks = options.checked.unwrap_or_default();
    let host_memory = memory::available();
    Ok(parallax_shaders::WgpuOptions { adapter, checks, host_memory, texts, ..Default::default() })
}

/// Returns the requested GPU, or the one of this process's rank; `None` without a request and a rank.
fn card(options: &Native) -> Result<Option<Card>, String> {
    let Some(wanted) = &options.device else { return ranks::gpu() };
    cards::choose(&cards::cards(), wanted).map(|card| Some(card.clone())).map_err(|e| e.to_string())
}

fn unreachable_through(interface: &str, card: &Card) -> String {
    format!("{interface} does not reach {}, which is there for {}", card.name, card.targets().join(", "))
}

fn browser(options: &Device) -> Result<Opened, String> {
    if let Some(mhz) = options.native.lock_clocks {
        return Err(format!(
            "--lock-clocks: only for cuda and wgpu; `nvidia-smi -lgc {mhz}` fixes the clock for a page"
        ));
    }
    one_device(&options.native)?;
    // A request of an absent GPU is an error here too.
    card(&options.native)?;
    let kernels = wgsl_folder(&options.native).map_err(|e| e.to_string())?;
    let options = BrowserOptions { kernels, ..browser_options(options) };
    crate::browser::ready(&options).map_err(|e| e.to_string())?;
    Ok(Opened::Browser(options))
}

/// Opens the processor in a page, without any GPU.
fn wasm(options: &Device) -> Result<Opened, String> {
    one_device(&options.native)?;
    let target = PageTarget::Wasm;
    let options = BrowserOptions { target, software: false, doubt: None, ..browser_options(options) };
    crate::browser::ready(&options).map_err(|e| e.to_string())?;
    Ok(Opened::Browser(options))
}

/// Returns the options of a browser's start on this machine.
pub fn browser_options(options: &Device) -> BrowserOptions {
    let Device { native, browser: options } = options;
    // On a machine without a GPU, a browser needs a flag for its software adapter.
    let adapters = pollster::block_on(parallax_shaders::adapters());
    let card = card(native).ok().flatten();
    let steering = card.map(|card| cards::steering(&cards::cards(), &card)).unwrap_or_default();
    let software = adapters.iter().all(|adapter| adapter.kind == DeviceKind::Software);
    let named = BrowserOptions { browser: options.browser.clone(), ..BrowserOptions::default() };
    // Only Chromium's family takes flags that steer to a GPU.
    let steering_flags = if named.family() == Family::Chromium { steering.flags } else { Vec::new() };
    BrowserOptions {
        browser: options.browser.clone(),
        flags: steering_flags.into_iter().chain(options.browser_flag.iter().cloned()).collect(),
        environment: steering.environment,
        doubt: steering.doubt,
        card: cards::only(&adapters),
        software,
        reach: options.features.unwrap_or(if software { BrowserMode::Developer } else { BrowserMode::Stock }),
        target: PageTarget::Browser,
        threads: crate::cpu::threads(),
        kernels: None,
        page: options.page.clone(),
    }
}

/// Error of the selection of a target.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// Unknown name.
    #[error("unknown target `{0}`: {choices}", choices = choices(.0, names()))]
    Unknown(String),
    /// Unknown GPU.
    #[error("{0}")]
    Card(String),
    /// Wrong values of tunables.
    #[error(transparent)]
    Tuning(#[from] tuning::TuningMistake),
    /// Target that does not open on this machine.
    #[error("target {name}: {why}")]
    Unavailable {
        /// Name of the target.
        name: &'static str,
        /// Reason for the failure.
        why: String,
    },
}

fn names() -> impl Iterator<Item = &'static str> {
    TARGETS.iter().map(|target| target.name).chain(["all"])
}

/// Meaning of `--target` on this machine.
pub struct Choice {
    /// Open targets: the named one, all that open, or the best.
    pub reached: Vec<(&'static str, Opened)>,
    /// Targets that do not open, with reasons: of all, or of the better ones that are present.
    pub absent: Vec<(&'static str, String)>,
}

impl Choice {
    /// Opens a target, in each of its browsers.
    fn open(&mut self, target: &Target, options: &Device) {
        for opened in open_each(target, options) {
            match opened {
                Ok(open) => self.reached.push((target.name, open)),
                Err(why) => self.absent.push((target.name, why)),
            }
        }
    }

    /// Returns the reasons for which better targets that are present do not open.
    pub fn passed_over(&self) -> Option<String> {
        let reasons = self.absent.iter().map(|(name, why)| format!("{name} is there and does not open: {why}"));
        Some(reasons.collect::<Vec<_>>().join("; ")).filter(|reasons| !reasons.is_empty())
    }

    /// Returns the target of a command for a single one, after a line on a better target that does not open.
    pub fn one(mut self) -> (&'static str, Opened) {
        self.tell();
        self.reached.remove(0)
    }

    /// Prints a line on a better target that does not open.
    pub fn tell(&self) {
        if let (Some(reasons), [(name, _)]) = (self.passed_over(), &self.reached[..]) {
            errln!("{reasons}; measuring {name}");
        }
    }
}

/// Returns the targets of a `--target`: the named one, all that open, or the best.
///
/// Devices of this process get the tunables of `set`, as `NAME=VALUE`.
pub fn choose(wanted: Option<&str>, options: &Device, set: &[String]) -> Result<Choice, TargetError> {
    let mut choice = reached(wanted, options)?;
    for (_, opened) in &mut choice.reached {
        if let Opened::Here(profiler) = opened {
            tuning::apply(&mut **profiler, &options.native, set)?;
        }
    }
    Ok(choice)
}

/// Returns the reasons for which a command without `--target` finds no device of this process, by target.
pub fn no_device(options: &Device) -> Vec<String> {
    let devices = TARGETS.iter().filter(|target| !["browser", CPU, WASM].contains(&target.name));
    let why = |target: &Target| match (target.open)(options) {
        Ok(Opened::Here(profiler)) => match profiler.device() {
            emulated if emulated.kind.is_emulated() => Some(format!(
                "{}: {} is an emulation; --target {} measures it anyway",
                target.name, emulated.name, target.name
            )),
            _ => None,
        },
        Ok(Opened::Browser(_)) => None,
        Err(why) => Some(format!("{}: {why}", target.name)),
    };
    devices.filter_map(why).collect()
}

fn reached(wanted: Option<&str>, options: &Device) -> Result<Choice, TargetError> {
    // Groups of GPUs are a feature of one target.
    let of_group = options.native.gpus.is_some_and(|gpus| gpus > 1) || options.native.processes;
    let of_group = of_group.then_some("cuda");
    match wanted.or(of_group) {
        None => best(options),
        Some("all") => {
            let mut choice = Choice { reached: Vec::new(), absent: Vec::new() };
            TARGETS.iter().for_each(|target| choice.open(target, options));
            Ok(choice)
        }
        Some(name) => {
            let target =
                TARGETS.iter().find(|t| t.name == name).ok_or_else(|| TargetError::Unknown(name.to_owned()))?;
            let mut choice = Choice { reached: Vec::new(), absent: Vec::new() };
            choice.open(target, options);
            match (choice.reached.is_empty(), choice.absent.pop()) {
                (true, Some((name, why))) => Err(TargetError::Unavailable { name, why }),
                (_, last) => {
                    choice.absent.extend(last);
                    Ok(choice)
                }
            }
        }
    }
}

/// Opens a target: in each browser of the machine for `--browser all`, otherwise once.
fn open_each(target: &Target, options: &Device) -> Vec<Result<Opened, String>> {
    let every = options.browser.browser.as_deref() == Some(Path::new(crate::browser::ALL));
    if !every || ![PageTarget::Browser.name(), WASM].contains(&target.name) {
        return vec![(target.open)(options)];
    }
    let in_one = |path| {
        let mut options = options.clone();
        options.browser.browser = Some(path);
        (target.open)(&options)
    };
    match crate::browser::all() {
        Ok(paths) => paths.into_iter().map(in_one).collect(),
        Err(why) => vec![Err(why.to_string())],
    }
}

/// Returns the first target in order whose device is no emulation; the host processor always is none.
fn best(options: &Device) -> Result<Choice, TargetError> {
    // A requested GPU is opened through its best target. Its absence is an error.
    let card = card(&options.native).map_err(TargetError::Card)?;
    if let Some(card) = card {
        let way = TARGETS.iter().find(|target| card.targets().contains(&target.name)).expect("something reaches it");
        let open = (way.open)(options).map_err(|why| TargetError::Unavailable { name: way.name, why })?;
        return Ok(Choice { reached: vec![(way.name, open)], absent: Vec::new() });
    }
    let mut absent = Vec::new();
    for target in TARGETS.iter().filter(|t| !["browser", WASM].contains(&t.name)) {
        match (target.open)(options) {
            Ok(Opened::Here(p)) if p.device().kind != DeviceKind::Software => {
                return Ok(Choice { reached: vec![(target.name, Opened::Here(p))], absent });
            }
            Err(why) if is_there(target.name) => absent.push((target.name, why)),
            _ => {}
        }
    }
    Err(TargetError::Unavailable { name: CPU, why: "cannot be opened".to_owned() })
}

/// Returns whether a target's hardware is present, even if it does not open: NVIDIA's driver, or an adapter that is no
/// emulation.
fn is_there(target: &str) -> bool {
    match target {
        "cuda" => parallax_cuda::driver_is_here(),
        "wgpu" => pollster::block_on(parallax_shaders::adapters()).iter().any(|adapter| !adapter.kind.is_emulated()),
        _ => false,
    }
}
/// Returns the plan of one case on the device of a target.
///
/// # Errors
/// The reason of its skip.
pub fn only(case: &Case, profiler: &dyn Profiler, target: &str) -> anyhow::Result<Planned> {
    let spec = Spec { case: vec![case.to_string()], ..Spec::default() };
    let mut plan = plan(&spec, &profiler.device().caps)?;
    if let Some(skip) = plan.skips.first() {
        bail!("{case} cannot run on {} ({target}): {}", profiler.device().name, skip.reason);
    }
    Ok(plan.cases.remove(0))
}
