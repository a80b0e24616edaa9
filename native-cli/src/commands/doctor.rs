//! `doctor`: findings for every target on this machine, missing parts, and one remedy for each.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::bail;
use clap::Args;
use parallax_engine::measure::runner::Flow;
use parallax_schema::case::choices;
use parallax_schema::device::{DeviceInfo, DeviceKind};
use parallax_schema::record::Event;
use parallax_schema::session::Mode;
use parallax_schema::spec::Spec;

use crate::args::{DEVICES, Device};
use crate::browser::BrowserOptions;
use crate::console::{noteln, outln};
use crate::{browser, console};

#[cfg(target_os = "linux")]
use crate::diagnosis::NVIDIA_GL;
use crate::diagnosis::{Diagnosis, Facts, Grade, State, diagnose, is_well};
use crate::sensors;
use crate::table::wrap;
use crate::targets::{Opened, TARGETS, browser_options};

/// `doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// Required target; may be repeated [default: one on a GPU]
    ///
    /// Exit code 1 if it does not work. Without any, all targets are examined, and one must run on a GPU.
    #[arg(long, help_heading = DEVICES)]
    pub target: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub device: Device,
}

/// Examines the machine and prints the findings.
pub fn doctor(args: &Doctor) -> anyhow::Result<ExitCode> {
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    if let Some(unknown) = args.target.iter().find(|wanted| !names.contains(&wanted.as_str())) {
        bail!("unknown target `{unknown}`: {}", choices(unknown, names));
    }
    let wanted = |name: &str| args.target.is_empty() || args.target.iter().any(|target| target == name);
    let mut all = diagnose(&gather(args, wanted("browser")));
    all.retain(|diagnosis| wanted(diagnosis.target));
    let well = is_well(&all, &args.target);
    if args.json {
        console::raw(&serde_json::to_string(&all)?);
    } else {
        match (well, args.target.is_empty()) {
            (true, true) => outln!("Ready: `parallax run` measures here.\n"),
            (false, true) => outln!("No target runs on a GPU. `parallax run --target cpu` measures the processor.\n"),
            (true, false) => outln!("Ready: {}.\n", args.target.join(", ")),
            (false, false) => outln!("Not ready: {}.\n", args.target.join(", ")),
        }
        all.iter().for_each(show);
    }
    Ok(if well { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Columns from the start of a grade to the start of its text.
const INDENT: usize = 9;

fn show(diagnosis: &Diagnosis) {
    let state = match diagnosis.state {
        State::Works => "works",
        State::Emulated => "works, emulated",
        State::Missing => "does not run",
    };
    outln!("{}: {state}", diagnosis.target);
    for finding in &diagnosis.findings {
        let grade = match finding.grade {
            Grade::Ok => "ok",
            Grade::Note => "note",
            Grade::Missing => "missing",
        };
        let line = |text: &str, indent| outln!("{}", wrap(text, console::width(), indent));
        line(&format!("  {grade:<INDENT$}{}", finding.what), INDENT);
        if let Some(remedy) = &finding.remedy {
            line(&format!("  {:<INDENT$}→ {remedy}", ""), "→ ".chars().count());
        }
    }
    outln!("");
}

/// Gathers facts about the machine.
fn gather(args: &Doctor, start_browser: bool) -> Facts {
    // Before any work of this program is on the boards.
    let (boards, load) = (sensors::boards(), load());
    let options = browser_options(&args.device);
    let page = browser::page(&options).map(|page| page.to_string()).map_err(|e| reason(&e.to_string()));
    let executable = browser::executable(&options).map_err(|e| reason(&e.to_string()));
    let in_page = (start_browser && page.is_ok() && executable.is_ok()).then(|| in_page(&options));
    let cuda = parallax_cuda::open(parallax_cuda::CudaOptions::default());
    let opened_cuda = cuda.as_ref().ok();
    let adapters: Vec<(String, DeviceKind)> =
        pollster::block_on(parallax_shaders::adapters()).into_iter().map(|a| (a.name, a.kind)).collect();
    Facts {
        compiles: opened_cuda.map(|cuda| cuda.compiles().map_err(|e| e.to_string())),
        lacking: opened_cuda.map(|cuda| cuda.lacks()).unwrap_or_default(),
        libraries: parallax_cuda::found::libraries(opened_cuda.map(|cuda| cuda.compiler())),
        gl_missing: gl_missing(&adapters, cuda.is_ok()),
        cuda: cuda.map(|cuda| {
            let device = parallax_ir::device::Profiler::device(&cuda);
            format!("{}, {}, driver {}", device.name, device.api, device.driver)
        }),
        boards,
        counters_closed: counters_closed(),
        adapters,
        wgpu: opened("wgpu", &args.device),
        vulkan_loader: vulkan_loader(),
        vulkan_drivers: vulkan_drivers(),
        closed_nodes: closed_nodes(),
        page,
        browser_version: executable.as_deref().ok().and_then(browser::version),
        browser: executable,
        browser_start: options.start_in_words(),
        browser_family: options.family(),
        in_page,
        fonts: fonts(),
        cpu: opened("cpu", &args.device),
        governor: line_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        load,
    }
}

/// Returns an error without its last part, the remedy. Remedies have a separate place here.
fn reason(error: &str) -> String {
    error.rsplit_once("; ").map_or(error, |(reason, _)| reason).to_owned()
}

fn in_words(device: &DeviceInfo) -> String {
    format!("{} ({})", device.name, device.api)
}

/// Opens a target of this process as a run would.
fn opened(name: &str, options: &Device) -> Result<String, String> {
    let target = TARGETS.iter().find(|target| target.name == name).expect("one of the list");
    match (target.open)(options)? {
        Opened::Here(profiler) => Ok(in_words(profiler.device())),
        Opened::Browser(_) => Err("it runs in a browser".to_owned()),
    }
}

/// Time limit for the start of the page.
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the device that the page finds in the browser.
fn in_page(options: &BrowserOptions) -> Result<(String, DeviceKind), String> {
    noteln!("starting the browser …");
    let begun = Instant::now();
    let mut found = Err(format!("the page has not begun after {} s", PATIENCE.as_secs()));
    let ended = browser::run(options, &Spec::default(), Mode::Verify, &mut |event| {
        match event {
            Some(Event::Begin { run }) => found = Ok((in_words(run.device()), run.device().kind)),
            Some(Event::Unavailable { reason }) => found = Err(reason),
            _ if begun.elapsed() < PATIENCE => return Flow::Continue,
            _ => {}
        }
        Flow::Stop
    });
    match ended {
        Ok(()) => found,
        Err(error) => Err(error.to_string()),
    }
}

fn line_of(file: &str) -> Option<String> {
    Some(std::fs::read_to_string(file).ok()?.lines().next()?.trim().to_owned())
}

fn load() -> Option<(f64, usize)> {
    let load = line_of("/proc/loadavg")?.split(' ').next()?.parse().ok()?;
    Some((load, std::thread::available_parallelism().ok()?.get()))
}

/// Returns whether hardware counters are restricted to administrators. NVIDIA's driver reports it in a file, on Linux.
fn counters_closed() -> Option<bool> {
    let text = std::fs::read_to_string("/proc/driver/nvidia/params").ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix("RmProfilingAdminOnly:"))?;
    Some(value.trim() == "1" && !browser::is_root())
}

#[cfg(target_os = "linux")]
fn vulkan_loader() -> Option<bool> {
    // SAFETY: the loader may be loaded at any point.
    Some(unsafe { libloading::Library::new("libvulkan.so.1") }.is_ok())
}

#[cfg(not(target_os = "linux"))]
fn vulkan_loader() -> Option<bool> {
    None
}

/// Returns libraries of [`NVIDIA_GL`] that do not load, on a machine with an NVIDIA GPU that Vulkan does not show. WSL
/// is excluded, where Vulkan reaches the GPU by another path.
#[cfg(target_os = "linux")]
fn gl_missing(adapters: &[(String, DeviceKind)], cuda: bool) -> Option<Vec<&'static str>> {
    let is_there = |file: &str| Path::new(file).exists();
    let card = cuda || is_there("/proc/driver/nvidia/version") || is_there("/dev/nvidiactl");
    if !card || is_there("/dev/dxg") || adapters.iter().any(|(name, _)| name.contains("NVIDIA")) {
        return None;
    }
    // SAFETY: system libraries, which may be loaded at any point.
    Some(NVIDIA_GL.into_iter().filter(|name| unsafe { libloading::Library::new(*name) }.is_err()).collect())
}

#[cfg(not(target_os = "linux"))]
fn gl_missing(_: &[(String, DeviceKind)], _: bool) -> Option<Vec<&'static str>> {
    None
}

