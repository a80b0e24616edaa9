//! Times of workloads whose items several GPUs divide, and their efficiency against one GPU.
//!
//! Two efficiencies compare with one GPU, in its fastest variant:
//!
//! - weak: the same number of items on each GPU. One GPU's time over the time of all.
//! - strong: the same number of items in all. One GPU's time over the time of all, over the number of GPUs.

use parallax_schema::catalog::{Catalog, Divided};
use parallax_schema::record::{NamedRun, Parts, Record, Run, Timing};

use crate::compare::verdict::resolution_between;
use crate::compare::{device_drift, judge};

/// Times of one workload on numbers of GPUs of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct GpuTable {
    /// Workload, direction, the rest of the shape, and element type.
    pub name: String,
    /// Noun for the items, in the plural.
    pub items: &'static str,
    /// Name of one GPU.
    pub device: String,
    /// Lines, in the order of the runs.
    pub lines: Vec<GpuLine>,
}

/// One line: a variant on several GPUs.
#[derive(Debug, Clone, PartialEq)]
pub struct GpuLine {
    /// Items in all.
    pub items: u64,
    /// Number of GPUs.
    pub gpus: u64,
    /// Variant that ran.
    pub variant: String,
    /// Time of the GPUs together.
    pub timing: Timing,
    /// Efficiency with the same items on each GPU; absent without one GPU's time on that many.
    pub weak: Option<Efficiency>,
    /// Efficiency with the same items in all; absent without one GPU's time on all of them.
    pub strong: Option<Efficiency>,
}

/// Efficiency of several GPUs, one if each does as much in a time as one alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Efficiency {
    /// Time of one GPU.
    pub alone: Timing,
    /// Efficiency by the medians.
    pub value: f64,
    /// Ends of its interval; absent with too few samples.
    pub interval: Option<[f64; 2]>,
}

/// Returns a table for each workload, shape and kind of GPU with a time on several GPUs.
pub fn over_gpus(catalog: &dyn Catalog, runs: &[NamedRun]) -> Vec<GpuTable> {
    let all: Vec<Timed> = runs.iter().flat_map(|NamedRun { run, .. }| timed(catalog, run)).collect();
    let mut tables: Vec<GpuTable> = Vec::new();
    for one in all.iter().filter(|one| one.gpus() > 1) {
        let at = tables.iter().position(|table| table.name == one.name && table.device == one.device);
        let at = at.unwrap_or_else(|| {
            let (name, device) = (one.name.clone(), one.device.to_owned());
            tables.push(GpuTable { name, items: one.axes.name, device, lines: Vec::new() });
            tables.len() - 1
        });
        tables[at].lines.push(one.line(&all));
    }
    tables
}

/// Record with a time, of a workload whose items GPUs divide.
struct Timed<'a> {
    run: &'a Run,
    record: &'a Record,
    timing: &'a Timing,
    axes: Divided,
    name: String,
    device: &'a str,
}

fn timed<'a>(catalog: &dyn Catalog, run: &'a Run) -> Vec<Timed<'a>> {
    let device = one_of(&run.device().name);
    let of = |record: &'a Record| {
        let axes = catalog.divided(&record.parts.workload)?;
        let timing = record.timing().filter(|_| !record.case.ends_with(']'))?;
        let name = name_without(axes, record)?;
        Some(Timed { run, record, timing, axes, name, device })
    };
    run.records.iter().filter_map(of).collect()
}

/// Returns the name of one device of a group, which has their number before it.
fn one_of(name: &str) -> &str {
    match name.split_once(" × ") {
        Some((number, one)) if number.parse::<u32>().is_ok() => one,
        _ => name,
    }
}

