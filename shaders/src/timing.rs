//! GPU timestamps at pass boundaries, and their reliability.
//!
//! One query set serves the device, because some platforms allow only a few. The clock's step is measured at start and never
//! assumed. Browsers mask the low bits; one common step is 65 536 ns.

use parallax_ir::device::BackendError;
use parallax_schema::device::clock::{common_step, smallest_move};
use parallax_schema::device::{Clock, ClockInfo};
use parallax_schema::units::Nanos;

use crate::gpu::Gpu;
use crate::memory::TrackedBuffer;

/// Maximum number of timestamps in a submission.
pub const STAMPS: u32 = 32;

/// The device's query set, with the buffers that copy timestamps to the host.
pub struct Timestamps {
    set: wgpu::QuerySet,
    resolved: TrackedBuffer,
    readable: TrackedBuffer,
    /// Destination of copies that only synchronise with their source.
    awaited: TrackedBuffer,
    /// Nanoseconds per tick.
    period: f64,
}

impl Timestamps {
    /// Creates the query set. `None` without timestamp queries.
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
            resolved: TrackedBuffer::new(
                &gpu.ledger,
                &gpu.device,
                "resolved timestamps",
                bytes,
                U::QUERY_RESOLVE | U::COPY_SRC,
            ),
            readable: TrackedBuffer::new(
                &gpu.ledger,
                &gpu.device,
                "readable timestamps",
                bytes,
                U::MAP_READ | U::COPY_DST,
            ),
            awaited: TrackedBuffer::new(&gpu.ledger, &gpu.device, "awaited", 4, U::COPY_DST),
            period: f64::from(gpu.queue.get_timestamp_period()),
        })
    }

    /// Timestamps 2·pass and 2·pass + 1 at the begin and end of a pass.
    pub fn around(&self, pass: u32) -> wgpu::ComputePassTimestampWrites<'_> {
        wgpu::ComputePassTimestampWrites {
            query_set: &self.set,
            beginning_of_pass_write_index: Some(2 * pass),
            end_of_pass_write_index: Some(2 * pass + 1),
        }
    }

    /// Timestamp 0 at the begin of a pass, timestamp 1 at its end, either or both. For work that spans several passes.
    pub fn span(&self, begins: bool, ends: bool) -> Option<wgpu::ComputePassTimestampWrites<'_>> {
        (begins || ends).then_some(wgpu::ComputePassTimestampWrites {
            query_set: &self.set,
            beginning_of_pass_write_index: begins.then_some(0),
            end_of_pass_write_index: ends.then_some(1),
        })
    }

    /// This timestamp at the end of a pass.
    pub fn at_end(&self, stamp: u32) -> wgpu::ComputePassTimestampWrites<'_> {
        wgpu::ComputePassTimestampWrites {
            query_set: &self.set,
            beginning_of_pass_write_index: None,
            end_of_pass_write_index: Some(stamp),
        }
    }

    /// Delays later work until `written` is complete.
    ///
    /// Some implementations take the begin of a pass while earlier launches still run. A copy of their output waits for them, and
    /// delays the following work.
    pub fn wait_for(&self, encoder: &mut wgpu::CommandEncoder, written: &wgpu::Buffer) {
        encoder.copy_buffer_to_buffer(written, 0, &self.awaited.buffer, 0, 4);
    }

    /// Copies the first `count` timestamps to a readable buffer, after the encoder's work.
    pub fn resolve(&self, encoder: &mut wgpu::CommandEncoder, count: u32) {
        encoder.resolve_query_set(&self.set, 0..count, &self.resolved.buffer, 0);
        encoder.copy_buffer_to_buffer(&self.resolved.buffer, 0, &self.readable.buffer, 0, u64::from(count) * 8);
    }

    /// Returns the first `count` timestamps in nanoseconds, relative to the first. Waits for the work.
    pub async fn read(&self, gpu: &Gpu, count: u32) -> Result<Vec<f64>, BackendError> {
        let ticks = self.ticks(gpu, count).await?;
        Ok(ticks.iter().map(|t| *t as f64 * self.period).collect())
    }

    /// Returns the timestamps in ticks, relative to the first. The subtraction uses integers, because a timestamp may not fit into
    /// a double without loss.
    async fn ticks(&self, gpu: &Gpu, count: u32) -> Result<Vec<i64>, BackendError> {
        let bytes = gpu.map(&self.readable.buffer, 0..u64::from(count) * 8).await?;
        let stamps: Vec<u64> =
            bytes.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().expect("8 bytes"))).collect();
        Ok(stamps.iter().map(|s| s.wrapping_sub(stamps[0]) as i64).collect())
    }
}

/// Share of negative intervals from which the timestamps are rejected.
const TOO_MANY_BACKWARDS: f64 = 0.05;

