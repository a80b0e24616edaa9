//! Traced executions of a case by a schedule.

use parallax_ir::device::{BackendError, Batch, Prepared};
use parallax_schema::device::{Span, SpanKind, Trace, Track};
use parallax_schema::spec::schedule::{Phase, Schedule};
use parallax_schema::units::Nanos;

/// Traces executions by the schedule. Each kept execution lies within an annotation of its own.
pub(super) async fn follow(
    prepared: &mut dyn Prepared,
    schedule: Schedule,
    stacks: bool,
) -> Result<Trace, BackendError> {
    let mut kept = Trace::default();
    for (i, phase) in schedule.phases().enumerate() {
        match phase {
            Phase::Wait => {
                prepared.measure(Batch::new(1)).await?;
            }
            Phase::WarmUp => {
                prepared.trace(stacks).await?;
            }
            Phase::Active => {
                let one = prepared.trace(stacks).await?;
                let edges = || one.spans.iter().filter(|s| s.track == Track::Host).flat_map(|s| [s.start.0, s.end.0]);
                let start = edges().fold(f64::INFINITY, f64::min);
                let end = edges().fold(f64::NEG_INFINITY, f64::max);
                if start < end {
                    kept.spans.push(Span {
                        name: format!("ProfilerStep#{i}"),
                        kind: SpanKind::Annotation,
                        track: Track::Host,
                        start: Nanos(start),
                        end: Nanos(end),
                        ..Span::default()
                    });
                }
                let error = |t: &Trace| t.alignment_error.map_or(0.0, |e| e.0);
                if kept.source.is_none() || error(&one) > error(&kept) {
                    kept.alignment_error = one.alignment_error;
                }
                kept.source = one.source.or(kept.source);
                kept.spans.extend(one.spans);
            }
        }
    }
    Ok(kept)
}
