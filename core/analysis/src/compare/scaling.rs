//! Times along the axis of a workload that has a table for it ([`Scaling`]). The two sides are the host's code and a device, or two
//! variants. The table shows the extent from which the second side is certainly faster.

use parallax_schema::case::{CPU_VARIANT, problem_of};
use parallax_schema::catalog::{Catalog, ScalingFacts, Sides};
use parallax_schema::record::{NamedRun, Outcome, Record, Run, Timing};

use crate::compare::verdict::{Ratio, Verdict, resolution_between};
use crate::compare::{device_drift, judge};

/// Target that runs the host's code.
const HOST: &str = "cpu";

/// Times of one workload along its axis.
#[derive(Debug, Clone, PartialEq)]
pub struct ScalingTable {
    /// Workload, direction and element type.
    pub name: String,
    /// Name of the quantity along the axis.
    pub counts: &'static str,
    /// Kinds of the table's two sides.
    pub sides: Sides,
    /// Name of the first side: a target or a variant.
    pub base: String,
    /// Name of the second side, if there is one.
    pub other: Option<String>,
    /// Points in ascending order of the extent, and at each extent by the place of the data.
    pub points: Vec<Point>,
    /// Reasons for missing times, one sentence each.
    pub missing: Vec<String>,
}

/// One line of the table.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Extent along the axis.
    pub extent: u64,
    /// Place of the data on the device, in words; empty if there is no choice.
    pub data: &'static str,
    /// Time of the first side.
    pub base: Option<Side>,
    /// Time of the second side, of its fastest variant.
    pub other: Option<Side>,
    /// Speed-up of the second side: the first side's time over the second's.
    pub speedup: Option<Ratio>,
}

/// Time of one side.
#[derive(Debug, Clone, PartialEq)]
pub struct Side {
    /// Variant that ran.
    pub variant: String,
    /// Time of the variant.
    pub timing: Timing,
}

impl Point {
    /// Returns whether the second side is certainly faster; `None` if that was not measured.
    pub fn is_faster(&self) -> Option<bool> {
        self.speedup.as_ref().map(|ratio| ratio.verdict == Verdict::Slower)
    }
}

/// Returns the tables of all workloads with an axis. For a workload with the host's code as one side, `no_device` gives the reason
/// for missing device runs. Without device runs and without a reason there is no table.
pub fn scaled(catalog: &dyn Catalog, runs: &[NamedRun], no_device: Option<&str>) -> Vec<ScalingTable> {
    let mut tables = Vec::new();
    for scaling in &catalog.scalings() {
        for series in series(scaling.workload, runs) {
            let builder = TableBuilder { scaling, series, runs };
            match scaling.sides {
                Sides::Variants { base, other, .. } => tables.extend(builder.variants(base, other)),
                Sides::HostAndDevice { .. } => tables.extend(builder.host_and_device(no_device)),
            }
        }
    }
    tables
}

/// Returns the distinct pairs of direction and element type among the records of a workload.
fn series(workload: &str, runs: &[NamedRun]) -> Vec<(String, &'static str)> {
    let mut found = Vec::new();
    let records = runs.iter().flat_map(|NamedRun { run, .. }| &run.records).filter(|r| r.parts.workload == workload);
    for pair in records.map(|record| (record.parts.direction.clone(), record.parts.dtype.name())) {
        if !found.contains(&pair) {
            found.push(pair);
        }
    }
    found
}

/// Builder of a workload's tables.
struct TableBuilder<'a> {
    scaling: &'a ScalingFacts,
    /// Direction and element type.
    series: (String, &'static str),
    runs: &'a [NamedRun],
}

impl<'a> TableBuilder<'a> {
    fn problem(&self, shape: &str) -> String {
        let (direction, dtype) = &self.series;
        format!("{}/{direction}/{shape}/{dtype}", self.scaling.workload)
    }

    /// Returns the records of a problem, without those on stress inputs.
    fn records(&self, run: &'a Run, shape: &str) -> impl Iterator<Item = &'a Record> + use<'a> {
        let problem = self.problem(shape);
        let of_it = move |record: &&Record| problem_of(&record.case) == problem;
        run.records.iter().filter(of_it).filter(|record| !record.case.ends_with(']'))
    }