/// Returns the problem's string without the extents of both axes.
fn name_without(axes: Divided, record: &Record) -> Option<String> {
    let parts: Vec<&str> = record.case.split('/').collect();
    let [workload, direction, shape, dtype, _] = parts[..] else { return None };
    let is = |token: &str, key: &str| {
        token.strip_prefix(key).is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let rest: Vec<&str> = shape.split(',').filter(|token| !is(token, axes.items) && !is(token, axes.gpus)).collect();
    Some(format!("{workload}/{direction}/{}/{dtype}", rest.join(",")))
}

impl Timed<'_> {
    fn extent(&self, key: &str) -> u64 {
        let Parts { shape, .. } = &self.record.parts;
        shape.get(key).copied().unwrap_or(1)
    }

    fn gpus(&self) -> u64 {
        self.extent(self.axes.gpus)
    }

    fn items(&self) -> u64 {
        self.extent(self.axes.items)
    }

    /// Returns the efficiency against the fastest variant of one GPU with `items` items, whose time stands for `share` of the time.
    fn against(&self, all: &[Timed], items: u64, share: f64) -> Option<Efficiency> {
        let like = |one: &&Timed| {
            one.gpus() == 1 && one.items() == items && one.name == self.name && one.device == self.device
        };
        let median = |one: &Timed| one.timing.summary.median.0;
        let alone = all.iter().filter(like).min_by(|a, b| median(a).total_cmp(&median(b)))?;
        let (resolution, drift) = (resolution_between(self.run, alone.run), device_drift(self.run, alone.run));
        let ratio = judge((self.run, self.record), (alone.run, alone.record), resolution, drift)?;
        Some(Efficiency {
            alone: alone.timing.clone(),
            value: ratio.value * share,
            interval: ratio.low.zip(ratio.high).map(|(low, high)| [low * share, high * share]),
        })
    }

    fn line(&self, all: &[Timed]) -> GpuLine {
        let (items, gpus) = (self.items(), self.gpus());
        let variant = self.record.actual.as_ref().map_or(&self.record.parts.variant, |actual| &actual.variant);
        GpuLine {
            items,
            gpus,
            variant: variant.clone(),
            timing: self.timing.clone(),
            weak: self.against(all, items / gpus, 1.0),
            strong: self.against(all, items, 1.0 / gpus as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::testing;
    use parallax_schema::testing::spread;
    use parallax_workloads::{Registry, parse_case};

    fn run(device: &str, cases: &[(&str, &str, f64)]) -> NamedRun {
        let name = |shape: &str, variant: &str| format!("train_step/fwd+bwd/{shape}/f32/{variant}");
        let cases: Vec<(String, Vec<f64>)> =
            cases.iter().map(|(shape, variant, time)| (name(shape, variant), spread(*time, 0.002, 40))).collect();
        let cases: Vec<(&str, Vec<f64>)> = cases.iter().map(|(case, times)| (case.as_str(), times.clone())).collect();
        let mut run = testing::run("cuda", device, &cases);
        for record in &mut run.records {
            record.parts = parse_case(&record.case).expect("valid").parts();
        }
        NamedRun::new(device, run)
    }

    const REST: &str = "e8,v1000,d64,f256";

    fn all() -> Vec<NamedRun> {
        let shape = |n: u64, gpus: &str| format!("n{n},{REST}{gpus}");
        let [small, middle, large] = [4096, 8192, 16_384].map(|n| shape(n, ""));
        let [two, four] = [(8192, ",gpus2"), (16_384, ",gpus4")].map(|(n, gpus)| shape(n, gpus));
        let alone = run(
            "H",
            &[
                (&small, "fused", 100.0),
                (&small, "separate", 300.0),
                (&middle, "fused", 180.0),
                (&large, "fused", 360.0),
            ],
        );
        let pair = run("2 × H", &[(&two, "fused", 125.0), (&two, "overlapped", 110.0)]);
        let other = run("4 × G", &[(&four, "fused", 120.0)]);
        vec![alone, pair, run("4 × H", &[(&four, "overlapped", 120.0)]), other]
    }

    #[test]
    fn both_efficiencies_are_against_the_fastest_variant_of_one_gpu_of_the_kind() {
        let tables = over_gpus(&Registry, &all());
        let named: Vec<_> = tables.iter().map(|table| (&*table.name, &*table.device, table.items)).collect();
        let name = "train_step/fwd+bwd/e8,v1000,d64,f256/f32";
        assert_eq!(named, [(name, "H", "samples"), (name, "G", "samples")]);
        let found: Vec<_> = tables[0].lines.iter().map(|line| (line.items, line.gpus, &*line.variant)).collect();
        assert_eq!(found, [(8192, 2, "fused"), (8192, 2, "overlapped"), (16_384, 4, "overlapped")]);
        let weak = [100.0 / 125.0, 100.0 / 110.0, 100.0 / 120.0];
        let strong = [180.0 / 250.0, 180.0 / 220.0, 360.0 / 480.0];
        for (line, (weak, strong)) in tables[0].lines.iter().zip(weak.into_iter().zip(strong)) {
            for (found, want) in [(&line.weak, weak), (&line.strong, strong)] {
                let found = found.as_ref().expect("measured");
                assert!((found.value - want).abs() < 1e-3, "{} and {want}", found.value);
                let [low, high] = found.interval.expect("enough samples");
                assert!(low <= found.value && found.value <= high, "{low} {high}");
            }
        }
        assert_eq!((&tables[1].lines[0].weak, &tables[1].lines[0].strong), (&None, &None), "no GPU of the kind alone");
    }

    #[test]
    fn one_gpu_has_no_table_and_neither_have_collectives() {
        let alone = &all()[..1];
        assert_eq!(over_gpus(&Registry, alone), []);
        let mut run = testing::run("cuda", "2 × H", &[("all_reduce/fwd/n256/f32/nccl", spread(10.0, 0.002, 40))]);
        run.records[0].parts = parse_case(&run.records[0].case).expect("valid").parts();
        assert_eq!(over_gpus(&Registry, &[NamedRun::new("2 × H", run)]), []);
    }
}
