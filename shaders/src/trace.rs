//! Trace of one execution: each launch in a pass of its own, and each copy between two passes, with its own timestamps.

use parallax_ir::device::BackendError;
use parallax_schema::device::{Span, SpanKind, Trace, TraceSource, Track};
use parallax_schema::units::Nanos;

use crate::gpu::Gpu;
use crate::launch::{BoundStage, Pass};
use crate::stack;
use crate::timing::{STAMPS, Timestamps};

/// Runs these steps once on one buffer set, and returns their times.
pub async fn trace(
    gpu: &Gpu,
    timestamps: Option<&Timestamps>,
    steps: &[BoundStage],
    set: usize,
    stacks: bool,
) -> Result<Trace, BackendError> {
    let mut traced = Traced { gpu, set, stacks, spans: Vec::new() };
    let Some(timestamps) = timestamps else {
        // Without timestamps, the device's times are the host's. So each step is a submission of its own.
        for step in steps {
            let handed = traced.submit(std::slice::from_ref(step), None);
            gpu.done().await?;
            let done = traced.wait(&handed);
            traced.work(step, handed.submitting, done, &handed);
        }
        return Ok(Trace { spans: traced.spans, alignment_error: None, source: Some(TraceSource::Host) });
    };
    let mut error: f64 = 0.0;
    let mut free_from = f64::NEG_INFINITY;
    // Number of stages per submission: half the number of timestamps.
    for steps in steps.chunks(STAMPS as usize / 2) {
        let handed = traced.submit(steps, Some(timestamps));
        let stamps = timestamps.read(gpu, 2 * steps.len() as u32).await?;
        let done = traced.wait(&handed);
        let (shift, off) = align(&stamps, handed.submitting, done);
        error = error.max(off);
        for (step, (start, end)) in steps.iter().zip(place(&stamps, shift, &mut free_from)) {
            traced.work(step, Nanos(start), Nanos(end), &handed);
        }
    }
    let (alignment_error, source) = (Some(Nanos(error)), Some(TraceSource::Timestamps));
    Ok(Trace { spans: traced.spans, alignment_error, source })
}

struct Traced<'a> {
    gpu: &'a Gpu,
    set: usize,
    stacks: bool,
    spans: Vec<Span>,
}

/// Submitted work.
struct Handed {
    submitting: Nanos,
    submitted: Nanos,
    correlation: u32,
}

impl Traced<'_> {
    /// Encodes a pass per launch, and the copies, and submits them all. Adds a host span for each of both actions.
    fn submit(&mut self, steps: &[BoundStage], timestamps: Option<&Timestamps>) -> Handed {
        let gpu = self.gpu;
        let began = gpu.now();
        let mut encoder = gpu.device.create_command_encoder(&Default::default());
        for (i, step) in (0..).zip(steps) {
            match step {
                BoundStage::Launch(launched) => {
                    let stamps = timestamps.map(|t| t.around(i));
                    launched.encode(&mut Pass::begin(&mut encoder, Some(&launched.label), stamps), self.set);
                }
                BoundStage::Copy(copied) => {
                    let stamps = [2 * i, 2 * i + 1].map(|stamp| timestamps.map(|t| t.at_end(stamp)));
                    copied.encode(&mut encoder, self.set, stamps);
                }
            }
        }
        if let Some(timestamps) = timestamps {
            timestamps.resolve(&mut encoder, 2 * steps.len() as u32);
        }
        let commands = encoder.finish();
        let encoded = gpu.now();
        // The capture of a stack is slow. It falls between the spans.
        let stack = if self.stacks { stack::here() } else { Vec::new() };
        let submitting = gpu.now();
        gpu.queue.submit([commands]);
        let submitted = gpu.now();
        let correlation = gpu.correlation();
        self.spans.push(host("encode", SpanKind::Runtime, began, encoded));
        let submit = host("submit", SpanKind::Runtime, submitting, submitted);
        self.spans.push(Span { correlation: Some(correlation), stack, ..submit });
        Handed { submitting, submitted, correlation }
    }

    /// Adds the span of the wait, and returns the time of its end.
    fn wait(&mut self, handed: &Handed) -> Nanos {
        let done = self.gpu.now();
        self.spans.push(host("wait", SpanKind::Wait, handed.submitted, done));
        done
    }

    fn work(&mut self, step: &BoundStage, start: Nanos, end: Nanos, handed: &Handed) {
        let (kind, bytes) = match step {
            BoundStage::Launch(_) => (SpanKind::Kernel, None),
            BoundStage::Copy(copied) => (SpanKind::Memcpy, Some(copied.bytes())),
        };
        self.spans.push(Span {
            name: step.label().to_owned(),
            kind,
            bytes,
            track: Track::Gpu,
            start,
            end,
            correlation: Some(handed.correlation),
            ..Span::default()
        });
    }
}

