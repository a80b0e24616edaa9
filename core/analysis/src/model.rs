//! Time of a model in a run: each operation by its fastest variant, times its count.

use std::collections::BTreeMap;

use parallax_schema::case::{problem_of, variant_of};
use parallax_schema::record::stats::Summary;
use parallax_schema::record::{Coverage, Model, Operation, Record, Run};
use parallax_schema::units::Nanos;

/// Model in a run.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelTime<'r> {
    /// The model.
    pub model: &'r Model,
    /// Its operations, in the order of the model.
    pub rows: Vec<ModelRow<'r>>,
    /// Sum of the measured operations; absent if none was measured.
    pub total: Option<Estimate>,
    /// Sum of the traced times of the measured operations, if the model is of a trace.
    pub traced: Option<Nanos>,
    /// Work of all operations, and of those without a time.
    pub work: Work,
}

/// Operation of a model with its time.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRow<'r> {
    /// The operation.
    pub operation: &'r Operation,
    /// Fastest variant of its problem.
    pub variant: Option<&'r str>,
    /// Time of one execution.
    pub each: Option<Summary>,
    /// Share of the total time.
    pub share: Option<f64>,
    /// Why there is no time; none for operations that cost nothing.
    pub reason: Option<&'r str>,
}

/// Time with the ends of its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Sum of medians.
    pub time: Nanos,
    /// Low end.
    pub low: Nanos,
    /// High end.
    pub high: Nanos,
}

/// Executions, operations and bytes of a model, and their parts without a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Work {
    /// Executions in one pass, free ones left out.
    pub executions: u64,
    /// Floating-point operations.
    pub flops: u64,
    /// Bytes.
    pub bytes: u64,
    /// Executions without a time.
    pub missing_executions: u64,
    /// Floating-point operations without a time.
    pub missing_flops: u64,
    /// Bytes without a time.
    pub missing_bytes: u64,
}

impl Work {
    /// Returns the work of a model before any measurement. Operations without a problem are the missing ones.
    pub fn of(model: &Model) -> Work {
        let mut work = Work::default();
        for operation in model.operations.iter().filter(|one| !matches!(one.coverage, Coverage::Free { .. })) {
            work.add(operation, operation.problem().is_none());
        }
        work
    }

    /// Shares of executions, operations and bytes without a time.
    pub fn missing_shares(&self) -> [f64; 3] {
        let share = |part: u64, all: u64| if all == 0 { 0.0 } else { part as f64 / all as f64 };
        [
            share(self.missing_executions, self.executions),
            share(self.missing_flops, self.flops),
            share(self.missing_bytes, self.bytes),
        ]
    }

    fn add(&mut self, operation: &Operation, missing: bool) {
        let times = |amount: u64| amount.saturating_mul(operation.count);
        let (flops, bytes) = (times(operation.cost.flops.0), times(operation.cost.moved().0));
        let part = |amount: u64| if missing { amount } else { 0 };
        for (sum, amount) in [
            (&mut self.executions, operation.count),
            (&mut self.flops, flops),
            (&mut self.bytes, bytes),
            (&mut self.missing_executions, part(operation.count)),
            (&mut self.missing_flops, part(flops)),
            (&mut self.missing_bytes, part(bytes)),
        ] {
            *sum = sum.saturating_add(amount);
        }
    }
}

/// Returns the time of a run's model; `None` for a run of no model.
///
/// The interval of the total takes the errors of different problems as independent, so half widths add up in quadrature. Executions of
/// one problem share its error, which is multiplied by their number.
pub fn model_time(run: &Run) -> Option<ModelTime<'_>> {
    let model = run.model.as_ref()?;
    let fastest = fastest(run);
    let mut rows = Vec::new();
    let (mut work, mut traced) = (Work::default(), None);
    let mut executions = BTreeMap::<&str, u64>::new();
    for operation in &model.operations {
        let found = operation.problem().and_then(|problem| Some((problem, fastest.get(problem)?)));
        let reason = match (&operation.coverage, found) {
            (Coverage::Missing { reason }, _) => Some(reason.as_str()),
            (Coverage::Problem { problem, .. }, None) => Some(why_not(run, problem)),
            _ => None,
        };
        if !matches!(operation.coverage, Coverage::Free { .. }) {
            work.add(operation, found.is_none());
        }
        if let Some((problem, _)) = found {
            let count = executions.entry(problem).or_default();
            *count = count.saturating_add(operation.count);
            if let Some(time) = operation.traced {
                traced = Some(traced.unwrap_or(Nanos(0.0)) + Nanos(time.0 * operation.count as f64));
            }
        }
        let (variant, each) = found.map(|(_, (variant, each))| (*variant, *each)).unzip();
        rows.push(ModelRow { operation, variant, each, share: None, reason });
    }
    let total = sum(executions.iter().filter_map(|(problem, count)| Some((fastest.get(problem)?.1, *count))));
    for row in &mut rows {
        row.share = total.zip(row.each).map(|(all, each)| each.median.0 * row.operation.count as f64 / all.time.0);
    }
    Some(ModelTime { model, rows, total, traced, work })
}

