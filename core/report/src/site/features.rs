//! Features of a device by target: yes, no, or behind a flag of the browser.

use maud::{Markup, html};
use parallax_schema::case::DType;
use parallax_schema::device::{BrowserMode, Dialect};
use parallax_schema::record::Run;

use super::devices::{Devices, Kept, OnDevice};
use crate::html::table;
use crate::{Cell, Column, Mark, Rank, Remark, Table, Tone, target_name};

/// A feature.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Feature {
    /// Element type of kernels.
    Type(DType),
    /// Exchange between neighbouring threads.
    Subgroups,
    /// Matrix units that kernels can address.
    Matrices,
    /// Feature under its name in an interface.
    Named(Dialect, String),
}

impl Feature {
    fn name(&self) -> String {
        match self {
            Feature::Type(dtype) => format!("element type {}", dtype.name()),
            Feature::Subgroups => "exchange between threads (subgroups)".to_owned(),
            Feature::Matrices => "matrix units in kernels".to_owned(),
            Feature::Named(_, name) => name.clone(),
        }
    }

    /// Returns whether a run had the feature.
    fn of(&self, run: &Run) -> bool {
        let device = run.device();
        match self {
            Feature::Type(dtype) => device.caps.dtypes.contains(dtype),
            Feature::Subgroups => device.caps.subgroup.is_some(),
            Feature::Matrices => device.caps.matrix_units || device.caps.coop_matrix(),
            Feature::Named(_, name) => device.features.contains(name),
        }
    }

    /// Returns whether the interface of a run has a name for the feature.
    fn has_a_name(&self, run: &Run) -> bool {
        !matches!(self, Feature::Named(dialect, _) if *dialect != run.device().caps.dialect)
    }
}

/// Support of a feature by a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Support {
    Yes,
    /// Found in a run of a browser that does not record its flags.
    Unsaid,
    Flag,
    No,
    /// The interface has no feature of that name.
    Nameless,
}

impl Support {
    /// Returns the support by the runs of one target.
    fn of<'r>(feature: &Feature, runs: impl Iterator<Item = &'r Run> + Clone) -> Support {
        let having = |reach: &dyn Fn(&Run) -> bool| runs.clone().any(|run| feature.of(run) && reach(run));
        if having(&|run| run.reach == Some(BrowserMode::Stock) || run.target != "browser") {
            Support::Yes
        } else if having(&|run| run.reach.is_none()) {
            Support::Unsaid
        } else if having(&|_| true) {
            Support::Flag
        } else if runs.clone().any(|run| feature.has_a_name(run)) {
            Support::No
        } else {
            Support::Nameless
        }
    }

    fn cell(self) -> Cell {
        let (text, tone) = match self {
            Support::Yes | Support::Unsaid => ("yes", Tone::Good),
            Support::Flag => ("with a flag", Tone::Doubtful),
            Support::No => ("no", Tone::Bad),
            Support::Nameless => ("–", Tone::Plain),
        };
        Cell { tone, ..text.into() }
    }
}

/// Returns a table per device.
pub(super) fn features(devices: &Devices<'_>) -> Markup {
    html! { @for device in devices.all() { section { h2 { (device.name) } (table(&of_device(device))) } } }
}

/// Returns a table with a row per feature and a column per target.
fn of_device(device: &OnDevice<'_>) -> Table {
    let views = device.views();
    let all = all(device);
    let title = |view: &&Kept<'_>| target_name(&view.run.target).to_owned();
    let support = |feature: &Feature, view: &Kept<'_>| {
        let runs = device.runs.iter().map(|kept| kept.run).filter(|run| run.target == view.run.target);
        Support::of(feature, runs)
    };
    let mut unsaid = Vec::new();
    let mut rows = Vec::new();
    for (row, feature) in all.iter().enumerate() {
        let mut cells: Vec<Cell> = vec![feature.name().into()];
        for (i, view) in views.iter().enumerate() {
            let support = support(feature, view);
            if support == Support::Unsaid {
                unsaid.push(Mark { row, column: i + 1, name: feature.name() });
            }
            cells.push(support.cell());
        }
        rows.push(cells);
    }
    let columns = std::iter::once(Column::text("feature"))
        .chain(views.iter().map(|view| Column { right: false, ..Column::figure(&title(view), Rank::Essential) }));
    let remark = "the run does not record the flags of its browser".to_owned();
    Table {
        columns: columns.collect(),
        rows,
        remarks: Remark::some(remark, unsaid).into_iter().collect(),
        notes: vec!["–: the interface has no feature of that name".to_owned()],
        ..Table::default()
    }
}

/// Returns every feature that some target of a device has, and the common ones.
fn all(device: &OnDevice<'_>) -> Vec<Feature> {
    let mut all: Vec<Feature> = DType::ALL.iter().map(|(_, dtype)| Feature::Type(*dtype)).collect();
    all.extend([Feature::Subgroups, Feature::Matrices]);
    for run in device.runs.iter().map(|kept| kept.run) {
        for name in &run.device().features {
            let feature = Feature::Named(run.device().caps.dialect, name.clone());
            if !all.contains(&feature) {
                all.push(feature);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::testing::run;

    #[test]
    fn a_feature_is_there_behind_a_flag_or_absent() {
        let of = |target: &str, reach: Option<BrowserMode>, feature: &str| {
            let mut run = run(target, "X", &[]);
            run.reach = reach;
            run.devices[0].features = vec![feature.to_owned()];
            run.devices[0].caps.dialect = if target == "cuda" { Dialect::Cuda } else { Dialect::Wgsl };
            run
        };
        let feature = Feature::Named(Dialect::Wgsl, "f".to_owned());
        for (runs, want) in [
            (vec![of("wgpu", None, "f")], Support::Yes),
            (vec![of("browser", None, "f")], Support::Unsaid),
            (
                vec![of("browser", Some(BrowserMode::Unsafe), "f"), of("browser", Some(BrowserMode::Stock), "g")],
                Support::Flag,
            ),
            (
                vec![of("browser", Some(BrowserMode::Unsafe), "f"), of("browser", Some(BrowserMode::Stock), "f")],
                Support::Yes,
            ),
            (vec![of("browser", Some(BrowserMode::Stock), "g")], Support::No),
            (vec![of("cuda", None, "g")], Support::Nameless),
        ] {
            assert_eq!(Support::of(&feature, runs.iter()), want);
        }
    }
}
