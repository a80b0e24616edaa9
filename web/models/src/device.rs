//! Device of a page: the GPU, or the processor with the host code compiled into this program.

use std::collections::BTreeMap;

use parallax_cpu::{Cpu, HostEnvironment};
use parallax_engine::plan::tuning_for;
use parallax_ir::device::Profiler;
use parallax_schema::units::Bytes;
use parallax_shaders::WgpuOptions;

/// Memory for cases. 32-bit addresses reach 4 GiB; the job and its arrays need room besides the cases.
const MEMORY: Bytes = Bytes(2 << 30);

/// Opens the device of a target, `browser` or `wasm`, with the tunables of its class. `kernels` replace kernel sources by file name.
///
/// # Errors
/// The reason of its absence, in words.
pub async fn open(
    target: &str,
    experimental: bool,
    kernels: BTreeMap<String, String>,
) -> Result<Box<dyn Profiler>, String> {
    let mut profiler: Box<dyn Profiler> = match target {
        "browser" => {
            let own = WgpuOptions { experimental, ..WgpuOptions::default() };
            let texts = own.texts.clone().with_lookup(move |file| Ok(kernels.get(file).cloned()));
            let opened = parallax_shaders::open(WgpuOptions { texts, ..own }).await;
            Box::new(opened.map_err(|why| why.to_string())?)
        }
        "wasm" => Box::new(Cpu::open(processor())),
        other => return Err(format!("there is no target `{}` in a page", other.escape_debug())),
    };
    let tuning = tuning_for(profiler.device(), None, &[]).map_err(|why| why.to_string())?;
    profiler.set_tuning(tuning);
    Ok(profiler)
}

/// Returns the description of the processor. A browser does not show its name.
fn processor() -> HostEnvironment {
    let features = vec![if cfg!(target_feature = "simd128") { "simd128" } else { "no simd128" }.to_owned()];
    HostEnvironment {
        name: "host processor".to_owned(),
        api: "wasm",
        memory: Some(MEMORY),
        features,
        yield_now: || Box::pin(parallax_shaders::yield_now()),
    }
}
