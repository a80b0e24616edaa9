//! Reach a device, or say why there is none.

use std::collections::BTreeMap;
use std::rc::Rc;

use parallax_core::device::identity::{Identity, pci_address};
use parallax_core::device::{DeviceInfo, DeviceKind, LOOP_TURNS};
use parallax_core::suite::{Caps, DType, Dialect, KernelSources, MatrixElement, MatrixScope, MatrixShape};
use parallax_core::units::Bytes;

use crate::checks::Checks;
use crate::gpu::Gpu;
use crate::loops;
#[cfg(target_arch = "wasm32")]
use crate::page;
use crate::profiler::Wgpu;
use crate::text::{Compiler, embedded};
use crate::timing::{Timestamps, examine};

/// How to open a device.
#[derive(Debug, Clone)]
pub struct Options {
    /// Number of the adapter in [`adapters`]; the first when left out. A page has no choice, and ignores it.
    pub adapter: Option<usize>,
    /// What is put into kernels for safety's sake. Browsers put in everything, whatever stands here.
    pub checks: Checks,
    /// In a page: ask for what the browser offers behind flags.
    pub experimental: bool,
    /// On a device without matrix units: run what needs them all the same, in plain code, to see whether it computes the right thing.
    pub imitate_matrices: bool,
    /// Memory that the host has for an emulated device, where it is known.
    pub host_memory: Option<Bytes>,
    /// Where kernel texts come from.
    pub texts: KernelSources,
}

impl Default for Options {
    /// The first adapter, no checks, nothing experimental, the program's own texts.
    fn default() -> Options {
        Options {
            adapter: None,
            checks: Checks::NONE,
            experimental: false,
            imitate_matrices: false,
            host_memory: None,
            texts: embedded(),
        }
    }
}

/// Why there is no device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// The browser has no WebGPU, or not on this page.
    #[error("this browser offers no WebGPU here: use a current Chrome, Edge, Firefox or Safari, on https or localhost")]
    NoWebGpu,
    /// No adapter.
    #[error("no GPU adapter: {0}")]
    NoAdapter(String),
    /// The one asked for is not among those that exist.
    #[error("there is no adapter {wanted}; they are numbered from 0, and there {}", match .count { 1 => "is one".to_owned(), n => format!("are {n}") })]
    NoSuchAdapter {
        /// What was asked for.
        wanted: usize,
        /// Adapters that exist.
        count: usize,
    },
    /// The adapter gave no device.
    #[error("the adapter {adapter} gave no device: {why}")]
    NoDevice {
        /// Its name.
        adapter: String,
        /// What it said.
        why: String,
    },
}

/// A device that could be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adapter {
    /// Name given by the driver.
    pub name: String,
    /// What kind of processor.
    pub kind: DeviceKind,
    /// Which card.
    pub identity: Identity,
}

/// Every adapter, best first. Empty in a page, which cannot list them.
pub async fn adapters() -> Vec<Adapter> {
    let described = |info: wgpu::AdapterInfo| Adapter { kind: kind(&info), identity: identity(&info), name: info.name };
    found(&instance()).await.iter().map(|adapter| described(adapter.get_info())).collect()
}

/// Which card an adapter is. A page tells nothing of the kind.
fn identity(info: &wgpu::AdapterInfo) -> Identity {
    let model = [info.vendor, info.device];
    Identity { pci: pci_address(&info.device_pci_bus_id), uuid: None, model: (model != [0; 2]).then_some(model) }
}

/// The one instance of this thread. Drivers keep something of every instance until the process ends, and after a few dozen
/// show no adapter any more.
fn instance() -> wgpu::Instance {
    thread_local! {
        static INSTANCE: wgpu::Instance = {
            let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
            descriptor.backends = wgpu::Backends::PRIMARY;
            // Validation layers would be timed along with the work.
            descriptor.flags = wgpu::InstanceFlags::empty();
            wgpu::Instance::new(descriptor)
        };
    }
    INSTANCE.with(Clone::clone)
}

async fn found(instance: &wgpu::Instance) -> Vec<wgpu::Adapter> {
    let mut adapters = instance.enumerate_adapters(wgpu::Backends::PRIMARY).await;
    adapters.sort_by_key(|a| match kind(&a.get_info()) {
        DeviceKind::Discrete => 0,
        DeviceKind::Integrated => 1,
        DeviceKind::Virtual => 2,
        DeviceKind::Unknown => 3,
        DeviceKind::Software | DeviceKind::Cpu => 4,
    });
    adapters.iter().for_each(|adapter| log::debug!("adapter: {:?}", adapter.get_info()));
    adapters
}

