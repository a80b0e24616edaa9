//! `profile safety`: costs of the checks that browsers add to every kernel. Natively, one check is added at a time; in
//! Chromium, one is left out at a time.

use std::process::ExitCode;

use anyhow::bail;
use parallax_analysis::compare::{Options, compare};
use parallax_report as report;
use parallax_schema::case::DType;
use parallax_schema::record::NamedRun;
use parallax_schema::session::Mode;
use parallax_schema::spec::Spec;
use parallax_shaders::Checks;

use crate::args::{Common, Device};
use crate::commands::measuring::{Measured, each_target, finish, say, show};
use crate::console::{Painted, noteln, width};
use crate::interrupts::interrupted;
use crate::output::{Output, writable_folder};
use crate::table;

/// Word in place of a workload's name.
pub const SAFETY: &str = "safety";

/// Default kernels, which depend on the checked constructs in different ways. They have long loops over staged tiles,
/// indices from data, divisions of an index, and plain copies.
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

/// Configuration of the checks in kernels.
struct Way {
    name: &'static str,
    /// Checks of a native target.
    checks: Checks,
    /// Checks that a browser leaves out, as names of Dawn toggles.
    left_out: &'static [&'static str],
}

const fn natively(name: &'static str, checks: Checks) -> Way {
    Way { name, checks, left_out: &[] }
}

const fn in_chromium(name: &'static str, left_out: &'static [&'static str]) -> Way {
    Way { name, checks: Checks::ALL, left_out }
}

/// Native configurations. The base comes first and again at the end: a difference between two runs of the same
/// configuration is no cost.
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

/// Configurations of Chromium, which has no toggle for bounds of loops.
const CHROMIUM: [Way; 6] = [
    in_chromium("as it is", &[]),
    in_chromium("no bounds", &[BOUNDS]),
    in_chromium("no divisions", &[DIVISIONS]),
    in_chromium("no zeroing", &[ZEROING]),
    in_chromium("none", &[BOUNDS, DIVISIONS, ZEROING]),
    in_chromium("as it is again", &[]),
];

/// Returns the configurations of a target.
fn ways(target: &str) -> anyhow::Result<&'static [Way]> {
    match target {
        "wgpu" => Ok(&NATIVE),
        "browser" => Ok(&CHROMIUM),
        other => bail!("profile {SAFETY}: target {other} puts no checks into kernels; choose --target wgpu or browser"),
    }
}

/// Measures the same kernels in every configuration, and compares each with the first.
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
        named.extend(measured.runs.iter().map(|run| NamedRun::new(way.name, run.clone())));
        all = all.and(measured);
        if interrupted() {
            break;
        }
    }
    show(common, &tables(&named)?);
    say(common, &format!("\nwritten:\n{}", written.join("\n")));
    finish(common, all)
}

/// Returns the spec with default cases in f32 if it selects none. The budget covers all configurations together.
fn usual(spec: Spec, ways: usize) -> Spec {
    let spec = Spec { ceilings: false, budget: spec.budget / ways as f64, ..spec };
    if !spec.filter.is_empty() || spec.names_cases() {
        return spec;
    }
    let dtype = if spec.dtype.is_empty() { vec![DType::F32] } else { spec.dtype };
    Spec { filter: USUAL.map(str::to_owned).to_vec(), dtype, ..spec }
}

/// Returns the device options of this configuration.
fn device(device: &Device, way: &Way) -> Device {
    let mut device = device.clone();
    device.native.checked = Some(way.checks);
    if !way.left_out.is_empty() {
        device.browser.browser_flag.push(format!("--enable-dawn-features={}", way.left_out.join(",")));
    }
    device
}

/// Returns the comparison of each configuration with the first, by case and by workload.
fn tables(runs: &[NamedRun]) -> anyhow::Result<Painted> {
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