/// Selects the clock of the run, from timestamps around small real work.
pub async fn examine(gpu: &Gpu, timestamps: Option<&Timestamps>) -> Result<ClockInfo, BackendError> {
    let host_step = smallest_move(20, || gpu.now());
    let Some(timestamps) = timestamps else {
        return Ok(host(host_step, "the device has no timestamp queries".to_owned()));
    };
    let work = TinyWork::new(gpu);
    let mut stamps = Vec::new();
    for _ in 0..8 {
        let mut encoder = gpu.device.create_command_encoder(&Default::default());
        for pass in 0..STAMPS / 2 {
            work.encode(&mut encoder, timestamps.around(pass), 1 + pass);
        }
        timestamps.resolve(&mut encoder, STAMPS);
        gpu.queue.submit([encoder.finish()]);
        stamps.push(timestamps.ticks(gpu, STAMPS).await?);
    }
    Ok(judge(&stamps, timestamps.period, host_step))
}

fn host(step: Nanos, note: String) -> ClockInfo {
    ClockInfo {
        clock: Clock::Host,
        step,
        host_step: step,
        zero_share: 0.0,
        negative_share: 0.0,
        launch_jitter: Nanos(0.0),
        note: Some(note),
    }
}

/// Returns the clock, from ticks of `period` nanoseconds: pairs around work, in submissions that begin with tick 0.
fn judge(stamps: &[Vec<i64>], period: f64, host_step: Nanos) -> ClockInfo {
    let pairs: Vec<i64> = stamps.iter().flat_map(|s| s.chunks_exact(2)).map(|pair| pair[1] - pair[0]).collect();
    let share = |of: fn(&i64) -> bool| pairs.iter().filter(|d| of(d)).count() as f64 / pairs.len().max(1) as f64;
    let (zero_share, negative_share) = (share(|d| *d == 0), share(|d| *d < 0));
    let step = common_step(stamps.iter().flatten().map(|ticks| ticks.unsigned_abs()));
    let info = match step {
        None => host(host_step, "timestamps never advance on this device".to_owned()),
        Some(_) if negative_share >= TOO_MANY_BACKWARDS => {
            let percent = 100.0 * negative_share;
            host(host_step, format!("{percent:.0} % of timestamp pairs run backwards on this device"))
        }
        Some(ticks) => ClockInfo {
            clock: Clock::GpuTimestamps,
            step: Nanos(ticks as f64 * period),
            host_step,
            zero_share: 0.0,
            negative_share: 0.0,
            launch_jitter: Nanos(0.0),
            note: None,
        },
    };
    ClockInfo { zero_share, negative_share, ..info }
}

/// A kernel with little work, because empty passes have no timestamps on some platforms.
struct TinyWork {
    pipeline: wgpu::ComputePipeline,
    group: wgpu::BindGroup,
    _buffer: TrackedBuffer,
}

impl TinyWork {
    fn new(gpu: &Gpu) -> TinyWork {
        let pipeline = gpu.pipeline(
            "tiny",
            "@group(0) @binding(0) var<storage, read_write> data: array<u32>;
                 @compute @workgroup_size(64) fn tiny(@builtin(local_invocation_index) i: u32) { data[i] += i; }",
            None,
        );
        let buffer = TrackedBuffer::new(&gpu.ledger, &gpu.device, "tiny work", 256, wgpu::BufferUsages::STORAGE);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns sixteen pairs of `ticks` each, except for those listed.
    fn stamps(ticks: i64, others: &[(usize, i64)]) -> Vec<i64> {
        let mut took = [ticks; 16];
        others.iter().for_each(|(at, ticks)| took[*at] = *ticks);
        took.iter().enumerate().flat_map(|(i, took)| [64 * i as i64, 64 * i as i64 + took]).collect()
    }

    #[test]
    fn a_few_backward_pairs_are_counted_and_forgiven() {
        let info = judge(&[stamps(32, &[(3, -16), (5, 0)]), stamps(32, &[]), stamps(48, &[])], 2.0, Nanos(40.0));
        assert_eq!((info.clock, info.step, info.host_step), (Clock::GpuTimestamps, Nanos(32.0), Nanos(40.0)));
        assert_eq!((info.zero_share, info.negative_share, info.note), (1.0 / 48.0, 1.0 / 48.0, None));
    }

    #[test]
    fn a_clock_that_often_runs_backwards_is_demoted() {
        let info = judge(&[stamps(32, &[(3, -16)])], 2.0, Nanos(40.0));
        assert_eq!((info.clock, info.step, info.negative_share), (Clock::Host, Nanos(40.0), 1.0 / 16.0));
        assert_eq!(info.note.as_deref(), Some("6 % of timestamp pairs run backwards on this device"));
    }

    #[test]
    fn a_clock_that_stands_still_is_demoted() {
        let info = judge(&[vec![0; 32]], 1.0, Nanos(40.0));
        assert_eq!((info.clock, info.zero_share), (Clock::Host, 1.0));
        assert_eq!(info.note.as_deref(), Some("timestamps never advance on this device"));
    }
}
