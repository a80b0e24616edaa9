//! Coverage of the suite: every variant of each function of each workload, with its targets and element types, and a reason for
//! every gap.
//!
//! The devices are imaginary and have every capability that a kernel uses. The document therefore changes with the suite and not
//! with the machine. The plan of a real device lists its missing capabilities.

use std::collections::HashMap;
use std::fmt::Write;

use parallax_ir::device::typical;
use parallax_ir::{Axis, AxisKind, Case, OpSpec, Workload};
use parallax_schema::case::{DType, Direction, Preset};
use parallax_schema::device::{Caps, Dialect};
use parallax_schema::grouped;
use parallax_schema::spec::Spec;
use parallax_workloads::all;

use crate::plan::plan;

/// Returns the targets with a GPU, the language of their kernels, and the capabilities of a device of each.
fn targets() -> [(&'static str, &'static str, Caps); 3] {
    let [cuda, native, browser] = [typical::cuda(), typical::native(), typical::browser()];
    [("cuda", "CUDA", cuda), ("wgpu", "WGSL", native), ("browser", "WGSL", browser)]
}

/// Presets of the shapes: the smallest and the largest.
const PRESETS: [Preset; 2] = [Preset::Awkward, Preset::Full];

/// Number of GPUs of a group: that of the largest group among the shapes.
const GROUP: u32 = 5;

/// Returns the capabilities of a group of such devices, where its language has groups.
fn group(caps: &Caps) -> Caps {
    let ranks = if caps.dialect == Dialect::Cuda { GROUP } else { caps.ranks };
    Caps { ranks, ..caps.clone() }
}

/// Returns the names of all workloads with shapes for a group. The presets of one GPU leave these shapes out.
fn on_groups() -> Vec<String> {
    all().iter().filter(|workload| workload.has_gpus_axis()).map(|workload| workload.name.to_owned()).collect()
}

/// Coverage of one variant, in one element type on one target.
#[derive(Default)]
struct Seen {
    runs: bool,
    /// Reason of the first shape that does not run.
    gap: Option<String>,
}

