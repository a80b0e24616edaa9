//! Kernels from outside the program, on buffers of the caller.
//!
//! Such a kernel is no case of a workload. It is compiled unchanged and with all checks. Guard bytes lie behind each buffer, outside
//! its binding: a store beyond a binding shows there.

use std::rc::Rc;

use parallax_ir::device::{BackendError, Ledger, Prepared, Profiler, Rotation};
use parallax_schema::device::Launching;

use crate::buffers::Buffers;
use crate::compile::ProgramSource;
use crate::launch::{BoundStage, Launched};
use crate::prepared::WgpuCase;
use crate::profiler::Wgpu;
use crate::source::KernelSource;

/// Number of guard bytes behind a buffer.
pub(crate) const GUARD_BYTES: u64 = 256;
/// Value of a guard byte.
pub(crate) const GUARD: u8 = 0xA5;

/// Kind of a binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BindingKind {
    /// `var<uniform>`.
    Uniform,
    /// `var<storage, read>`.
    Read,
    /// `var<storage, read_write>`.
    ReadWrite,
}

/// Binding of a kernel, with its buffer's contents.
#[derive(Debug, Clone, Copy)]
pub struct Binding<'a> {
    /// Bind group.
    pub group: u32,
    /// Number in the group.
    pub binding: u32,
    /// Kind.
    pub kind: BindingKind,
    /// Contents before each execution. Their length is the binding's, and a multiple of four.
    pub contents: &'a [u8],
}

/// Kernel from outside the program.
#[derive(Debug, Clone)]
pub struct ForeignKernel<'a> {
    /// Name in messages.
    pub name: &'a str,
    /// WGSL.
    pub wgsl: &'a str,
    /// Entry point.
    pub entry: &'a str,
    /// Threads in one workgroup.
    pub workgroup: [u32; 3],
    /// Workgroup memory in bytes.
    pub shared_bytes: u32,
    /// Workgroups to launch.
    pub grid: [u32; 3],
    /// Bindings.
    pub bindings: Vec<Binding<'a>>,
    /// Values of pipeline-overridable constants, by name or number.
    pub constants: &'a [(String, f64)],
}

impl Wgpu {
    /// Prepares a kernel from outside the program. Its buffers have the positions of the bindings in the list.
    ///
    /// # Errors
    /// [`BackendError::Compile`] with the compiler's message; a failed allocation; a launch beyond the device's limits.
    pub async fn foreign(&self, kernel: &ForeignKernel<'_>) -> Result<Box<dyn Prepared>, BackendError> {
        Ok(Box::new(self.foreign_case(kernel).await?))
    }