fn host(name: &str, kind: SpanKind, start: Nanos, end: Nanos) -> Span {
    Span { name: name.to_owned(), kind, track: Track::Host, start, end, ..Span::default() }
}

/// Returns the offset of the timestamps from the host's clock, and its error.
///
/// The two clocks have no common origin. Work cannot begin before its submission, nor end after its observed completion. The offset
/// lies between these two bounds. The result is their middle, with half the distance as its error.
fn align(stamps: &[f64], submitting: Nanos, done: Nanos) -> (f64, f64) {
    let first = stamps.iter().copied().fold(f64::INFINITY, f64::min);
    let last = stamps.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (earliest, latest) = (submitting.0 - first, done.0 - last);
    ((earliest + latest) / 2.0, (latest - earliest).abs() / 2.0)
}

/// Converts pairs of timestamps to the host's clock, none before `free_from`. Passes may overlap on the device, or have negative
/// intervals; spans of one track may not.
fn place(stamps: &[f64], shift: f64, free_from: &mut f64) -> Vec<(f64, f64)> {
    let one = |pair: &[f64]| {
        let start = (shift + pair[0]).max(*free_from);
        let end = (shift + pair[1]).max(start);
        *free_from = end;
        (start, end)
    };
    stamps.chunks_exact(2).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{WgpuOptions, open};
    use parallax_workloads::parse_case;
    use pollster::block_on;

    #[test]
    fn more_stages_than_stamps_are_all_traced() {
        let wgpu = block_on(open(WgpuOptions::default())).expect("an adapter (llvmpipe will do)");
        let case = parse_case("attention/fwd/b1,h1,s5,d3/f32/flash").expect("valid");
        let prepared = block_on(wgpu.case(&case, &case.problem.inputs(1), 1)).expect("a small case");
        let steps = vec![prepared.steps[0].clone(); 20];
        for timestamps in [prepared.timestamps.as_deref(), None] {
            let traced = block_on(trace(&prepared.gpu, timestamps, &steps, 0, false)).expect("a trace");
            let (device, host): (Vec<_>, Vec<_>) = traced.spans.iter().partition(|s| s.track == Track::Gpu);
            assert_eq!(device.len(), 20);
            for track in [&device, &host] {
                assert!(track.windows(2).all(|pair| pair[0].end.0 <= pair[1].start.0), "{track:?}");
            }
            let mut submits: Vec<_> = host.iter().filter_map(|s| s.correlation).collect();
            assert_eq!(submits.len(), if timestamps.is_some() { 2 } else { 20 });
            submits.dedup();
            let mut joined: Vec<_> = device.iter().filter_map(|s| s.correlation).collect();
            joined.dedup();
            assert_eq!(joined, submits);
        }
    }

    #[test]
    fn device_work_lies_between_submission_and_completion() {
        let stamps = [0.0, 30.0, 35.0, 60.0];
        let (shift, error) = align(&stamps, Nanos(1000.0), Nanos(1100.0));
        assert_eq!((shift, error), (1020.0, 20.0));
        // Timestamps whose first one is not the earliest.
        assert_eq!(align(&[0.0, 10.0, -10.0, 5.0], Nanos(100.0), Nanos(140.0)), (120.0, 10.0));
    }

    #[test]
    fn spans_of_one_track_never_overlap() {
        let mut free_from = f64::NEG_INFINITY;
        let placed = place(&[0.0, 30.0, 25.0, 20.0, 40.0, 50.0], 100.0, &mut free_from);
        assert_eq!(placed, [(100.0, 130.0), (130.0, 130.0), (140.0, 150.0)]);
        assert_eq!(place(&[0.0, 10.0], 145.0, &mut free_from), [(150.0, 155.0)], "the next submission's begin later");
    }
}
