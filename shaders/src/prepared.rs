//! A case on a wgpu device.

use std::ops::Range;
use std::rc::Rc;

use async_trait::async_trait;
use parallax_core::case::Case;
use parallax_core::input::Inputs;
use parallax_core::profiler::{
    BackendError, Clock, ClockInfo, Compiled, DeviceInfo, MemoryStats, Prepared, Profiler, Sample, Span, Trace, Track,
};
use parallax_core::units::Nanos;
use parallax_core::workload::{Access, Program, Role, Stage, spread};
use web_time::Instant;

use crate::gpu::{Gpu, Held, backend_error};
use crate::text::{Text, assemble};
use crate::timing::{STAMPS, Timestamps};
use crate::wait::breathe;

/// Bytes of input made and uploaded at a time, which bounds host memory and the time without a breath.
const UPLOAD: u64 = 4 << 20;

/// A wgpu device as a profiler.
pub struct Wgpu {
    gpu: Rc<Gpu>,
    timestamps: Option<Rc<Timestamps>>,
    clock: ClockInfo,
    device: DeviceInfo,
    checked: bool,
    poison: Poison,
}

impl Wgpu {
    pub(crate) fn new(
        gpu: Rc<Gpu>,
        timestamps: Option<Timestamps>,
        clock: ClockInfo,
        device: DeviceInfo,
        checked: bool,
    ) -> Wgpu {
        // A clock that was found wanting is not used for anything.
        let timestamps = timestamps.filter(|_| clock.clock == Clock::GpuTimestamps).map(Rc::new);
        let poison = Poison::new(&gpu);
        Wgpu { gpu, timestamps, clock, device, checked, poison }
    }

    /// Compile every stage; the errors of text and pipelines are caught here and nowhere else.
    async fn compile(&self, text: &Text, program: &Program) -> Result<Vec<wgpu::ComputePipeline>, BackendError> {
        let device = &self.gpu.device;
        let scope = device.push_error_scope(wgpu::ErrorFilter::Validation);
        let descriptor = wgpu::ShaderModuleDescriptor {
            label: Some(&text.file),
            source: wgpu::ShaderSource::Wgsl(text.wgsl.as_str().into()),
        };
        let module = if self.checked {
            device.create_shader_module(descriptor)
        } else {
            // SAFETY: the kernels are ours; every variant is run with checks on against the reference by the tests,
            // at shapes chosen to step over every edge.
            unsafe { device.create_shader_module_trusted(descriptor, wgpu::ShaderRuntimeChecks::unchecked()) }
        };
        let pipelines = program.stages.iter().map(|stage| {
            device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: Some(stage.entry),
                layout: None,
                module: &module,
                entry_point: Some(stage.entry),
                compilation_options: wgpu::PipelineCompilationOptions {
                    zero_initialize_workgroup_memory: self.checked,
                    ..Default::default()
                },
                cache: None,
            })
        });
        let pipelines: Vec<_> = pipelines.collect();
        match scope.pop().await {
            None => Ok(pipelines),
            Some(error) => Err(BackendError::Compile { file: text.file.clone(), log: error.to_string() }),
        }
    }

    async fn upload(&self, inputs: &Inputs, index: usize, bytes: u64, buffer: &wgpu::Buffer, size: u64) {
        let mut chunk = vec![0; UPLOAD.min(bytes) as usize];
        let mut offset = 0;
        while offset < bytes {
            let part = &mut chunk[..UPLOAD.min(bytes - offset) as usize];
            inputs.write(index, offset / size, part);
            // Writes come in multiples of four bytes; the buffer is rounded up, so the padding falls into it.
            let mut padded = part.to_vec();
            padded.resize(part.len().next_multiple_of(4), 0);
            self.gpu.queue.write_buffer(buffer, offset, &padded);
            offset += part.len() as u64;
            // Hands the staged copy over, so that a large input is not held twice.
            self.gpu.queue.submit([]);
            breathe().await;
        }
    }
}

#[async_trait(?Send)]
impl Profiler for Wgpu {
    fn device(&self) -> &DeviceInfo {
        &self.device
    }

    fn clock(&self) -> &ClockInfo {
        &self.clock
    }

    fn now(&self) -> Nanos {
        self.gpu.now()
    }

    async fn breathe(&self) {
        breathe().await;
    }

