//! Energy of the same kernel through several targets of one device.

use maud::{Markup, html};
use parallax_schema::record::{EnergyFigure, Record};
use parallax_schema::units::percent;

use super::devices::{Devices, OnDevice};
use super::frame::Head;
use crate::html::short;
use crate::{joules, route_name};

/// Kernels of a device whose energy is known through at least two targets.
pub(super) struct Joules<'d, 'r> {
    device: &'d OnDevice<'r>,
    /// Names of the targets, nearest to the hardware first.
    targets: Vec<String>,
    rows: Vec<Row<'r>>,
}

/// A case, and its energy through each target.
struct Row<'r> {
    case: &'r str,
    label: Option<String>,
    figures: Vec<Option<&'r EnergyFigure>>,
}

/// Returns the energies of the first device with such kernels.
pub(super) fn of_devices<'d, 'r>(devices: &'d Devices<'r>) -> Option<Joules<'d, 'r>> {
    devices.all().iter().find_map(|device| {
        let mut targets: Vec<String> = Vec::new();
        let mut rows: Vec<Row<'r>> = Vec::new();
        for run in device.runs.iter().map(|kept| kept.run) {
            let figures: Vec<(&'r Record, &'r EnergyFigure)> =
                run.records.iter().filter_map(|record| Some((record, record.energy()?))).collect();
            if figures.is_empty() {
                continue;
            }
            let name = route_name(&run.route());
            let column = targets.iter().position(|target| *target == name).unwrap_or(targets.len());
            if column == targets.len() {
                targets.push(name);
            }
            for (record, figure) in figures {
                let at = rows.iter().position(|row| row.case == record.case).unwrap_or(rows.len());
                if at == rows.len() {
                    let label = devices.catalog.label(&record.case);
                    rows.push(Row { case: &record.case, label, figures: Vec::new() });
                }
                let figures = &mut rows[at].figures;
                figures.resize(figures.len().max(column + 1), None);
                // The newest run of a target comes first.
                figures[column] = figures[column].or(Some(figure));
            }
        }
        rows.iter_mut().for_each(|row| row.figures.resize(targets.len(), None));
        rows.retain(|row| row.figures.iter().flatten().count() > 1);
        (!rows.is_empty()).then_some(Joules { device, targets, rows })
    })
}

impl Joules<'_, '_> {
    /// Returns the section.
    pub fn section(&self, head: &Head<'_>) -> Markup {
        html! {
            section.matrix {
                h2 { "The same in joules" }
                p.soft {
                    "Energy of one execution of the same kernel on "
                    a.plain href=(head.to(&format!("{}/", self.device.path()))) { (self.device.name) }
                    ", by the counter of the whole device, with 95 % intervals. Factors are to the first figure of a row."
                }
                div.wide.some tabindex="0" {
                    table {
                        thead { tr { th { "kernel" } @for target in &self.targets { th.right { (target) } } } }
                        tbody { @for row in &self.rows { (row.line(&self.targets)) } }
                    }
                }
            }
        }
    }
}

impl Row<'_> {
    fn line(&self, targets: &[String]) -> Markup {
        let first = self.figures.iter().flatten().next().map_or(f64::NAN, |figure| figure.joules);
        html! {
            tr {
                td { @if let Some(label) = &self.label { (label) " " } code { (self.case) } }
                @for (figure, target) in self.figures.iter().zip(targets) {
                    td.right data-t=(target) {
                        @match figure {
                            Some(figure) => {
                                (joules(figure.joules)) " ± " (percent((figure.high - figure.low) / 2.0 / figure.joules))
                                @if figure.joules != first { " (" (short(figure.joules / first)) ")" }
                            }
                            None => { "–" }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use parallax_schema::record::{Energy, NamedRun};
    use parallax_schema::testing::{energy, measured, run, spread};
    use parallax_workloads::Registry;

    use super::*;

    #[test]
    fn kernels_with_energy_through_two_targets_have_a_row() {
        const CASES: [&str; 2] = ["copy/fwd/n64/f32/vec4", "gelu/fwd/n64,tanh/f32/vector"];
        let of = |target: &str, known: &[(usize, f64)]| {
            let mut run = run(target, "A", &CASES.map(|case| (case, spread(100.0, 0.01, 20))));
            for (case, value) in known {
                measured(&mut run, CASES[*case]).energy = Some(Energy::Measured(Box::new(energy(*value))));
            }
            NamedRun::new(target.to_owned(), run)
        };
        let head = Head { depth: 0, title: "", about: "" };
        let found = |runs: &[NamedRun]| {
            of_devices(&Devices::new(&Registry, runs)).map(|joules| joules.section(&head).into_string())
        };
        assert_eq!(found(&[of("cuda", &[(0, 2.0), (1, 1.0)]), of("browser", &[])]), None);
        let runs = [of("browser", &[(0, 3.0)]), of("wgpu", &[]), of("cuda", &[(0, 2.0), (1, 1.0)])];
        let text = found(&runs).expect("one kernel in common");
        for part in ["CUDA", "the browser", "2.00 J ± 1.00 %", "3.00 J ± 1.00 % (1.50×)", CASES[0]] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains(CASES[1]) && !text.contains("native WebGPU"), "{text}");
    }
}