    fn table(&self, base: &str, other: Option<&str>) -> ScalingTable {
        ScalingTable {
            name: format!("{}/{}/{}", self.scaling.workload, self.series.0, self.series.1),
            counts: self.scaling.counts,
            sides: self.scaling.sides,
            base: base.to_owned(),
            other: other.map(str::to_owned),
            points: Vec::new(),
            missing: Vec::new(),
        }
    }

    /// Returns a table for each run with a record of at least one of the two variants.
    fn variants(&self, base: &str, other: &str) -> Vec<ScalingTable> {
        let mut tables = Vec::new();
        for NamedRun { name, run } in self.runs {
            let mut table = self.table(base, Some(other));
            if self.runs.len() > 1 {
                table.name = format!("{} of {name}", table.name);
            }
            for &(shape, extent) in &self.scaling.shapes {
                let records: Vec<&Record> = self.records(run, shape).collect();
                let of = |variant: &str| records.iter().copied().find(|record| record.parts.variant == variant);
                let both = [(base, of(base)), (other, of(other))];
                table.missing.extend(both.iter().filter_map(|(name, record)| missing(name, (*record)?)));
                let [first, second] = both.map(|(_, record)| record.filter(|r| r.timing().is_some()).map(|r| (run, r)));
                if both.iter().any(|(_, record)| record.is_some()) {
                    table.points.push(self.point(extent, "", first, second));
                }
            }
            table.missing.dedup();
            if !table.points.is_empty() {
                tables.push(table);
            }
        }
        tables
    }

    /// Returns a table for each device's run beside that of the host. Without a device but with a reason, it returns one table
    /// without a device.
    fn host_and_device(&self, no_device: Option<&str>) -> Vec<ScalingTable> {
        let Some(NamedRun { run: host, .. }) = self.runs.iter().find(|NamedRun { run, .. }| run.target == HOST) else {
            return Vec::new();
        };
        let of_host = |shape: &str| {
            self.records(host, shape).find(|record| record.parts.variant == CPU_VARIANT && record.timing().is_some())
        };
        if self.scaling.shapes.iter().all(|(shape, _)| of_host(shape).is_none()) {
            return Vec::new();
        }
        let mut devices: Vec<Option<&NamedRun>> =
            self.runs.iter().filter(|NamedRun { run, .. }| run.target != HOST).map(Some).collect();
        if devices.is_empty() && no_device.is_some() {
            devices.push(None);
        }
        let mut tables = Vec::new();
        for device in devices {
            let mut table = self.table(HOST, device.map(|NamedRun { name, .. }| name.as_str()));
            table.missing.extend(no_device.filter(|_| device.is_none()).map(|why| format!("no device: {why}")));
            for &(shape, extent) in &self.scaling.shapes {
                let first = of_host(shape).map(|record| (host, record));
                for (word, data) in self.scaling.sides.data() {
                    let with = if word.is_empty() { shape.to_owned() } else { format!("{shape},{word}") };
                    let found = device.and_then(|NamedRun { run, .. }| Some((run, fastest(self.records(run, &with))?)));
                    if let (None, Some(NamedRun { run, .. })) = (found, device) {
                        let why = self.records(run, &with).filter_map(|r| missing(&r.parts.variant, r));
                        table.missing.extend(why.map(|why| format!("{extent} {}: {why}", table.counts)));
                    }
                    if first.is_some() || found.is_some() {
                        table.points.push(self.point(extent, data, first, found));
                    }
                }
            }
            tables.push(table);
        }
        tables
    }

    fn point(
        &self,
        extent: u64,
        data: &'static str,
        base: Option<(&Run, &Record)>,
        other: Option<(&Run, &Record)>,
    ) -> Point {
        let speedup = base.zip(other).and_then(|(base, other)| {
            judge(other, base, resolution_between(base.0, other.0), device_drift(base.0, other.0))
        });
        let side = |of: Option<(&Run, &Record)>| {
            let (_, record) = of?;
            let variant = record.actual.as_ref().map_or(&record.parts.variant, |actual| &actual.variant);
            Some(Side { variant: variant.clone(), timing: record.timing()?.clone() })
        };
        Point { extent, data, base: side(base), other: side(other), speedup }
    }
}

/// Returns the record with the smallest median, if any has one.
fn fastest<'r>(records: impl Iterator<Item = &'r Record>) -> Option<&'r Record> {
    let median = |record: &Record| record.timing().map(|timing| timing.summary.median.0);
    let timed = records.filter_map(|record| Some((median(record)?, record)));
    timed.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, record)| record)
}