/// Fastest variant of each problem with a time.
fn fastest(run: &Run) -> BTreeMap<&str, (&str, Summary)> {
    let mut fastest = BTreeMap::<&str, (&str, Summary)>::new();
    let timed = run.records.iter().filter_map(|record| Some((record, record.timing()?.summary)));
    for (record, summary) in timed {
        let (problem, variant) = (problem_of(&record.case), variant_of(&record.case));
        let known = fastest.entry(problem).or_insert((variant, summary));
        if summary.median.0 < known.1.median.0 {
            *known = (variant, summary);
        }
    }
    fastest
}

/// Reason of the first record of a problem without a time.
fn why_not<'r>(run: &'r Run, problem: &str) -> &'r str {
    let of_problem = |record: &&Record| problem_of(&record.case) == problem;
    run.records
        .iter()
        .find(of_problem)
        .map_or("it was not measured", |record| record.reason().unwrap_or(record.verdict()))
}

/// Returns the sum of times, each with the number of its executions.
fn sum(times: impl Iterator<Item = (Summary, u64)>) -> Option<Estimate> {
    let mut parts = 0;
    let (mut time, mut below, mut above) = (0.0, 0.0, 0.0);
    for (summary, count) in times {
        let count = count as f64;
        parts += 1;
        time += count * summary.median.0;
        below += (count * (summary.median.0 - summary.low.0)).powi(2);
        above += (count * (summary.high.0 - summary.median.0)).powi(2);
    }
    let (low, high) = (time - f64::sqrt(below), time + f64::sqrt(above));
    (parts > 0).then_some(Estimate { time: Nanos(time), low: Nanos(low.max(0.0)), high: Nanos(high) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::case::Cost;
    use parallax_schema::record::ModelFormat;
    use parallax_schema::testing;
    use parallax_schema::testing::spread;

    fn operation(kind: &str, count: u64, coverage: Coverage) -> Operation {
        Operation {
            kind: kind.to_owned(),
            layer: String::new(),
            count,
            cost: Cost::new(10, 4, 4),
            coverage,
            traced: None,
        }
    }

    fn problem(problem: &str) -> Coverage {
        Coverage::Problem { problem: problem.to_owned(), note: String::new() }
    }

    fn run() -> Run {
        let cases = [
            ("matmul/fwd/m1,n1,k1/f32/naive", spread(300.0, 0.002, 41)),
            ("matmul/fwd/m1,n1,k1/f32/tiled", spread(100.0, 0.002, 41)),
            ("softmax/fwd/r1,c1/f32/online", spread(50.0, 0.002, 41)),
        ];
        let operations = vec![
            operation("MatMul", 3, problem("matmul/fwd/m1,n1,k1/f32")),
            operation("Softmax", 2, problem("softmax/fwd/r1,c1/f32")),
            operation("Gather", 1, problem("embedding/fwd/n1,v1,d1/f32")),
            operation("Reshape", 9, Coverage::Free { reason: "a view".to_owned() }),
            operation("Add", 4, Coverage::Missing { reason: "the suite has no Add".to_owned() }),
        ];
        let model = Model { name: "m".to_owned(), format: ModelFormat::Onnx, extents: BTreeMap::new(), operations };
        Run { model: Some(model), ..testing::run("cuda", "gpu", &cases) }
    }

    #[test]
    fn a_model_is_the_sum_of_its_operations_by_their_fastest_variants() {
        let run = run();
        let found = model_time(&run).expect("a model");
        let total = found.total.expect("times");
        assert!((total.time.0 - 400.0).abs() < 1e-6, "{total:?}");
        assert!(total.low.0 < 400.0 && total.high.0 > 400.0 && total.high.0 - total.low.0 < 2.0, "{total:?}");
        assert_eq!(found.rows[0].variant, Some("tiled"));
        assert_eq!(
            found.rows.iter().map(|row| row.share.is_some()).collect::<Vec<_>>(),
            [true, true, false, false, false]
        );
        assert!((found.rows[0].share.expect("a share") - 0.75).abs() < 1e-9);
        assert_eq!(found.rows[2].reason, Some("it was not measured"));
        assert_eq!((found.rows[3].reason, found.rows[4].reason), (None, Some("the suite has no Add")));
        assert_eq!((found.work.executions, found.work.missing_executions), (10, 5));
        assert_eq!(found.work.missing_shares(), [0.5; 3]);
        assert_eq!(model_time(&Run { model: None, ..run.clone() }), None);
    }
}
