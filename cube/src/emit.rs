//! Compilation of CubeCL's representation to a kernel source, by CubeCL's own compilers and without a device.

use cubecl_core::prelude::KernelDefinition;
use cubecl_core::{Compiler, WgpuCompilationOptions};

#[cfg(not(target_arch = "wasm32"))]
use cubecl_cpp::shared::{CompilationOptions, CppCompiler};
#[cfg(not(target_arch = "wasm32"))]
use cubecl_cpp::target::Cuda;
use cubecl_wgpu::WgslCompiler;
use parallax_schema::device::Dialect;

/// A kernel source and its workgroup memory.
pub struct Emitted {
    pub text: String,
    pub shared_bytes: usize,
}

/// Returns the source of a kernel.
///
/// # Errors
/// The compiler's error, or a missing dialect.
pub fn emit(definition: KernelDefinition, dialect: Dialect) -> Result<Emitted, String> {
    match dialect {
        Dialect::Wgsl => {
            let options = WgpuCompilationOptions::default();
            let shader = WgslCompiler.compile(definition, &options).map_err(|error| error.to_string())?;
            Ok(Emitted { text: shader.to_string(), shared_bytes: shader.shared_memory_size })
        }
        #[cfg(not(target_arch = "wasm32"))]
        Dialect::Cuda => {
            let mut compiler = CppCompiler::<Cuda>::default();
            let options = CompilationOptions::default();
            let kernel = compiler.compile(definition, &options).map_err(|error| error.to_string())?;
            Ok(Emitted { text: kernel.source, shared_bytes: kernel.shared_memory_size })
        }
        other => Err(format!("the compiler of CubeCL's kernels to {other:?} is not in this program")),
    }
}