    async fn prepare(&mut self, case: &Case, inputs: &Inputs) -> Result<Box<dyn Prepared>, BackendError> {
        self.gpu.incident()?;
        self.gpu.reset_peak();
        let missing = || BackendError::Unsupported(format!("{case} has no WGSL kernel"));
        let program = case.program(&self.device.caps).ok_or_else(missing)?;
        let text = assemble(case, &program).ok_or_else(missing)?;
        let began = Instant::now();
        let pipelines = self.compile(&text, &program).await?;
        let compiled = Compiled {
            time: Nanos(began.elapsed().as_nanos() as f64),
            cached: false,
            text_hash: text.hash(),
            options: vec![
                format!("bounds checks: {}", if self.checked { "on" } else { "off" }),
                format!("zero-initialised workgroup memory: {}", if self.checked { "on" } else { "off" }),
            ],
        };

        let memory_scope = self.gpu.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let validation_scope = self.gpu.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let dtype = case.problem.dtype;
        let mut buffers = Vec::new();
        let mut written = Vec::new();
        for (index, spec) in case.problem.buffers().iter().enumerate() {
            let used = program.stages.iter().flat_map(|s| &s.uses).any(|(name, _)| *name == spec.name);
            if !used {
                buffers.push(None);
                continue;
            }
            use wgpu::BufferUsages as U;
            let held = self.gpu.buffer(spec.name, spec.bytes(dtype).0, U::STORAGE | U::COPY_SRC | U::COPY_DST);
            match spec.role {
                Role::Input(_) => {
                    let size = spec.elem.storage(dtype).bytes();
                    self.upload(inputs, index, spec.bytes(dtype).0, &held.buffer, size).await;
                }
                Role::Output { .. } | Role::Scratch => {
                    written.push(self.poison.dispatch(&self.gpu, &held.buffer));
                }
            }
            buffers.push(Some(held));
        }
        let stages = pipelines
            .into_iter()
            .zip(&program.stages)
            .map(|(pipeline, stage)| Launch::new(&self.gpu, case, stage, pipeline, &buffers))
            .collect();
        let validation = validation_scope.pop().await;
        if let Some(error) = memory_scope.pop().await.or(validation) {
            return Err(backend_error(error));
        }
        self.gpu.incident()?;
        Ok(Box::new(WgpuCase {
            gpu: self.gpu.clone(),
            timestamps: self.timestamps.clone(),
            compiled,
            buffers,
            stages,
            poison: written,
            traced: 0,
        }))
    }
}

/// A pipeline with its bindings and its grid.
struct Launch {
    name: &'static str,
    pipeline: wgpu::ComputePipeline,
    group: wgpu::BindGroup,
    grid: [u32; 3],
}

impl Launch {
    fn new(gpu: &Gpu, case: &Case, stage: &Stage, pipeline: wgpu::ComputePipeline, buffers: &[Option<Held>]) -> Launch {
        let specs = case.problem.buffers();
        let entries: Vec<_> = stage
            .uses
            .iter()
            .map(|(name, _): &(_, Access)| {
                let index = specs.iter().position(|b| b.name == *name).expect("stages use buffers of the workload");
                let held = buffers[index].as_ref().expect("every used buffer is allocated");
                wgpu::BindGroupEntry { binding: index as u32, resource: held.buffer.as_entire_binding() }
            })
            .collect();
        let group = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some(stage.entry),
            layout: &pipeline.get_bind_group_layout(0),
            entries: &entries,
        });
        Launch { name: stage.entry, pipeline, group, grid: stage.grid }
    }

    fn encode(&self, pass: &mut wgpu::ComputePass<'_>) {
        pass.set_pipeline(&self.pipeline);
        pass.set_bind_group(0, &self.group, &[]);
        let [x, y, z] = self.grid;
        pass.dispatch_workgroups(x, y, z);
    }
}

struct WgpuCase {
    gpu: Rc<Gpu>,
    timestamps: Option<Rc<Timestamps>>,
    compiled: Compiled,
    buffers: Vec<Option<Held>>,
    stages: Vec<Launch>,
    poison: Vec<Launch>,
    traced: u32,
}

impl WgpuCase {
    /// One encoder, one pass, these launches so many times.
    fn encode(&self, launches: &[Launch], repeats: u32, timed: Option<&Timestamps>) -> wgpu::CommandEncoder {
        let mut encoder = self.gpu.device.create_command_encoder(&Default::default());
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
            label: None,
            timestamp_writes: timed.map(|t| t.around(0)),
        });
        for _ in 0..repeats {
            launches.iter().for_each(|launch| launch.encode(&mut pass));
        }
        drop(pass);
        if let Some(timestamps) = timed {
            timestamps.resolve(&mut encoder, 2);
        }
        encoder
    }
}

#[async_trait(?Send)]
impl Prepared for WgpuCase {
    fn compiled(&self) -> &Compiled {
        &self.compiled
    }

    async fn poison(&mut self) -> Result<(), BackendError> {
        self.gpu.finish(self.encode(&self.poison, 1, None)).await
    }

    async fn measure(&mut self, repeats: u32) -> Result<Sample, BackendError> {
        let timestamps = self.timestamps.as_deref();
        let encoder = self.encode(&self.stages, repeats, timestamps);
        let submitted = Instant::now();
        let time = match timestamps {
            Some(timestamps) => {
                self.gpu.queue.submit([encoder.finish()]);
                Some(timestamps.read(&self.gpu, 2).await?[1])
            }
            None => {
                self.gpu.finish(encoder).await?;
                None
            }
        };
        let host = submitted.elapsed().as_nanos() as f64;
        Ok(Sample { time: Nanos(time.unwrap_or(host)), host: Nanos(host) })
    }