/// Returns the paths of files in a folder, and in its subfolders down to `depth`.
fn names(folder: &Path, depth: usize) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let entries = entries.filter_map(|entry| Some(entry.ok()?.path()));
    entries
        .flat_map(|path| match path.is_dir() {
            true if depth > 0 => names(&path, depth - 1),
            true => Vec::new(),
            false => vec![path],
        })
        .collect()
}

/// Returns the names of drivers in the folders where the Vulkan loader looks on Linux.
fn vulkan_drivers() -> Option<Vec<String>> {
    let told = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_ADD_DRIVER_FILES"];
    if !cfg!(target_os = "linux") || told.iter().any(|name| std::env::var_os(name).is_some()) {
        return None;
    }
    let folders = ["/etc/vulkan/icd.d", "/usr/share/vulkan/icd.d", "/usr/local/share/vulkan/icd.d"];
    let files = folders.iter().flat_map(|folder| names(Path::new(folder), 0));
    Some(files.map(|file| file.display().to_string()).collect())
}

/// Returns the GPU device files of Linux that this process may not open.
fn closed_nodes() -> Vec<PathBuf> {
    let is_node = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("renderD"));
    let open = |path: &PathBuf| std::fs::File::options().read(true).write(true).open(path).is_ok();
    names(Path::new("/dev/dri"), 0).into_iter().filter(|path| is_node(path) && !open(path)).collect()
}

/// Returns whether a font is in the usual folders of Linux.
fn fonts() -> Option<bool> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let folders = [
        PathBuf::from("/usr/share/fonts"),
        PathBuf::from("/usr/local/share/fonts"),
        home.join(".fonts"),
        home.join(".local/share/fonts"),
    ];
    let is_font =
        |path: &PathBuf| path.extension().is_some_and(|e| ["ttf", "otf", "ttc", "pfb"].iter().any(|k| e == *k));
    Some(folders.iter().any(|folder| names(folder, 4).iter().any(is_font)))
}