fn kind(info: &wgpu::AdapterInfo) -> DeviceKind {
    match info.device_type {
        wgpu::DeviceType::DiscreteGpu => DeviceKind::Discrete,
        wgpu::DeviceType::IntegratedGpu => DeviceKind::Integrated,
        wgpu::DeviceType::VirtualGpu => DeviceKind::Virtual,
        wgpu::DeviceType::Cpu => DeviceKind::Software,
        wgpu::DeviceType::Other => DeviceKind::Unknown,
    }
}

#[cfg(not(target_arch = "wasm32"))]
async fn choose(instance: &wgpu::Instance, options: &Options) -> Result<wgpu::Adapter, Unavailable> {
    let mut present = found(instance).await;
    if present.is_empty() {
        return Err(Unavailable::NoAdapter(
            "no Vulkan, Metal or DX12 driver was found; install your GPU's driver (on Debian and Ubuntu, \
             mesa-vulkan-drivers brings open ones and a software adapter)"
                .to_owned(),
        ));
    }
    let (wanted, count) = (options.adapter.unwrap_or(0), present.len());
    match wanted < count {
        true => Ok(present.remove(wanted)),
        false => Err(Unavailable::NoSuchAdapter { wanted, count }),
    }
}

#[cfg(target_arch = "wasm32")]
async fn choose(instance: &wgpu::Instance, _options: &Options) -> Result<wgpu::Adapter, Unavailable> {
    let gpu = js_sys::Reflect::get(&js_sys::global(), &"navigator".into())
        .and_then(|navigator| js_sys::Reflect::get(&navigator, &"gpu".into()));
    if !gpu.is_ok_and(|gpu| gpu.is_object()) {
        return Err(Unavailable::NoWebGpu);
    }
    let wanted =
        wgpu::RequestAdapterOptions { power_preference: wgpu::PowerPreference::HighPerformance, ..Default::default() };
    instance.request_adapter(&wanted).await.map_err(|_| {
        Unavailable::NoAdapter(
            "the browser has WebGPU but found no usable GPU; its page chrome://gpu (or about:support) says why, and \
             updating the graphics driver often helps"
                .to_owned(),
        )
    })
}

/// Open a device with every feature and limit that the kernels can use.
pub async fn open(options: Options) -> Result<Wgpu, Unavailable> {
    let adapter = choose(&instance(), &options).await?;
    let info = adapter.get_info();
    let mut wanted = wgpu::Features::TIMESTAMP_QUERY | wgpu::Features::SHADER_F16 | wgpu::Features::SUBGROUP;
    let matrices = matrices(&adapter);
    if matrices.contains(&MatrixShape::F16_IN_F32) {
        wanted |= wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX;
    }
    // What kernels on matrix units are made of: words, halves of which become floats.
    wanted |= wgpu::Features::SHADER_I16;
    #[cfg(target_arch = "wasm32")]
    if options.experimental {
        page::ask();
    }
    let no_device = |why: String| Unavailable::NoDevice { adapter: info.name.clone(), why };
    let (device, queue) = adapter
        .request_device(&wgpu::DeviceDescriptor {
            label: Some("parallax"),
            required_features: adapter.features() & wanted,
            required_limits: adapter.limits(),
            // SAFETY: the one experimental feature asked for above is used by kernels of ours, which meet the
            // interface's conditions: matrices inside their arrays, and whole subgroups in uniform control flow.
            experimental_features: unsafe { wgpu::ExperimentalFeatures::enabled() },
            ..Default::default()
        })
        .await
        .map_err(|e| no_device(e.to_string()))?;
    log::debug!("opened {} with {:?}", info.name, device.features());
    let gpu = Rc::new(Gpu::new(device, queue));
    let timestamps = Timestamps::new(&gpu);
    let clock = examine(&gpu, timestamps.as_ref()).await.map_err(|e| no_device(e.to_string()))?;
    let mut device = describe(&info, &gpu.device, matrices);
    device.caps.memory = options.host_memory.filter(|_| device.kind.is_emulated());
    // Hardware has no such limit, and what a browser runs on is not known.
    if matches!(device.kind, DeviceKind::Software | DeviceKind::Cpu | DeviceKind::Unknown) {
        let turns = loops::limit(&gpu).await.map_err(|e| no_device(e.to_string()))?;
        device.limits.extend(turns.map(|turns| (LOOP_TURNS.to_owned(), turns.into())));
    }
    if options.imitate_matrices {
        device.caps.matrices = vec![MatrixShape::F16_IN_F32, MatrixShape::I8_IN_I32];
        device.caps.subgroup = Some((32, 32));
    }
    #[cfg(target_arch = "wasm32")]
    let device = page::described(&gpu.device, options.experimental, device);
    let checks = if cfg!(target_arch = "wasm32") { Checks::ALL } else { options.checks };
    Ok(Wgpu::new(gpu, timestamps, clock, device, &Options { checks, ..options }))
}