    async fn trace(&mut self) -> Result<Trace, BackendError> {
        self.traced += 1;
        let correlation = Some(self.traced);
        let span = |name: &str, track, start: f64, end: f64| Span {
            name: name.to_owned(),
            track,
            start: Nanos(start),
            end: Nanos(end),
            correlation,
        };
        let Some(timestamps) = self.timestamps.clone() else {
            return self.trace_by_host().await;
        };
        let stages = &self.stages[..self.stages.len().min(STAMPS as usize / 2)];
        let began = self.gpu.now().0;
        let mut encoder = self.gpu.device.create_command_encoder(&Default::default());
        for (i, stage) in stages.iter().enumerate() {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
                label: Some(stage.name),
                timestamp_writes: Some(timestamps.around(i as u32)),
            });
            stage.encode(&mut pass);
        }
        let count = 2 * stages.len() as u32;
        timestamps.resolve(&mut encoder, count);
        let commands = encoder.finish();
        let encoded = self.gpu.now().0;
        self.gpu.queue.submit([commands]);
        let submitted = self.gpu.now().0;
        let stamps = timestamps.read(&self.gpu, count).await?;
        let done = self.gpu.now().0;

        // The two clocks share no origin. Work cannot begin before it was submitted nor end after it was seen done, so
        // the shift lies between two bounds: take the middle, and half the distance as its error.
        let last = stamps.iter().copied().fold(0.0, f64::max);
        let (earliest, latest) = (encoded, done - last);
        let shift = (earliest + latest) / 2.0;
        let mut spans = vec![
            span("encode", Track::Host, began, encoded),
            span("submit", Track::Host, encoded, submitted),
            span("wait", Track::Host, submitted, done),
        ];
        let mut free_from = f64::NEG_INFINITY;
        for (stage, pair) in stages.iter().zip(stamps.chunks_exact(2)) {
            // Passes may overlap on the device; spans of one track may not.
            let start = (shift + pair[0]).max(free_from);
            let end = (shift + pair[1]).max(start);
            free_from = end;
            spans.push(span(stage.name, Track::Gpu, start, end));
        }
        Ok(Trace { spans, alignment_error: Some(Nanos((latest - earliest).abs() / 2.0)) })
    }

    async fn read_back(&mut self, buffer: usize, bytes: Range<u64>) -> Result<Vec<u8>, BackendError> {
        let held = self.buffers[buffer]
            .as_ref()
            .ok_or_else(|| BackendError::Device(format!("buffer {buffer} is not used by this case")))?;
        self.gpu.read(&held.buffer, bytes).await
    }

    fn memory(&self) -> MemoryStats {
        self.gpu.memory()
    }
}

impl WgpuCase {
    /// Without timestamps, stages are submitted one by one, and the device's share is what the host saw.
    async fn trace_by_host(&mut self) -> Result<Trace, BackendError> {
        let mut spans = Vec::new();
        for i in 0..self.stages.len() {
            let encoder = self.encode(&self.stages[i..=i], 1, None);
            let submitted = self.gpu.now();
            self.gpu.finish(encoder).await?;
            let done = self.gpu.now();
            let (name, correlation) = (self.stages[i].name, Some(self.traced * 100 + i as u32));
            for (name, track) in [("submit and wait", Track::Host), (name, Track::Gpu)] {
                spans.push(Span { name: name.to_owned(), track, start: submitted, end: done, correlation });
            }
        }
        Ok(Trace { spans, alignment_error: None })
    }
}

/// Fills buffers with set bits: NaN in every floating-point type.
struct Poison {
    pipeline: wgpu::ComputePipeline,
}

impl Poison {
    fn new(gpu: &Gpu) -> Poison {
        let module = gpu.device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: Some("poison"),
            source: wgpu::ShaderSource::Wgsl(
                "@group(0) @binding(0) var<storage, read_write> data: array<u32>;
                 @compute @workgroup_size(256)
                 fn poison(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
                           @builtin(local_invocation_index) lane: u32) {
                     let i = (group.y * groups.x + group.x) * 256u + lane;
                     if i < arrayLength(&data) { data[i] = 0xffffffffu; }
                 }"
                .into(),
            ),
        });
        let pipeline = gpu.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some("poison"),
            layout: None,
            module: &module,
            entry_point: Some("poison"),
            compilation_options: Default::default(),
            cache: None,
        });
        Poison { pipeline }
    }

    fn dispatch(&self, gpu: &Gpu, buffer: &wgpu::Buffer) -> Launch {
        let group = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some("poison"),
            layout: &self.pipeline.get_bind_group_layout(0),
            entries: &[wgpu::BindGroupEntry { binding: 0, resource: buffer.as_entire_binding() }],
        });
        let grid = spread((buffer.size() / 4).div_ceil(256));
        Launch { name: "poison", pipeline: self.pipeline.clone(), group, grid }
    }
}
