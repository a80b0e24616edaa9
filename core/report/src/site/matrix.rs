//! Workloads by devices: the time of each device over the best, a matrix per target that several devices have.

use std::collections::BTreeMap;

use maud::{Markup, html};
use parallax_analysis::Family;
use parallax_analysis::compare::fastest;
use parallax_schema::case::{by_case, problem_of, workload_of};
use parallax_schema::record::Route;
use parallax_schema::record::stats::geometric_mean;

use super::devices::Devices;
use crate::html::short;
use crate::route_name;

/// A target on several devices.
pub(super) struct Matrix {
    title: String,
    devices: Vec<String>,
    rows: Vec<Row>,
}

/// A workload: on each device, the geometric mean of its times over the best times. Absent without a problem in common with other
/// devices.
struct Row {
    workload: String,
    ratios: Vec<Option<f64>>,
}

/// Shades of cells: the largest ratio of each but the last.
const SHADES: [f64; 4] = [1.05, 1.5, 3.0, 10.0];

/// Order of targets: browsers first.
const TARGETS: [&str; 3] = ["browser", "wgpu", "cuda"];

/// Returns a matrix per target with common problems on at least two devices.
pub(super) fn matrices(devices: &Devices<'_>) -> Vec<Matrix> {
    let mut ways = devices.ways();
    let place = |target: &str| TARGETS.iter().position(|known| *known == target).unwrap_or(TARGETS.len());
    ways.sort_by_key(|route| place(&route.target));
    ways.iter().filter_map(|route| matrix(devices, route)).collect()
}

fn matrix(devices: &Devices<'_>, route: &Route) -> Option<Matrix> {
    let mut names = Vec::new();
    // Times of a problem by device.
    let mut times: BTreeMap<&str, Vec<(usize, f64)>> = BTreeMap::new();
    for device in devices.all() {
        let mut runs = device.through(route).peekable();
        if runs.peek().is_none() {
            continue;
        }
        for run in runs.map(|kept| kept.run) {
            for problem in run.records.iter().map(|record| problem_of(&record.case)) {
                let known = times.entry(problem).or_default();
                if known.iter().any(|(at, _)| *at == names.len()) {
                    continue;
                }
                let time = fastest(run, problem, |_| true).and_then(|record| Some(record.timing()?.summary.median.0));
                known.extend(time.filter(|time| *time > 0.0).map(|time| (names.len(), time)));
            }
        }
        names.push(device.name.clone());
    }
    let mut ratios: BTreeMap<&str, Vec<Vec<f64>>> = BTreeMap::new();
    for (problem, times) in times.iter().filter(|(_, times)| times.len() > 1) {
        let best = times.iter().map(|(_, time)| *time).fold(f64::INFINITY, f64::min);
        let row = ratios.entry(workload_of(problem)).or_insert_with(|| vec![Vec::new(); names.len()]);
        times.iter().for_each(|(device, time)| row[*device].push(time / best));
    }
    let mean = |ratios: Vec<f64>| geometric_mean(ratios).map(|(mean, _)| mean);
    let row = |(workload, ratios): (&str, Vec<Vec<f64>>)| Row {
        workload: workload.to_owned(),
        ratios: ratios.into_iter().map(mean).collect(),
    };
    let mut rows: Vec<Row> = ratios.into_iter().map(row).collect();
    rows.sort_by(|a, b| by_case(&a.workload, &b.workload));
    (!rows.is_empty()).then(|| Matrix { title: route_name(route), devices: names, rows })
}

impl Matrix {
    /// Returns the matrix as a section.
    pub fn section(&self) -> Markup {
        let width = if self.devices.len() < 6 { "some" } else { "many" };
        html! {
            section.matrix {
                h2 { "Devices through " (self.title) }
                p.soft { "The fastest version's time over that of the best device: the geometric mean over problems in common." }
                div.wide.(width) tabindex="0" {
                    table {
                        thead { tr { th { "workload" } @for name in &self.devices { th.right { (name) } } } }
                        tbody { @for row in &self.rows { (row.line(&self.devices)) } }
                    }
                }
            }
        }
    }
}

impl Row {
    fn line(&self, devices: &[String]) -> Markup {
        html! {
            tr data-f=(Family::of(&self.workload).key()) {
                td { (self.workload) }
                @for (ratio, name) in self.ratios.iter().zip(devices) {
                    @match ratio {
                        Some(ratio) => { td class=(format!("right heat{}", shade(*ratio))) data-t=(name) { (short(*ratio)) } }
                        None => { td.right data-t=(name) { "–" } }
                    }
                }
            }
        }
    }
}

/// Returns the number of a ratio's shade.
fn shade(ratio: f64) -> usize {
    SHADES.iter().position(|most| ratio <= *most).unwrap_or(SHADES.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::record::NamedRun;
    use parallax_schema::testing::{run, spread};
    use parallax_workloads::Registry;

    #[test]
    fn two_devices_make_a_matrix_and_one_makes_none() {
        let of = |device: &str, target: &str, time: f64| -> NamedRun {
            let run = run(target, device, &[("copy/fwd/n64/f32/vec4", spread(time, 0.002, 40))]);
            NamedRun::new(format!("{target} on {device}"), run)
        };
        let all = [of("A", "browser", 100.0), of("B", "browser", 400.0), of("B", "cuda", 50.0)];
        let found = |runs: &[NamedRun]| {
            let matrices = matrices(&Devices::new(&Registry, runs));
            matrices.iter().map(|matrix| matrix.section().into_string()).collect::<Vec<_>>()
        };
        assert!(found(&all[1..]).is_empty(), "one device a target");
        let [text] = &found(&all)[..] else { panic!("one target in common") };
        for part in ["the browser", "heat0", "1.00×", "heat3", "4.00×", "data-f=\"memory\""] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!([1.0, 1.05, 1.2, 3.0, 9.0, 11.0].map(shade), [0, 0, 1, 2, 3, 4]);
    }
}
