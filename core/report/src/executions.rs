//! Work of a device in each traced execution.

use parallax_schema::device::{Span, SpanKind, Track};
use parallax_schema::grouped;

/// Whether a span begins a traced execution.
pub(super) fn begins(span: &Span) -> bool {
    span.kind == SpanKind::Annotation && span.track == Track::Host
}

/// Whether a span is work of a device: a kernel, a copy or a fill.
pub(super) fn is_work(span: &Span) -> bool {
    span.track == Track::Gpu && matches!(span.kind, SpanKind::Kernel | SpanKind::Memcpy | SpanKind::Memset)
}

/// Returns the device's spans of each traced execution that has any.
pub(super) fn executions(spans: &[Span]) -> impl Iterator<Item = Vec<&Span>> {
    let each = spans.chunk_by(|_, next| !begins(next)).map(|spans| spans.iter().filter(|span| is_work(span)).collect());
    each.filter(|work: &Vec<&Span>| !work.is_empty())
}

/// Returns the stages in the order of their first execution, with the time of each in each execution. A library may launch several
/// kernels for a stage, and stages may share a name: times of one name are added.
pub(super) fn stage_times(spans: &[Span]) -> Vec<(&str, Vec<f64>)> {
    grouped(executions(spans).flat_map(of_execution))
}

/// Returns the stages of an execution with their times. The devices of a group work at the same time, so the longest counts.
fn of_execution(work: Vec<&Span>) -> Vec<(&str, f64)> {
    let times = work.into_iter().map(|span| ((span.name.as_str(), span.device), (span.end - span.start).0));
    let of_device = grouped(times).into_iter().map(|((stage, _), times)| (stage, times.iter().sum::<f64>()));
    let longest = |(stage, times): (_, Vec<f64>)| (stage, times.into_iter().fold(0.0, f64::max));
    grouped(of_device).into_iter().map(longest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::units::Nanos;

    #[test]
    fn times_of_a_stage_are_added_on_a_device_and_the_longest_device_counts() {
        let span = |name: &str, device, start, end| Span {
            name: name.to_owned(),
            track: Track::Gpu,
            device,
            start: Nanos(start),
            end: Nanos(end),
            ..Span::default()
        };
        let spans =
            [span("sum", 0, 0.0, 5.0), span("sum", 0, 6.0, 8.0), span("sum", 1, 0.0, 9.0), span("x", 1, 9.0, 10.0)];
        assert_eq!(stage_times(&spans), [("sum", vec![9.0]), ("x", vec![1.0])]);
    }
}
