//! From CubeCL's representation to a text, by its own compilers and without a device.

use cubecl_core::prelude::KernelDefinition;
use cubecl_core::{Compiler, WgpuCompilationOptions};
#[cfg(not(target_arch = "wasm32"))]
use cubecl_cpp::shared::{CompilationOptions, CppCompiler};
#[cfg(not(target_arch = "wasm32"))]
use cubecl_cpp::target::Cuda;
use cubecl_wgpu::WgslCompiler;
use parallax_core::suite::Dialect;

/// A text, and the workgroup memory that it takes.
pub struct Emitted {
    pub text: String,
    pub shared_bytes: usize,
}

/// The text of a kernel.
///
/// # Errors
/// What the compiler said, or that it has no such dialect.
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
        other => Err(format!("what makes {other:?} of CubeCL's kernels is not here")),
    }
}
