//! Opens a device, or returns the reason for its absence.

use std::collections::BTreeMap;
use std::rc::Rc;

use parallax_ir::KernelSources;
use parallax_schema::case::DType;
use parallax_schema::device::identity::{Identity, pci_address};
use parallax_schema::device::{
    Caps, DeviceInfo, DeviceKind, Dialect, LOOP_TURNS, MatrixElement, MatrixScope, MatrixShape, UNNAMED,
};
use parallax_schema::units::Bytes;

use crate::checks::Checks;
use crate::gpu::Gpu;
use crate::loops;

#[cfg(target_arch = "wasm32")]
use crate::page;
use crate::profiler::Wgpu;
use crate::source::{Compiler, Form, WrittenLoops, embedded};
use crate::timing::{Timestamps, examine};

/// Options of an open device.
#[derive(Debug, Clone)]
pub struct WgpuOptions {
    /// Index of the adapter in [`adapters`]. `None` selects the first. A page has no choice, and ignores it.
    pub adapter: Option<usize>,
    /// Safety checks of the kernels. Browsers always insert all of them.
    pub checks: Checks,
    /// Whether a page requests the features behind browser flags.
    pub experimental: bool,
    /// Whether a device without matrix units emulates them in plain code, to test the kernels' results.
    pub imitate_matrices: bool,
    /// Host memory of an emulated device, if known.
    pub host_memory: Option<Bytes>,
    /// Kernel sources.
    pub texts: KernelSources,
}

impl Default for WgpuOptions {
    /// The first adapter, no checks, no experimental features, the embedded kernel sources.
    fn default() -> WgpuOptions {
        WgpuOptions {
            adapter: None,
            checks: Checks::NONE,
            experimental: false,
            imitate_matrices: false,
            host_memory: None,
            texts: embedded(),
        }
    }
}

impl WgpuOptions {
    /// Returns the form of the kernel sources of a device with these options.
    pub fn form(&self) -> Form {
        let compiler = if self.imitate_matrices { Compiler::Imitating } else { Compiler::HERE };
        #[cfg(target_arch = "wasm32")]
        let guarded = page::guards_loops();
        #[cfg(not(target_arch = "wasm32"))]
        let guarded = self.checks.loops;
        let loops = if guarded { WrittenLoops::Long } else { WrittenLoops::None };
        Form { compiler, loops }
    }
}

/// Reason for which there is no device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// The browser has no WebGPU, or none on this page.
    #[error("this browser offers no WebGPU here: use a current Chrome, Edge, Firefox or Safari, on https or localhost")]
    NoWebGpu,
    /// No adapter.
    #[error("no GPU adapter: {0}")]
    NoAdapter(String),
    /// The requested adapter does not exist.
    #[error("there is no adapter {wanted}; they are numbered from 0, and there {}", match .count { 1 => "is one".to_owned(), n => format!("are {n}") })]
    NoSuchAdapter {
        /// Index of the requested adapter.
        wanted: usize,
        /// Number of adapters.
        count: usize,
    },
    /// The adapter returned no device.
    #[error("the adapter {adapter} gave no device: {why}")]
    NoDevice {
        /// Name of the adapter.
        adapter: String,
        /// Message of the adapter.
        why: String,
    },
}

/// A device that the session can open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adapter {
    /// Name from the driver.
    pub name: String,
    /// Kind of the processor.
    pub kind: DeviceKind,
    /// Identity of the GPU.
    pub identity: Identity,
}

/// Returns every adapter, best first. Empty in a page, which cannot list them.
pub async fn adapters() -> Vec<Adapter> {
    let described = |info: wgpu::AdapterInfo| Adapter { kind: kind(&info), identity: identity(&info), name: info.name };
    found(&instance()).await.iter().map(|adapter| described(adapter.get_info())).collect()
}

/// Returns the identity of an adapter's GPU. Empty in a page.
fn identity(info: &wgpu::AdapterInfo) -> Identity {
    let model = [info.vendor, info.device];
    Identity { pci: pci_address(&info.device_pci_bus_id), uuid: None, model: (model != [0; 2]).then_some(model) }
}

/// Returns this thread's only instance. Drivers keep memory of every instance until the process ends. After a few dozen instances
/// they report no adapter any more.
fn instance() -> wgpu::Instance {
    thread_local! {
        static INSTANCE: wgpu::Instance = {
            let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
            descriptor.backends = wgpu::Backends::PRIMARY;
            // Validation layers would add to the measured times.
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
async fn choose(instance: &wgpu::Instance, options: &WgpuOptions) -> Result<wgpu::Adapter, Unavailable> {
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
async fn choose(instance: &wgpu::Instance, _options: &WgpuOptions) -> Result<wgpu::Adapter, Unavailable> {
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

/// Opens a device with every feature and limit that the kernels can use.
pub async fn open(options: WgpuOptions) -> Result<Wgpu, Unavailable> {
    let adapter = choose(&instance(), &options).await?;
    let info = adapter.get_info();
    let mut wanted = wgpu::Features::TIMESTAMP_QUERY | wgpu::Features::SHADER_F16 | wgpu::Features::SUBGROUP;
    let matrices = matrices(&adapter);
    if matrices.contains(&MatrixShape::F16_IN_F32) {
        wanted |= wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX;
    }
    // Element types of kernels on matrix units: 32-bit words, whose 16-bit halves become floats.
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
            // SAFETY: only kernels of this suite use the one experimental feature requested above. They meet the interface's
            // conditions: matrices inside their arrays, and whole subgroups in uniform control flow.
            experimental_features: unsafe { wgpu::ExperimentalFeatures::enabled() },
            ..Default::default()
        })
        .await
        .map_err(|e| no_device(e.to_string()))?;
    log::debug!("opened {} with {:?}", info.name, device.features());
    let gpu = Rc::new(Gpu::new(device, queue));
    gpu.prompt_if_rare().await.map_err(|e| no_device(e.to_string()))?;
    let timestamps = Timestamps::new(&gpu);
    let clock = examine(&gpu, timestamps.as_ref()).await.map_err(|e| no_device(e.to_string()))?;
    let mut device = describe(&info, &gpu.device, matrices);
    device.caps.memory = options.host_memory.filter(|_| device.kind.is_emulated());
    // Hardware has no such limit. The hardware below a browser is unknown.
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
    Ok(Wgpu::new(gpu, timestamps, clock, device, &WgpuOptions { checks, ..options }))
}

/// Returns the matrix shapes of subgroups, if the device supports them. Saturating sums are another operation, and excluded.
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
        ranks: 1,
        compute_units: None,
        in_a_browser: Compiler::HERE == Compiler::Browser,
        // Vulkan and WebGPU do not report other matrix units.
        matrix_units: matrices.iter().any(|shape| shape.factors == MatrixElement::F16),
        matrices,
        cuda: None,
        cube: false,
        no_cube: None,
        tuning: Default::default(),
    };
    DeviceInfo {
        name: if info.name.is_empty() { UNNAMED.to_owned() } else { info.name.clone() },
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

/// Returns the name of a PCI vendor of GPUs, or the number of another vendor.
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

/// Every limit under WebGPU's own name. `wgpu` serialises them, so that limits of new versions are included.
fn limits_by_name(limits: &wgpu::Limits) -> BTreeMap<String, u64> {
    let value = serde_json::to_value(limits).expect("limits are plain numbers");
    let entries = value.as_object().expect("a struct").iter();
    entries.filter_map(|(name, number)| Some((name.clone(), number.as_u64()?))).collect()
}
