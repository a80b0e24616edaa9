//! Work of a device in each traced execution.

use parallax_schema::device::{Span, SpanKind, Track};
use parallax_schema::grouped;

/// Whether a span begins a traced execution.
pub(super) fn begins(span: &Span) -> bool {
    span.kind == SpanKind::Annotation && span.track == Track::Host
}

/// Returns the device's spans of each traced execution that has any.
pub(super) fn executions(spans: &[Span]) -> impl Iterator<Item = Vec<&Span>> {
    let work = |span: &&Span| {
        span.track == Track::Gpu && matches!(span.kind, SpanKind::Kernel | SpanKind::Memcpy | SpanKind::Memset)
    };
    let each = spans.chunk_by(|_, next| !begins(next)).map(move |spans| spans.iter().filter(work).collect());
    each.filter(|work: &Vec<&Span>| !work.is_empty())
}

/// Returns the stages in the order of their first execution, with the time of each in each execution. A library may launch several
/// kernels for a stage, and stages may share a name: times of one name are added.
pub(super) fn stage_times(spans: &[Span]) -> Vec<(&str, Vec<f64>)> {
    grouped(executions(spans).flat_map(of_execution))
}

fn of_execution(work: Vec<&Span>) -> Vec<(&str, f64)> {
    let times = grouped(work.into_iter().map(|span| (span.name.as_str(), (span.end - span.start).0)));
    times.into_iter().map(|(stage, times)| (stage, times.iter().sum())).collect()
}