    async fn foreign_case(&self, kernel: &ForeignKernel<'_>) -> Result<WgpuCase, BackendError> {
        let gpu = &self.gpu;
        gpu.incident()?;
        let most = self.device().caps.max_grid;
        if let Some((groups, most)) = kernel.grid.into_iter().zip(most).find(|(groups, most)| groups > most) {
            let why = format!("{groups} workgroups in one dimension of {}, the limit is {most}", kernel.name);
            return Err(BackendError::Unsupported(why));
        }
        let layouts = gpu.make(|| self.layouts(kernel)).await?;
        let layout = gpu.make(|| {
            let bind_group_layouts: Vec<_> = layouts.iter().map(Some).collect();
            gpu.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                label: Some(kernel.name),
                bind_group_layouts: &bind_group_layouts,
                immediate_size: 0,
            })
        });
        let text = KernelSource::foreign(kernel.name, kernel.wgsl);
        let source = ProgramSource::foreign(text, kernel.entry, layout.await?, kernel.constants);
        let (pipelines, compiled) = source.compile(gpu, &self.ahead).await?;
        let ledger = Rc::<Ledger>::default();
        let buffers = gpu.make(|| Buffers::of_bindings(gpu, &ledger, &kernel.bindings)).await?;
        let bind = || {
            let pipeline = pipelines.into_iter().flatten().next()?;
            let groups = self.groups(kernel, &layouts, &buffers).ok()?;
            Some(BoundStage::Launch(Launched::foreign(kernel, pipeline, groups)))
        };
        let missing = || BackendError::Device(format!("{} was not bound", kernel.name));
        let step = gpu.make(bind).await?.ok_or_else(missing)?;
        buffers.fill_bindings(gpu, &kernel.bindings).await?;
        Ok(WgpuCase {
            gpu: gpu.clone(),
            timestamps: self.timestamps.clone(),
            compiled,
            source,
            ledger,
            buffers,
            steps: vec![step],
            poison: self.poison.clone(),
            fills: Vec::new(),
            rotation: Rotation::new(1),
            launching: Launching::OnePass,
            origin: None,
        })
    }

    /// Returns the layouts of a kernel's bind groups, from 0 to the last one. A group without bindings has an empty layout.
    fn layouts(&self, kernel: &ForeignKernel<'_>) -> Vec<wgpu::BindGroupLayout> {
        let last = kernel.bindings.iter().map(|binding| binding.group).max().unwrap_or(0);
        let entry = |binding: &Binding<'_>| wgpu::BindGroupLayoutEntry {
            binding: binding.binding,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer {
                ty: match binding.kind {
                    BindingKind::Uniform => wgpu::BufferBindingType::Uniform,
                    kind => wgpu::BufferBindingType::Storage { read_only: kind == BindingKind::Read },
                },
                has_dynamic_offset: false,
                min_binding_size: None,
            },
            count: None,
        };
        let layout = |group: u32| {
            let own = kernel.bindings.iter().filter(|binding| binding.group == group);
            let entries: Vec<_> = own.map(entry).collect();
            let descriptor = wgpu::BindGroupLayoutDescriptor { label: Some(kernel.name), entries: &entries };
            self.gpu.device.create_bind_group_layout(&descriptor)
        };
        (0..=last).map(layout).collect()
    }

    /// Returns the bind groups of a kernel. A binding ends before the guard bytes of its buffer.
    fn groups(
        &self,
        kernel: &ForeignKernel<'_>,
        layouts: &[wgpu::BindGroupLayout],
        buffers: &Buffers,
    ) -> Result<Vec<wgpu::BindGroup>, BackendError> {
        let mut groups = Vec::new();
        for (group, layout) in (0..).zip(layouts) {
            let mut entries = Vec::new();
            for (index, binding) in kernel.bindings.iter().enumerate().filter(|(_, binding)| binding.group == group) {
                let size = wgpu::BufferSize::new(binding.contents.len() as u64);
                let resource = wgpu::BufferBinding { buffer: buffers.get(0, index)?, offset: 0, size };
                entries.push(wgpu::BindGroupEntry {
                    binding: binding.binding,
                    resource: wgpu::BindingResource::Buffer(resource),
                });
            }
            groups.push(self.gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: Some(kernel.name),
                layout,
                entries: &entries,
            }));
        }
        Ok(groups)
    }
}

