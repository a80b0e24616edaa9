//! GPU timestamps at pass boundaries, and how far they can be trusted.
//!
//! One query set serves the device: some platforms allow only a few. What a clock's step is, is measured at start and
//! never assumed (browsers mask the low bits; one widespread step is 65 536 ns).

use parallax_core::clock::{common_step, smallest_move};
use parallax_core::profiler::{BackendError, Clock, ClockInfo};
use parallax_core::units::Nanos;

use crate::gpu::{Gpu, Held};

/// Stamps that one submission can take.
pub const STAMPS: u32 = 32;

/// The device's query set with the buffers that bring stamps to the host.
pub struct Timestamps {
    set: wgpu::QuerySet,
    resolved: Held,
    readable: Held,
    /// Nanoseconds of one tick.
    period: f64,
}

impl Timestamps {
    /// Where the device was opened with timestamp queries.
    pub fn new(gpu: &Gpu) -> Option<Timestamps> {
        if !gpu.device.features().contains(wgpu::Features::TIMESTAMP_QUERY) {
            return None;
        }
        use wgpu::BufferUsages as U;
        let bytes = u64::from(STAMPS) * 8;
        Some(Timestamps {
            set: gpu.device.create_query_set(&wgpu::QuerySetDescriptor {
                label: Some("timestamps"),
                ty: wgpu::QueryType::Timestamp,
                count: STAMPS,
            }),
            resolved: gpu.buffer("resolved timestamps", bytes, U::QUERY_RESOLVE | U::COPY_SRC),
            readable: gpu.buffer("readable timestamps", bytes, U::MAP_READ | U::COPY_DST),
            period: f64::from(gpu.queue.get_timestamp_period()),
        })
    }

    /// Stamps 2·pass and 2·pass + 1 at the begin and end of a pass.
    pub fn around(&self, pass: u32) -> wgpu::ComputePassTimestampWrites<'_> {
        wgpu::ComputePassTimestampWrites {
            query_set: &self.set,
            beginning_of_pass_write_index: Some(2 * pass),
            end_of_pass_write_index: Some(2 * pass + 1),
        }
    }

    /// Make the first `count` stamps readable once the encoder's work is done.
    pub fn resolve(&self, encoder: &mut wgpu::CommandEncoder, count: u32) {
        encoder.resolve_query_set(&self.set, 0..count, &self.resolved.buffer, 0);
        encoder.copy_buffer_to_buffer(&self.resolved.buffer, 0, &self.readable.buffer, 0, u64::from(count) * 8);
    }

    /// The first `count` stamps in nanoseconds since the first of them; waits for the work.
    pub async fn read(&self, gpu: &Gpu, count: u32) -> Result<Vec<f64>, BackendError> {
        let ticks = self.ticks(gpu, count).await?;
        Ok(ticks.iter().map(|t| *t as f64 * self.period).collect())
    }

    /// The same in ticks. Differences are taken as integers: a stamp itself may not fit into a double without loss.
    async fn ticks(&self, gpu: &Gpu, count: u32) -> Result<Vec<i64>, BackendError> {
        let bytes = gpu.map(&self.readable.buffer, 0..u64::from(count) * 8).await?;
        let stamps: Vec<u64> =
            bytes.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().expect("8 bytes"))).collect();
        Ok(stamps.iter().map(|s| s.wrapping_sub(stamps[0]) as i64).collect())
    }
}

/// Decide on the run's clock by looking at real stamps around real (tiny) work.
pub async fn examine(gpu: &Gpu, timestamps: Option<&Timestamps>) -> Result<ClockInfo, BackendError> {
    let host_step = smallest_move(20, || gpu.now());
    let host = |note: &str| ClockInfo { clock: Clock::Host, step: host_step, host_step, note: Some(note.to_owned()) };
    let Some(timestamps) = timestamps else {
        return Ok(host("the device has no timestamp queries"));
    };
    let work = TinyWork::new(gpu);
    let mut stamps = Vec::new();
    let mut negative = 0;
    for _ in 0..8 {
        let mut encoder = gpu.device.create_command_encoder(&Default::default());
        for pass in 0..STAMPS / 2 {
            work.encode(&mut encoder, timestamps.around(pass), 1 + pass);
        }
        timestamps.resolve(&mut encoder, STAMPS);
        gpu.queue.submit([encoder.finish()]);
        let read = timestamps.ticks(gpu, STAMPS).await?;
        negative += read.chunks(2).filter(|pair| pair[1] < pair[0]).count();
        stamps.push(read);
    }
    if negative > 0 {
        return Ok(host("timestamps run backwards on this device"));
    }
    match common_step(stamps.iter().flatten().map(|ticks: &i64| ticks.unsigned_abs())) {
        Some(ticks) => {
            let step = Nanos(ticks as f64 * timestamps.period);
            Ok(ClockInfo { clock: Clock::GpuTimestamps, step, host_step, note: None })
        }
        None => Ok(host("timestamps never advance on this device")),
    }
}

/// A kernel that does a little, so that a pass with it is not empty (empty passes give no stamps on some platforms).
struct TinyWork {
    pipeline: wgpu::ComputePipeline,
    group: wgpu::BindGroup,
    _buffer: Held,
}

impl TinyWork {
    fn new(gpu: &Gpu) -> TinyWork {
        let module = gpu.device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: Some("tiny work"),
            source: wgpu::ShaderSource::Wgsl(
                "@group(0) @binding(0) var<storage, read_write> data: array<u32>;
                 @compute @workgroup_size(64) fn tiny(@builtin(local_invocation_index) i: u32) { data[i] += i; }"
                    .into(),
            ),
        });
        let pipeline = gpu.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some("tiny work"),
            layout: None,
            module: &module,
            entry_point: Some("tiny"),
            compilation_options: Default::default(),
            cache: None,
        });
        let buffer = gpu.buffer("tiny work", 256, wgpu::BufferUsages::STORAGE);
        let group = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.get_bind_group_layout(0),
            entries: &[wgpu::BindGroupEntry { binding: 0, resource: buffer.buffer.as_entire_binding() }],
        });
        TinyWork { pipeline, group, _buffer: buffer }
    }

    fn encode(&self, encoder: &mut wgpu::CommandEncoder, stamps: wgpu::ComputePassTimestampWrites<'_>, times: u32) {
        let mut pass =
            encoder.begin_compute_pass(&wgpu::ComputePassDescriptor { label: None, timestamp_writes: Some(stamps) });
        pass.set_pipeline(&self.pipeline);
        pass.set_bind_group(0, &self.group, &[]);
        for _ in 0..times {
            pass.dispatch_workgroups(1, 1, 1);
        }
    }
}