/// The matrices that subgroups multiply, where a program may ask for such; sums that saturate are another operation.
fn matrices(adapter: &wgpu::Adapter) -> Vec<MatrixShape> {
    let element = |scalar| match scalar {
        wgpu::CooperativeScalarType::F32 => MatrixElement::F32,
        wgpu::CooperativeScalarType::F16 => MatrixElement::F16,
        wgpu::CooperativeScalarType::I32 => MatrixElement::I32,
        wgpu::CooperativeScalarType::U32 => MatrixElement::U32,
    };
    let properties = adapter.cooperative_matrix_properties();
    let shape = |p: &wgpu::CooperativeMatrixProperties| MatrixShape {
        factors: element(p.ab_type),
        sums: element(p.cr_type),
        m: p.m_size,
        n: p.n_size,
        k: p.k_size,
        scope: MatrixScope::Subgroup,
    };
    properties.iter().filter(|p| !p.saturating_accumulation).map(shape).collect()
}

fn describe(info: &wgpu::AdapterInfo, device: &wgpu::Device, matrices: Vec<MatrixShape>) -> DeviceInfo {
    let (limits, features) = (device.limits(), device.features());
    let granted = features.contains(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX | wgpu::Features::SHADER_I16);
    let matrices = if granted { matrices } else { Vec::new() };
    let mut dtypes = vec![DType::F32];
    if features.contains(wgpu::Features::SHADER_F16) {
        dtypes.push(DType::F16);
    }
    let subgroups = features.contains(wgpu::Features::SUBGROUP);
    let caps = Caps {
        dialect: Dialect::Wgsl,
        dtypes,
        subgroup: subgroups.then_some((info.subgroup_min_size, info.subgroup_max_size)),
        shared_bytes: limits.max_compute_workgroup_storage_size,
        max_invocations: limits.max_compute_invocations_per_workgroup,
        max_workgroup: [
            limits.max_compute_workgroup_size_x,
            limits.max_compute_workgroup_size_y,
            limits.max_compute_workgroup_size_z,
        ],
        max_grid: [limits.max_compute_workgroups_per_dimension; 3],
        max_binding: Bytes(limits.max_storage_buffer_binding_size.min(limits.max_buffer_size)),
        max_storage_buffers: Some(limits.max_storage_buffers_per_shader_stage),
        memory: None,
        compute_capability: None,
        units: None,
        in_a_browser: Compiler::HERE == Compiler::Browser,
        // What else a driver may have, Vulkan and WebGPU do not tell.
        matrix_units: matrices.iter().any(|shape| shape.factors == MatrixElement::F16),
        matrices,
        cuda: None,
        cube: false,
        no_cube: None,
        tuning: Default::default(),
    };
    DeviceInfo {
        name: if info.name.is_empty() { "unnamed GPU".to_owned() } else { info.name.clone() },
        vendor: vendor(info.vendor),
        kind: kind(info),
        api: match info.backend {
            wgpu::Backend::BrowserWebGpu => "WebGPU".to_owned(),
            other => format!("{other:?}"),
        },
        driver: format!("{} {}", info.driver, info.driver_info).trim().to_owned(),
        identity: identity(info),
        caps,
        ranks: 1,
        limits: limits_by_name(&limits),
        features: features.iter_names().map(|(name, _)| name.to_lowercase().replace('_', "-")).collect(),
    }
}

/// Names of the PCI vendors that make GPUs; others are given as their number.
fn vendor(id: u32) -> String {
    match id {
        0 => String::new(),
        0x10DE => "NVIDIA".to_owned(),
        0x1002 => "AMD".to_owned(),
        0x8086 => "Intel".to_owned(),
        0x106B => "Apple".to_owned(),
        0x13B5 => "ARM".to_owned(),
        0x5143 => "Qualcomm".to_owned(),
        0x1_0005 => "Mesa".to_owned(),
        other => format!("{other:#06x}"),
    }
}

/// Every limit under WebGPU's own name. `wgpu` serialises them, so none is forgotten when a version adds one.
fn limits_by_name(limits: &wgpu::Limits) -> BTreeMap<String, u64> {
    let value = serde_json::to_value(limits).expect("limits are plain numbers");
    let entries = value.as_object().expect("a struct").iter();
    entries.filter_map(|(name, number)| Some((name.clone(), number.as_u64()?))).collect()
}
