//! Words of a plan and of a report, the same on the command line and on the page.

use parallax_analysis::compare::verdict::{Ratio, Verdict, digits};
use parallax_schema::units::{Bytes, percent, significant};
use serde::Serialize;

use crate::agreement::Agreement;
use crate::bench::Report;
use crate::error::Label;
use crate::plan::{Plan, PlannedBinding};
use crate::program::kind_name;
use crate::request::{BindingPoint, Source};

/// A binding of a plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BindingRow {
    /// Group and number.
    pub binding: BindingPoint,
    /// Name of the variable.
    pub name: String,
    /// `uniform`, `read` or `read_write`.
    pub kind: &'static str,
    /// Type; both types where A and B have different ones.
    pub type_name: String,
    /// Elements of its array, if that is sized at run time.
    pub elements: Option<u64>,
    /// Size.
    pub size: String,
    /// Source of the contents.
    pub source: String,
}

/// Returns the bindings of a plan as rows.
pub fn bindings(plan: &Plan) -> Vec<BindingRow> {
    plan.bindings.iter().map(|binding| row(binding, plan)).collect()
}

fn row(binding: &PlannedBinding, plan: &Plan) -> BindingRow {
    let type_name = match &binding.sides {
        [Some(a), Some(b)] if a.type_name != b.type_name => format!("{}; in B {}", a.type_name, b.type_name),
        [Some(_), Some(_)] => binding.declared.type_name.clone(),
        [Some(_), None] => format!("{}; unused in B", binding.declared.type_name),
        _ => format!("{}; unused in A", binding.declared.type_name),
    };
    let uniform = binding.declared.kind == parallax_shaders::BindingKind::Uniform;
    let source = match &binding.source {
        Source::Seeded if uniform => uniform_source(binding, plan.request.elements),
        Source::Seeded => "seeded".to_owned(),
        Source::Zeros => "zeros".to_owned(),
        Source::Values(values) if values.len() == 1 => "one value".to_owned(),
        Source::Values(values) => format!("{} values", values.len()),
        Source::File(_) => "file".to_owned(),
    };
    BindingRow {
        binding: binding.point(),
        name: binding.declared.name.clone(),
        kind: kind_name(binding.declared.kind),
        type_name,
        elements: binding.elements,
        size: Bytes(binding.bytes).to_string(),
        source,
    }
}

/// Returns the source of a uniform buffer without contents of its own: its integers are the number of elements.
fn uniform_source(binding: &PlannedBinding, elements: u64) -> String {
    let (mut integers, mut floats) = (false, false);
    let (layout, own) = binding.layout();
    layout.each(own, 0, &mut |_, scalar| {
        floats |= scalar.is_float();
        integers |= !scalar.is_float();
    });
    match (integers, floats) {
        (true, false) => elements.to_string(),
        (true, true) => format!("integers {elements}, floats seeded"),
        _ => "seeded".to_owned(),
    }
}

/// An output of both kernels.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OutputRow {
    /// Group and number.
    pub binding: BindingPoint,
    /// Name of the variable.
    pub name: String,
    /// `agrees` or `differs`.
    pub verdict: &'static str,
    /// Number of scalars that differ, of all.
    pub differing: String,
    /// Largest absolute difference.
    pub largest: String,
    /// Largest relative difference.
    pub relative: String,
    /// The first difference, or empty.
    pub first: String,
}

/// A timing.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TimeRow {
    /// Kernel.
    pub kernel: Label,
    /// Median time of one execution.
    pub median: String,
    /// 95 % interval of the median.
    pub interval: String,
    /// Number of samples.
    pub samples: String,
    /// Workgroups and their threads.
    pub launch: String,
}

/// Words of a report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct View {
    /// Device with its interface.
    pub device: String,
    /// Whether all outputs agree.
    pub agrees: bool,
    /// Result in one or two sentences.
    pub sentence: String,
    /// Outputs.
    pub outputs: Vec<OutputRow>,
    /// Timings, without those of outputs that differ.
    pub times: Vec<TimeRow>,
    /// Ratio with its interval and verdict, if there is one.
    pub ratio: Option<String>,
    /// Remarks.
    pub notes: Vec<String>,
}