/// Key of a coverage entry: workload, direction, variant, target and element type.
type CoverageKey = (&'static str, Direction, &'static str, &'static str, DType);

fn seen() -> HashMap<CoverageKey, Seen> {
    let mut seen: HashMap<CoverageKey, Seen> = HashMap::new();
    for (target, _, caps) in targets() {
        let one_gpu = PRESETS.map(|preset| (Spec { preset, ..Spec::default() }, caps.clone()));
        let of_group = PRESETS.map(|preset| (Spec { preset, filter: on_groups(), ..Spec::default() }, group(&caps)));
        for (spec, caps) in one_gpu.into_iter().chain(of_group) {
            let all = plan(&spec, &caps).expect("every device can run something");
            let mut at = |case: &Case, gap: Option<&str>| {
                let Case { problem, variant } = case;
                let place = (problem.workload.name, problem.direction, *variant, target, problem.dtype);
                let seen = seen.entry(place).or_default();
                match gap {
                    None => seen.runs = true,
                    Some(why) if seen.gap.is_none() => seen.gap = Some(why.to_owned()),
                    Some(_) => {}
                }
            };
            all.cases.iter().for_each(|planned| at(&planned.case, None));
            all.skips.iter().for_each(|skip| at(&skip.case, Some(&skip.reason)));
        }
    }
    seen
}

/// Numbered gaps of a workload, in the order of their first occurrence.
#[derive(Default)]
struct Notes {
    notes: Vec<String>,
}

impl Notes {
    /// Returns the number of a note. Reasons that differ only in the figures of a shape share a number.
    fn number(&mut self, note: String) -> usize {
        let words = |text: &str| text.split(|c: char| c.is_ascii_digit() || c == '.').collect::<String>();
        let known = self.notes.iter().position(|known| words(known) == words(&note));
        known.unwrap_or_else(|| {
            self.notes.push(note);
            self.notes.len() - 1
        }) + 1
    }
}

/// Returns one cell: the element types that run, each with the number of its gap.
fn cell(
    seen: &HashMap<CoverageKey, Seen>,
    (workload, direction, variant): (&'static str, Direction, &'static str),
    (target, caps): (&'static str, &Caps),
    notes: &mut Notes,
) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut missing: Vec<(&str, &str)> = Vec::new();
    for dtype in &caps.dtypes {
        match seen.get(&(workload, direction, variant, target, *dtype)) {
            Some(Seen { runs: true, gap: None }) => words.push(dtype.name().to_owned()),
            Some(Seen { runs: true, gap: Some(why) }) => {
                words.push(format!("{} ({})", dtype.name(), notes.number(format!("some shapes: {why}"))));
            }
            Some(Seen { gap: Some(why), .. }) => missing.push((why, dtype.name())),
            _ => {}
        }
    }
    // If no element type runs, a reason common to all needs no type.
    let (nothing, count) = (words.is_empty(), missing.len());
    for (why, types) in grouped(missing) {
        let note =
            if nothing && types.len() == count { why.to_owned() } else { format!("{}: {why}", types.join(", ")) };
        words.push(format!("– ({})", notes.number(note)));
    }
    words.join(" ")
}

/// Returns the parts of a shape: the letters or words of each axis, its meaning, and its value when it is left out.
fn shape(workload: &Workload) -> String {
    let part = |axis: &Axis| {
        let Axis { key, about, .. } = axis;
        match axis.kind {
            AxisKind::Extent { .. } => format!("`{key}` {about}"),
            AxisKind::Optional { default, .. } => format!("`{key}` {about} (else {default})"),
            AxisKind::SameAs(other) => format!("`{key}` {about} (else `{other}`)"),
            AxisKind::Decimal { default, .. } => format!("`{key}` {about} (else {})", default as f64 / 1e9),
            AxisKind::Word(words) => {
                let named = words.iter().filter(|word| !word.is_empty()).map(|word| format!("`{word}`"));
                let left_out = if words[0].is_empty() { String::new() } else { format!(" (else `{}`)", words[0]) };
                format!("{} {about}{left_out}", named.collect::<Vec<_>>().join("|"))
            }
        }
    };
    workload.axes.iter().map(part).collect::<Vec<_>>().join(", ")
}

fn table(workload: &'static Workload, seen: &HashMap<CoverageKey, Seen>) -> String {
    let targets = targets();
    let mut out = format!(
        "\n## {}\n\n{}.\n\nShape: {}.\n\n| direction | variant |",
        workload.name,
        workload.about,
        shape(workload)
    );
    targets.iter().for_each(|(target, ..)| _ = write!(out, " {target} |"));
    out += "\n| --- | --- |";
    out += &" --- |".repeat(targets.len());
    out.push('\n');
    let mut notes = Notes::default();
    for form in &workload.forms {
        for variant in &form.variants {
            let at = (workload.name, form.direction, variant.name);
            let _ = write!(out, "| {} | {} |", form.direction.name(), variant.name);
            for (target, _, caps) in &targets {
                let _ = write!(out, " {} |", cell(seen, at, (target, caps), &mut notes));
            }
            out.push('\n');
        }
    }
    let on_the_host = workload.forms.iter().map(|form| match form.host {
        Some(_) => format!("{} by code of its own", form.direction.name()),
        None => format!("{} by the reference", form.direction.name()),
    });
    let _ = writeln!(out, "\nOn `cpu` and `wasm`, in f32: {}.", on_the_host.collect::<Vec<_>>().join(", "));
    for (number, note) in (1..).zip(&notes.notes) {
        let _ = writeln!(out, "{}{number}. {note}", if number == 1 { "\n" } else { "" });
    }
    out
}

/// Returns the coverage as Markdown.
pub fn coverage() -> String {
    let seen = seen();
    let forms: Vec<&OpSpec> = all().iter().flat_map(|workload| &workload.forms).collect();
    let variants: usize = forms.iter().map(|form| form.variants.len()).sum();
    let mut out = format!(
        "# Coverage\n\n{} workloads, {} of their directions, {variants} variants. Made by `parallax list --coverage`; a test keeps it true.\n\n\
         Where a cell names a type, the variant runs there in that type at the shapes of the presets awkward and full, on a device that has all \
         that kernels here use: ",
        all().len(),
        forms.len(),
    );
    let devices = targets().map(|(target, language, caps)| {
        let types: Vec<&str> = caps.dtypes.iter().map(|dtype| dtype.name()).collect();
        format!("`{target}` ({language}: {})", types.join(", "))
    });
    let _ = writeln!(
        out,
        "{}. A number in brackets leads to the reason of a gap, with the figures of one shape.",
        devices.join(", ")
    );
    all().iter().for_each(|workload| out += &table(workload, &seen));
    out
}
