//! Bandwidths of a collective, as nccl-tests defines them, from the median of its time.
//!
//! A case with bandwidths has no place under the roofline, whose ceilings are those of one GPU's memory and arithmetic. They still
//! tell impossible times.

use parallax_ir::Problem;
use parallax_schema::record::stats::Summary;
use parallax_schema::record::{Better, Score, of_collectives};

/// Returns the algorithm bandwidth and the bus bandwidth of a collective, each with the interval of the median. Empty for other
/// problems, and for a time of zero.
pub(super) fn scores(problem: &Problem, summary: &Summary) -> Vec<Score> {
    let Some(exchange) = problem.form().exchange.filter(|_| summary.low.0 > 0.0) else { return Vec::new() };
    let (message, factor) = (problem.message(), exchange.bus_factor(problem.gpus()));
    let score = |(name, factor): (&str, f64)| {
        // The longest time is the lowest bandwidth.
        let [value, low, high] =
            [summary.median, summary.high, summary.low].map(|time| message.per(time) * factor / 1e9);
        Score { name: name.to_owned(), value, low, high, better: Better::Higher, items: summary.n.into() }
    };
    [(of_collectives::ALGORITHM, 1.0), (of_collectives::BUS, factor)].map(score).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_workloads::parse_problem;

    #[test]
    fn bandwidths_follow_from_message_time_and_factor() {
        // A megabyte in 10 µs, give or take one.
        let samples: Vec<f64> = (0..32).map(|i| 9e3 + f64::from(i % 3) * 1e3).collect();
        let summary = Summary::of(&samples).expect("samples");
        let of = |problem: &str| scores(&parse_problem(problem).expect("valid"), &summary);
        for (problem, algorithm, bus) in [
            ("all_reduce/fwd/n250000/f32", 100.0, 100.0),
            ("all_reduce/fwd/n250000,gpus4/f32", 100.0, 150.0),
            ("all_gather/fwd/n500000/f16", 100.0, 50.0),
            ("reduce_scatter/fwd/n250000/f32", 100.0, 50.0),
            ("all_to_all/fwd/n250000,gpus8/f32", 100.0, 87.5),
            ("broadcast/fwd/n250000/f32", 100.0, 100.0),
            ("send_recv/fwd/n250000/f32", 100.0, 100.0),
        ] {
            let found = of(problem);
            let near = |score: &Score, want: f64| (score.value - want).abs() < 1e-9;
            assert!(near(&found[0], algorithm) && near(&found[1], bus), "{problem}: {found:?}");
            assert!(found.iter().all(|score| score.low <= score.value && score.value <= score.high), "{found:?}");
        }
        assert_eq!(of("copy/fwd/n250000/f32"), []);
    }
}