impl From<&Report> for View {
    fn from(report: &Report) -> View {
        let timed = Label::BOTH.into_iter().zip(report.timings.iter().flatten());
        let times = timed.map(|(kernel, timing)| {
            let [x, y, z] = report.grids[kernel as usize];
            let [w, h, d] = report.workgroups[kernel as usize];
            let summary = &timing.summary;
            TimeRow {
                kernel,
                median: summary.median.to_string(),
                interval: format!("{} to {}", summary.low, summary.high),
                samples: summary.n.to_string(),
                launch: format!("{x}×{y}×{z} workgroups of {w}×{h}×{d}"),
            }
        });
        View {
            device: format!("{} ({})", report.device, report.api),
            agrees: report.agrees(),
            sentence: sentence(report),
            outputs: report.outputs.iter().map(output).collect(),
            times: times.collect(),
            ratio: report.ratio.as_ref().map(Ratio::to_string),
            notes: notes(report),
        }
    }
}

fn number(value: f64) -> String {
    format!("{}", significant(value, 6))
}

fn output(output: &Agreement) -> OutputRow {
    let first =
        output.first.map(|first| format!("[{}]: {} in A, {} in B", first.index, number(first.a), number(first.b)));
    OutputRow {
        binding: output.binding,
        name: output.name.clone(),
        verdict: if output.holds() { "agrees" } else { "differs" },
        differing: format!("{} of {}", output.differing, output.scalars),
        largest: number(output.largest),
        relative: if output.largest_relative > 0.0 { percent(output.largest_relative) } else { "0".to_owned() },
        first: first.unwrap_or_default(),
    }
}

fn sentence(report: &Report) -> String {
    if !report.agrees() {
        let differing = report.outputs.iter().filter(|output| !output.holds());
        let names: Vec<String> = differing.map(|output| format!("`{}`", output.name)).collect();
        let why = report.no_time.as_deref().unwrap_or("the outputs differ");
        return format!("No time is shown, because {why}: {}.", names.join(", "));
    }
    let Some(ratio) = &report.ratio else {
        return format!("The outputs agree. There is no time: {}.", report.no_time.as_deref().unwrap_or("no sample"));
    };
    let resolution = percent(ratio.resolution.value);
    let verdict = match ratio.verdict {
        Verdict::Faster => format!("B is faster than A: it takes {} of A's time", digits(ratio.value)),
        Verdict::Slower => format!("B is slower than A: it takes {} of A's time", digits(ratio.value)),
        Verdict::Same => format!("A and B take the same time, within {resolution}"),
        Verdict::Undecided => "The times are undecided".to_owned(),
    };
    format!("The outputs agree. {verdict}.")
}

fn notes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    for output in &report.outputs {
        let (name, scalars) = (&output.name, output.scalars);
        match output.changed {
            [0, 0] => notes.push(format!("Neither kernel changed `{name}`: its agreement says nothing.")),
            [a, b] if a < scalars && b < scalars => {
                notes.push(format!("A changed {a} of {scalars} scalars of `{name}`, and B changed {b}."));
            }
            _ => {}
        }
        if output.nan != [0, 0] {
            notes.push(format!("`{name}` has {} NaN in A and {} in B.", output.nan[0], output.nan[1]));
        }
    }
    if report.kind.is_emulated() {
        notes.push(format!("{} is an emulation: its times say nothing about a GPU.", report.device));
    }
    let remarks = report.ratio.iter().flat_map(|ratio| &ratio.notes);
    notes.extend(remarks.map(|note| parallax_schema::units::sentence(note)));
    let caveats = Label::BOTH.into_iter().zip(report.timings.iter().flatten());
    notes.extend(caveats.filter_map(|(label, timing)| Some(format!("{label}: {}.", timing.caveat.as_deref()?))));
    notes
}
