//! `profile safety`: what checks cost that browsers put into every kernel: each added natively, each left out in Chromium.

use std::process::ExitCode;

use anyhow::bail;
use parallax_core::compare::{Options, compare};
use parallax_core::measure::runner::Mode;
use parallax_core::plan::Spec;
use parallax_core::record::Run;
use parallax_core::report;
use parallax_core::suite::DType;
use parallax_shaders::Checks;

use crate::args::{Common, Device};
use crate::commands::measuring::{Measured, each_target, finish, say, show};
use crate::console::{Painted, noteln, width};
use crate::interrupts::interrupted;
use crate::output::{Output, writable_folder};
use crate::table;

/// The word that stands where a workload's name would.
pub const SAFETY: &str = "safety";

/// Kernels that lean on what is checked in different ways, where nobody names any: long loops over staged tiles, indices from
/// data, divisions of an index, and plain copies.
const USUAL: [&str; 10] = [
    "copy",
    "matmul/*tiled",
    "attention/*flash",
    "conv2d/*implicit_gemm",
    "depthwise_conv2d/*marching",
    "softmax",
    "layernorm",
    "embedding",
    "hash_embedding",
    "transpose",
];

/// One way to make kernels.
struct Way {
    name: &'static str,
    /// Natively.
    checks: Checks,
    /// What a browser leaves out, in Dawn's words.
    left_out: &'static [&'static str],
}

const fn natively(name: &'static str, checks: Checks) -> Way {
    Way { name, checks, left_out: &[] }
}

const fn in_chromium(name: &'static str, left_out: &'static [&'static str]) -> Way {
    Way { name, checks: Checks::ALL, left_out }
}

/// The base comes first, and once more at the end: what two runs of the same differ by is no cost.
const NATIVE: [Way; 7] = [
    natively("unchecked", Checks::NONE),
    natively("bounds", Checks { bounds: true, ..Checks::NONE }),
    natively("loops", Checks { loops: true, ..Checks::NONE }),
    natively("divisions", Checks { divisions: true, ..Checks::NONE }),
    natively("zeroing", Checks { zeroing: true, ..Checks::NONE }),
    natively("all", Checks::ALL),
    natively("unchecked again", Checks::NONE),
];

const BOUNDS: &str = "disable_robustness";
const DIVISIONS: &str = "disable_polyfills_on_integer_div_and_mod";
const ZEROING: &str = "disable_workgroup_init";

/// Chromium bounds no loops by a switch of its own.
const CHROMIUM: [Way; 6] = [
    in_chromium("as it is", &[]),
    in_chromium("no bounds", &[BOUNDS]),
    in_chromium("no divisions", &[DIVISIONS]),
    in_chromium("no zeroing", &[ZEROING]),
    in_chromium("none", &[BOUNDS, DIVISIONS, ZEROING]),
    in_chromium("as it is again", &[]),
];

/// The ways of a target.
fn ways(target: &str) -> anyhow::Result<&'static [Way]> {
    match target {
        "wgpu" => Ok(&NATIVE),
        "browser" => Ok(&CHROMIUM),
        other => bail!("profile {SAFETY}: target {other} puts no checks into kernels; choose --target wgpu or browser"),
    }
}

/// Measure the same kernels in every way, and hold each against the first.
pub fn safety(common: &Common, spec: Spec) -> anyhow::Result<ExitCode> {
    let target = common.target.clone().unwrap_or_else(|| "wgpu".to_owned());
    let ways = ways(&target)?;
    if common.device.native.checked.is_some() {
        bail!("profile {SAFETY} takes checks one by one: leave --checked out");
    }
    writable_folder(&common.out)?;
    let spec = usual(spec, ways.len());
    let mut all = Measured::default();
    let (mut named, mut written) = (Vec::new(), Vec::new());
    for way in ways {
        noteln!("{target}, {}", way.name);
        let common = Common { target: Some(target.clone()), device: device(&common.device, way), ..common.clone() };
        let measured = each_target(&common, &spec, Mode::Measure, &Output::of(&common), |done| {
            written.push(done.paths());
        })?;
        named.extend(measured.runs.iter().map(|run| (way.name.to_owned(), run.clone())));
        all = all.and(measured);
        if interrupted() {
            break;
        }
    }
    show(common, &tables(&named)?);
    say(common, &format!("\nwritten:\n{}", written.join("\n")));
    finish(common, all)
}

/// Without cases of its own choice, the usual ones in single precision; the budget is that of all ways together.
fn usual(spec: Spec, ways: usize) -> Spec {
    let spec = Spec { ceilings: false, budget: spec.budget / ways as f64, ..spec };
    if !spec.filter.is_empty() || !spec.case.is_empty() {
        return spec;
    }
    let dtype = if spec.dtype.is_empty() { vec![DType::F32] } else { spec.dtype };
    Spec { filter: USUAL.map(str::to_owned).to_vec(), dtype, ..spec }
}

/// How to reach the device in this way.
fn device(device: &Device, way: &Way) -> Device {
    let mut device = device.clone();
    device.native.checked = Some(way.checks);
    if !way.left_out.is_empty() {
        device.browser.browser_flag.push(format!("--enable-dawn-features={}", way.left_out.join(",")));
    }
    device
}

/// Each way against the first, case by case, and what it comes to.
fn tables(runs: &[(String, Run)]) -> anyhow::Result<Painted> {
    let comparison = compare(runs, &Options::default())?;
    let families = comparison.by_workload(runs);
    let by_workload = (!families.is_empty()).then(|| report::compared_by_workload(&comparison, &families));
    let tables = std::iter::once(report::comparison_table(&comparison)).chain(by_workload);
    Ok(table::below_each_other(tables.map(|t| table::text(&t, width()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_begins_and_ends_with_the_base() {
        for ways in [&NATIVE[..], &CHROMIUM[..]] {
            let (first, last) = (&ways[0], &ways[ways.len() - 1]);
            assert_eq!((first.checks, first.left_out), (last.checks, last.left_out));
            assert!(last.name.starts_with(first.name));
        }
        assert!(ways("cuda").is_err_and(|e| e.to_string().contains("--target wgpu")));
    }

    #[test]
    fn a_browser_is_told_what_to_leave_out_and_keeps_its_other_flags() {
        let mut given = Device::default();
        given.browser.browser_flag = vec!["--x".to_owned()];
        let flags = |way: &Way| device(&given, way).browser.browser_flag.join(" ");
        assert_eq!(flags(&CHROMIUM[0]), "--x");
        assert_eq!(flags(&CHROMIUM[1]), "--x --enable-dawn-features=disable_robustness");
        assert_eq!(device(&given, &NATIVE[1]).native.checked, Some(Checks { bounds: true, ..Checks::NONE }));
    }

    #[test]
    fn whoever_names_cases_gets_those() {
        let mine = Spec { filter: vec!["fma".to_owned()], budget: 70.0, ..Spec::default() };
        let spec = usual(mine, 7);
        assert_eq!((spec.filter.join(" "), spec.budget, spec.ceilings), ("fma".to_owned(), 10.0, false));
        assert_eq!(usual(Spec::default(), 7).dtype, [DType::F32]);
    }
}