/// Returns the reason for a planned case without a time.
fn missing(name: &str, record: &Record) -> Option<String> {
    let why = match &record.outcome {
        Outcome::Pass(_) => return None,
        Outcome::Skipped { reason } | Outcome::Error { reason } | Outcome::Refused { reason, .. } => reason.clone(),
        Outcome::Fail { check } => check.sentence(),
    };
    Some(format!("`{name}` has no time: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::testing;
    use parallax_schema::testing::spread;
    use parallax_workloads::Registry;

    const ROWS: [(u64, &str); 3] = [
        (10_000, "r10000,g833,d64,sorted"),
        (100_000, "r100000,g8333,d64,sorted"),
        (1_000_000, "r1000000,g83333,d64,sorted"),
    ];

    fn run(target: &str, cases: &[(String, f64)]) -> NamedRun {
        let cases: Vec<(&str, Vec<f64>)> =
            cases.iter().map(|(case, median)| (case.as_str(), spread(*median, 0.002, 40))).collect();
        NamedRun::new(target, testing::run(target, "X", &cases))
    }

    fn hashed(shape: &str, variant: &str, median: f64) -> (String, f64) {
        (format!("hash_embedding/fwd/{shape}/f32/{variant}"), median)
    }

    #[test]
    fn the_host_is_held_against_the_fastest_variant_of_each_device() {
        let host: Vec<_> = ROWS.iter().map(|(rows, shape)| hashed(shape, CPU_VARIANT, *rows as f64)).collect();
        let device: Vec<_> = ROWS
            .iter()
            .flat_map(|(rows, shape)| {
                let time = 50_000.0 + *rows as f64 / 10.0;
                [hashed(shape, "basic", 3.0 * time), hashed(shape, "owner", time)]
            })
            .collect();
        let tables = scaled(&Registry, &[run("cuda", &device), run("cpu", &host), run("wgpu", &device)], None);
        assert_eq!(tables.iter().map(|table| table.other.as_deref()).collect::<Vec<_>>(), [Some("cuda"), Some("wgpu")]);
        let points = &tables[0].points;
        assert_eq!(points.iter().map(|point| point.extent).collect::<Vec<_>>(), ROWS.map(|(rows, _)| rows));
        assert!(points.iter().all(|point| point.other.as_ref().is_some_and(|side| side.variant == "owner")));
        assert_eq!(points.iter().map(Point::is_faster).collect::<Vec<_>>(), [Some(false), Some(true), Some(true)]);
        let speedup = points[2].speedup.as_ref().expect("both sides").value;
        assert!((speedup - 1e6 / 150_000.0).abs() < 0.01, "{speedup}");
    }

    #[test]
    fn without_a_device_there_is_a_table_only_where_somebody_says_why() {
        let host = run("cpu", &[hashed(ROWS[0].1, CPU_VARIANT, 100.0)]);
        assert_eq!(scaled(&Registry, std::slice::from_ref(&host), None), []);
        let tables = scaled(&Registry, &[host], Some("none is there"));
        assert_eq!((tables.len(), tables[0].points.len(), &tables[0].other), (1, 1, &None));
        assert_eq!(tables[0].missing, ["no device: none is there"]);
        assert_eq!(scaled(&Registry, &[run("cuda", &[hashed(ROWS[0].1, "owner", 100.0)])], None), [], "no host");
    }

    #[test]
    fn of_two_variants_a_skip_says_why_there_is_no_answer() {
        let case = |rows: u64, variant: &str| format!("prefetch/fwd/r{rows},g{},d64,f128/f32/{variant}", rows / 64);
        let times = [(case(4096, "serial"), 100.0), (case(4096, "overlapped"), 120.0), (case(8192, "serial"), 200.0)];
        let NamedRun { name, mut run } = run("cuda", &times);
        let tables = scaled(&Registry, &[NamedRun::new(name.clone(), run.clone())], None);
        assert_eq!(tables.len(), 1);
        let faster: Vec<_> = tables[0].points.iter().map(|point| (point.extent, point.is_faster())).collect();
        assert_eq!(faster, [(512, Some(false)), (1024, None)]);
        run.records[1].outcome = Outcome::Skipped { reason: "one queue".to_owned() };
        let tables = scaled(&Registry, &[NamedRun { name, run }], None);
        assert_eq!(tables[0].missing, ["`overlapped` has no time: one queue"]);
        assert!(tables[0].points.iter().all(|point| point.is_faster().is_none()));
    }
}