/// Reads the contents of a binding after the last execution; `None` if a guard byte behind them changed.
///
/// # Errors
/// Errors of the device.
pub async fn contents(prepared: &mut dyn Prepared, index: usize, bytes: u64) -> Result<Option<Vec<u8>>, BackendError> {
    let mut found = prepared.read_back(index, 0..bytes + GUARD_BYTES).await?;
    let guards = found.split_off(bytes as usize);
    Ok(guards.iter().all(|byte| *byte == GUARD).then_some(found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{WgpuOptions, open};
    use parallax_ir::device::Batch;
    use pollster::block_on;

    /// A kernel with bindings 0.0 (read) and 1.1 (read_write) of four words each.
    fn kernel<'a>(wgsl: &'a str, x: &'a [u8], y: &'a [u8], grid: u32) -> ForeignKernel<'a> {
        ForeignKernel {
            name: "A",
            wgsl,
            entry: "main",
            workgroup: [4, 1, 1],
            shared_bytes: 0,
            grid: [grid, 1, 1],
            bindings: vec![
                Binding { group: 0, binding: 0, kind: BindingKind::Read, contents: x },
                Binding { group: 1, binding: 1, kind: BindingKind::ReadWrite, contents: y },
            ],
            constants: &[],
        }
    }

    fn text(body: &str) -> String {
        format!(
            "@group(0) @binding(0) var<storage, read> x: array<u32>;\n\
             @group(1) @binding(1) var<storage, read_write> y: array<u32>;\n\
             @compute @workgroup_size(4) fn main(@builtin(global_invocation_id) at: vec3<u32>) {{ {body} }}"
        )
    }

    fn words(words: [u32; 4]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn a_text_of_anywhere_computes_on_the_callers_buffers() {
        let wgpu = block_on(open(WgpuOptions::default())).expect("an adapter (llvmpipe will do)");
        let (x, y) = (words([1, 2, 3, 4]), words([10, 20, 30, 40]));
        for (body, grid, want) in [
            ("y[at.x] += x[at.x];", 1, [11, 22, 33, 44]),
            // The last index in bounds gets all stores beyond it, or none does.
            ("if at.x < 3u { y[at.x] = 7u; } x_ignored(at.x);", 1, [7, 7, 7, 40]),
        ] {
            let wgsl = text(body) + "fn x_ignored(i: u32) { let unused = x[i + 4000u]; }";
            let mut prepared = block_on(wgpu.foreign(&kernel(&wgsl, &x, &y, grid))).expect("it compiles");
            for _ in 0..2 {
                block_on(prepared.measure(Batch::new(1))).expect("it runs");
                let found = block_on(contents(&mut *prepared, 1, 16)).expect("read back").expect("guards are whole");
                assert_eq!(found, words(want), "{body}: each batch begins with the first contents");
            }
            assert_eq!(prepared.launches()[0].entry, "main");
            assert!(prepared.compiled().options.iter().any(|option| option == "loop bounds: on"));
        }
    }

    #[test]
    fn stores_beyond_a_binding_leave_its_guards_alone() {
        let wgpu = block_on(open(WgpuOptions::default())).expect("an adapter (llvmpipe will do)");
        let (x, y) = (words([1, 2, 3, 4]), words([0; 4]));
        let wgsl = text("y[at.x + 4u] = 1u + x[at.x * 1000000u];");
        let mut prepared = block_on(wgpu.foreign(&kernel(&wgsl, &x, &y, 8))).expect("it compiles");
        block_on(prepared.measure(Batch::new(1))).expect("it runs");
        assert!(block_on(contents(&mut *prepared, 1, 16)).expect("read back").is_some());
    }

    #[test]
    fn a_text_that_cannot_run_is_an_error() {
        let wgpu = block_on(open(WgpuOptions::default())).expect("an adapter (llvmpipe will do)");
        let (x, y) = (words([1; 4]), words([2; 4]));
        for (wgsl, grid, said) in [
            (text("y[0] = "), 1, "A does not compile"),
            (text("y[0] = x[0];").replace("main", "other"), 1, "A does not compile"),
            (text("y[0] = x[0];").replace("size(4)", "size(1000000)"), 1, "A does not compile"),
            (text("y[0] = x[0];"), u32::MAX, "workgroups in one dimension of A"),
        ] {
            let error = block_on(wgpu.foreign(&kernel(&wgsl, &x, &y, grid))).err().expect("an error").to_string();
            assert!(error.contains(said), "{error}");
            assert_eq!(wgpu.gpu().incident(), Ok(()), "nothing is left over for the next text");
        }
    }

    #[test]
    fn a_wait_beyond_the_limit_loses_the_device() {
        let wgpu = block_on(open(WgpuOptions::default())).expect("an adapter (llvmpipe will do)");
        wgpu.limit_waits(std::time::Duration::from_millis(1));
        let (x, y) = (words([1; 4]), words([2; 4]));
        // llvmpipe ends a loop after 65 535 iterations, about half a millisecond. Hence 256 workgroups.
        let spin =
            "for (var i = 0u; i < 2000u; i++) { for (var j = 0u; j < 2000u; j++) { y[at.x & 3u] += x[j & 3u]; } }";
        let mut prepared = match block_on(wgpu.foreign(&kernel(&text(spin), &x, &y, 256))) {
            Ok(prepared) => prepared,
            // Even the upload may take longer.
            Err(error) => return assert!(matches!(error, BackendError::Lost(_)), "{error}"),
        };
        let measured = block_on(prepared.measure(Batch::new(1)));
        assert!(matches!(&measured, Err(BackendError::Lost(why)) if why.contains("0.001 s")), "{measured:?}");
    }
}
