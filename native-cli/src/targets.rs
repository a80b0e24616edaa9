//! The one list of targets.

use parallax_core::device::{DeviceKind, Profiler};

use crate::args::{Device, Native};
use crate::browser::BrowserOptions;
use crate::sensors::Instrumented;
use crate::texts::{cuda_texts, wgsl_texts};
use crate::tuning;

/// What can run cases.
pub struct Target {
    /// Name in flags and records.
    pub name: &'static str,
    /// Reach it, or say why not in one sentence.
    pub open: fn(&Device) -> Result<Opened, String>,
}

/// A target that was reached.
pub enum Opened {
    /// A device of this process.
    Here(Box<dyn Profiler>),
    /// A page in a browser, which plans and measures by itself.
    Browser(BrowserOptions),
}

/// Every target, best first. Adding one takes a crate that implements `Profiler`, and a line here.
pub const TARGETS: &[Target] = &[
    Target { name: "cuda", open: cuda },
    Target { name: "wgpu", open: wgpu },
    Target { name: "browser", open: browser },
    Target { name: "cpu", open: |options| here(crate::cpu::Cpu::open(), &options.native) },
];

/// Every device of this process is seen through its sensors, and has the values of its class for what variants leave open.
fn here(profiler: impl Profiler + 'static, options: &Native) -> Result<Opened, String> {
    let mut profiler = Instrumented::new(Box::new(profiler));
    tuning::apply(&mut profiler, options, &[]).map_err(|e| e.to_string())?;
    Ok(Opened::Here(Box::new(profiler)))
}

fn cuda(options: &Device) -> Result<Opened, String> {
    let texts = cuda_texts(&options.native).map_err(|e| e.to_string())?;
    let profiler = parallax_cuda::open(parallax_cuda::Options { texts, ..Default::default() });
    here(profiler.map_err(|e| e.to_string())?, &options.native)
}

fn wgpu(options: &Device) -> Result<Opened, String> {
    let options = &options.native;
    let texts = wgsl_texts(options).map_err(|e| e.to_string())?;
    let wanted = parallax_shaders::Options { adapter: options.adapter.clone(), checked: options.checked, texts };
    let profiler = pollster::block_on(parallax_shaders::open(wanted)).map_err(|e| e.to_string())?;
    here(profiler, options)
}

fn browser(options: &Device) -> Result<Opened, String> {
    let options = browser_options(options);
    crate::browser::ready(&options).map_err(|e| e.to_string())?;
    Ok(Opened::Browser(options))
}

/// What a browser would be started with on this machine.
pub fn browser_options(options: &Device) -> BrowserOptions {
    let options = &options.browser;
    // A browser on a machine without a GPU needs to be told that its software adapter is welcome.
    let adapters = pollster::block_on(parallax_shaders::adapters());
    BrowserOptions {
        browser: options.browser.clone(),
        flags: options.browser_flag.clone(),
        software: adapters.iter().all(|(_, kind)| *kind == DeviceKind::Software),
        rounded_clock: options.rounded_clock,
        page: options.page.clone(),
    }
}

/// A target that was asked for does not exist, or cannot be reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// No such name.
    #[error("unknown target `{0}`: choose one of {names}, all", names = names())]
    Unknown(String),
    /// Values for what variants leave open.
    #[error(transparent)]
    Tuning(#[from] tuning::TuningMistake),
    /// Not on this machine.
    #[error("target {name}: {why}")]
    Unavailable {
        /// Which.
        name: &'static str,
        /// Why.
        why: String,
    },
}

fn names() -> String {
    TARGETS.iter().map(|t| t.name).collect::<Vec<_>>().join(", ")
}

/// Which targets a `--target` means: the named one, all that can be reached, or the best.
///
/// With `all`, those that cannot be reached are handed to `absent` with the reason. Devices of this process get the values
/// of `set`, as `NAME=VALUE`, for what variants leave open.
pub fn choose(
    wanted: Option<&str>,
    options: &Device,
    set: &[String],
    absent: impl FnMut(&'static str, String),
) -> Result<Vec<(&'static str, Opened)>, TargetError> {
    let mut chosen = reached(wanted, options, absent)?;
    for (_, opened) in &mut chosen {
        if let Opened::Here(profiler) = opened {
            tuning::apply(&mut **profiler, &options.native, set)?;
        }
    }
    Ok(chosen)
}

fn reached(
    wanted: Option<&str>,
    options: &Device,
    mut absent: impl FnMut(&'static str, String),
) -> Result<Vec<(&'static str, Opened)>, TargetError> {
    match wanted {
        None => Ok(vec![best(options)?]),
        Some("all") => {
            let mut opened = Vec::new();
            for target in TARGETS {
                match (target.open)(options) {
                    Ok(open) => opened.push((target.name, open)),
                    Err(why) => absent(target.name, why),
                }
            }
            Ok(opened)
        }
        Some(name) => {
            let target =
                TARGETS.iter().find(|t| t.name == name).ok_or_else(|| TargetError::Unknown(name.to_owned()))?;
            let open = (target.open)(options).map_err(|why| TargetError::Unavailable { name: target.name, why })?;
            Ok(vec![(target.name, open)])
        }
    }
}

/// The first target in order whose device is no emulation; the host processor is always one.
fn best(options: &Device) -> Result<(&'static str, Opened), TargetError> {
    // An adapter asked for by name means wgpu, and its absence must not go unnoticed.
    if options.native.adapter.is_some() {
        let open = wgpu(options).map_err(|why| TargetError::Unavailable { name: "wgpu", why })?;
        return Ok(("wgpu", open));
    }
    let real = |target: &Target| match (target.open)(options) {
        Ok(Opened::Here(p)) if p.device().kind != DeviceKind::Software => Some((target.name, Opened::Here(p))),
        _ => None,
    };
    let found = TARGETS.iter().filter(|t| t.name != "browser").find_map(real);
    found.ok_or_else(|| TargetError::Unavailable { name: "cpu", why: "cannot be opened".to_owned() })
}
