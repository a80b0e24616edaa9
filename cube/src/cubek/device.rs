//! The device that launchers plan for. Its properties are those of CubeCL's own runtimes, as far as the kernel sources here may use
//! them.
//!
//! WGSL has no matrix units and no subgroup operations for them, as in CubeCL's own runtime on plain WGSL. In CUDA, 16-bit floats
//! have matrix units (`wmma`). Those of f32 are left out, because they round to TF32, unlike f32 here. Copies by the copy engine
//! and clusters are left out, because their launches need more than buffers.

use cubecl_core::ir::features::{Features, Plane, TypeUsage};
use cubecl_core::ir::{
    AddressType, DeviceIdentity, DeviceProperties, ElemType, FloatKind, HardwareProperties, IntKind,
    MemoryDeviceProperties, UIntKind,
};
use cubecl_core::profile::TimingMethod;
use cubecl_cpp::cuda::arch::CudaArchitecture;
use cubecl_cpp::cuda::mma::CudaCmmaCompiler;
use cubecl_cpp::shared::register_wmma_features;
use parallax_schema::device::Dialect;

use super::Call;

pub fn properties(call: &Call<'_>) -> DeviceProperties {
    let size = |name: &str| call.size(&format!("DEVICE_{name}"));
    let word = |name: &str| size(name) as u32;
    let cuda = call.0.dialect == Dialect::Cuda;
    // CubeCL's runtimes use these values for devices that do not report them.
    let told_or = |told: u32, usual: u32| if told == 0 { usual } else { told };
    let hardware = HardwareProperties {
        load_width: 128,
        vector_register_count: None,
        plane_size_min: told_or(word("SUBGROUP_MIN"), 8),
        plane_size_max: told_or(word("SUBGROUP_MAX"), 128),
        // Kernels here bind a few at most, and plans check their number.
        max_bindings: 8,
        max_shared_memory_size: size("SHARED"),
        max_cube_count: (word("GRID_X"), word("GRID_Y"), word("GRID_Z")),
        max_units_per_cube: word("THREADS"),
        max_cube_dim: (word("THREADS_X"), word("THREADS_Y"), word("THREADS_Z")),
        num_streaming_multiprocessors: cuda.then(|| word("UNITS")).filter(|units| *units > 0),
        num_cpu_cores: None,
        last_level_cache_size: None,
        num_tensor_cores: None,
        min_tensor_cores_dim: None,
        // WGSL has no vectors wider than four elements.
        max_vector_size: if cuda { 16 } else { 4 },
        cube_mma_reserved_shared_memory: 0,
    };
    let memory = MemoryDeviceProperties::new(u64::MAX, 32);
    let identity = DeviceIdentity::default();
    let mut properties = DeviceProperties::new(Features::default(), memory, hardware, TimingMethod::System, identity);
    properties.register_address_type(AddressType::U32);
    let numbers = [
        ElemType::Index,
        ElemType::UInt(UIntKind::U32),
        ElemType::Int(IntKind::I32),
        ElemType::Float(FloatKind::F32),
        ElemType::Bool,
        call.elem(),
    ];
    numbers.into_iter().for_each(|number| properties.register_type_usage(number, TypeUsage::all()));
    if cuda {
        add_cuda(&mut properties, word("COMPUTE_CAPABILITY"), call.elem());
    }
    properties
}

/// Adds the properties that only CUDA devices have.
fn add_cuda(properties: &mut DeviceProperties, version: u32, elem: ElemType) {
    properties.features.plane.insert(Plane::Ops);
    properties.features.plane.insert(Plane::NonUniformControlFlow);
    properties.features.plane.insert(Plane::Sync);
    if elem == ElemType::Float(FloatKind::F32) {
        return;
    }
    let arch = CudaArchitecture { version, tensor_cores: CudaArchitecture::has_tensor_cores(version, "") };
    register_wmma_features(CudaCmmaCompiler::Cpp.supported_cmma_combinations(&arch), properties);
    properties.hardware.min_tensor_cores_dim = (!properties.features.matmul.cmma.is_empty()).then_some(8);
}
