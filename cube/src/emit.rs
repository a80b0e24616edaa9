//! From CubeCL's representation to a text, by its own compilers and without a device.

use cubecl_core::prelude::KernelDefinition;
use cubecl_core::{Compiler, WgpuCompilationOptions};
#[cfg(not(target_arch = "wasm32"))]
use cubecl_cpp::shared::{CompilationOptions, CppCompiler};
#[cfg(not(target_arch = "wasm32"))]
use cubecl_cpp::target::Cuda;
use cubecl_wgpu::WgslCompiler;
use parallax_core::suite::Dialect;

/// The text of a kernel.
///
/// # Errors
/// What the compiler said, or that it has no such dialect.
pub fn emit(definition: KernelDefinition, dialect: Dialect) -> Result<String, String> {
    match dialect {
        Dialect::Wgsl => {
            let options = WgpuCompilationOptions::default();
            let shader = WgslCompiler.compile(definition, &options).map_err(|error| error.to_string())?;
            Ok(shader.to_string())
        }
        #[cfg(not(target_arch = "wasm32"))]
        Dialect::Cuda => {
            let mut compiler = CppCompiler::<Cuda>::default();
            let options = CompilationOptions::default();
            Ok(compiler.compile(definition, &options).map_err(|error| error.to_string())?.source)
        }
        other => Err(format!("what makes {other:?} of CubeCL's kernels is not here")),
    }
}
