//! Conversion of a spec and a device to a plan: the cases to run, and every case that will not run with the reason.
//!
//! Planning is pure. `list`, `verify`, `run` and the page's preview are uses of one plan.

use std::collections::BTreeSet;

use parallax_ir::device::Profiler;
use parallax_ir::{Case, Problem, Program, VariantKind};
use parallax_schema::case::{CPU_VARIANT, CaseError, nearest};
use parallax_schema::device::{Caps, Dialect, Launching};
use parallax_schema::record::{Run, Suite};
use parallax_schema::spec::settings::{Scope, setting};
use parallax_schema::spec::{InputSet, Spec};
use parallax_schema::units::Bytes;
use parallax_workloads::all;

use crate::plan::buffer_access::check_access;
use crate::plan::limits::{within_limits, within_memory};
use crate::plan::planned::{Actual, Planned, Skip};
use crate::plan::select::selected_cases;
use crate::plan::stress::with_stress_inputs;

/// Cases of a run.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// Cases to run, in order.
    pub cases: Vec<Planned>,
    /// Cases that will not run, with reasons.
    pub skips: Vec<Skip>,
}

impl Plan {
    /// Returns a run of this plan without records, on an open device.
    pub fn begin(&self, target: &str, suite: Suite, profiler: &dyn Profiler, spec: &Spec) -> Run {
        Run::begin_on(target, suite, (profiler.device(), profiler.clock()), spec, self.names())
    }

    /// Returns the canonical strings of all cases, skips first: the planned cases of a run.
    pub fn names(&self) -> Vec<String> {
        self.skips.iter().map(|skip| skip.case.to_string()).chain(self.cases.iter().map(Planned::name)).collect()
    }
}

/// Error of a spec without any case.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no case matches {what}{}; `parallax list --preset full` shows every case", .suggestion)]
pub struct NothingMatches {
    /// Restrictions that left no case.
    what: String,
    /// Result of [`did_you_mean`] for the filters.
    suggestion: String,
}

/// Error of a spec that cannot be planned on a device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// No case is left.
    #[error(transparent)]
    NothingMatches(#[from] NothingMatches),
    /// Requested extents make no problem.
    #[error(transparent)]
    Shape(#[from] CaseError),
    /// This device lacks the requested launch mode.
    #[error("launch `{wanted}` does not exist on this target: {choices}")]
    Launch {
        /// Requested launch mode.
        wanted: &'static str,
        /// Launch modes of the device.
        choices: String,
    },
}

/// Returns the plan of a spec on a device.
///
/// # Errors
/// No case left, or a launch mode that the device lacks.
pub fn plan(spec: &Spec, caps: &Caps) -> Result<Plan, PlanError> {
    let mut planning = Planning::begin(spec, caps)?;
    while planning.step() {}
    planning.end()
}

/// Incremental planning, case by case. A preset takes a while, during which a page has to answer.
pub struct Planning<'a> {
    spec: &'a Spec,
    caps: &'a Caps,
    left: std::vec::IntoIter<Case>,
    /// Case strings already planned. Each case is planned once, even if requested several times or in several spellings.
    seen: BTreeSet<String>,
    plan: Plan,
}

impl<'a> Planning<'a> {
    /// Starts planning a spec on a device.
    ///
    /// # Errors
    /// A launch mode that the device lacks, or requested extents that make no problem.
    pub fn begin(spec: &'a Spec, caps: &'a Caps) -> Result<Planning<'a>, PlanError> {
        let ways = Launching::choices(caps.dialect);
        if let Some(wanted) = spec.launch.filter(|wanted| !ways.contains(wanted)) {
            let names: Vec<&str> = ways.iter().map(|way| way.name()).collect();
            let choices = match names.is_empty() {
                true => "stages are plain calls here, leave the setting out".to_owned(),
                false => format!("choose one of {}", names.join(", ")),
            };
            return Err(PlanError::Launch { wanted: wanted.name(), choices });
        }
        let left = selected_cases(spec, caps)?.into_iter();
        Ok(Planning { spec, caps, left, seen: BTreeSet::new(), plan: Plan::default() })
    }

    /// Plans the next case. Returns `false` if none is left.
    pub fn step(&mut self) -> bool {
        let Some(case) = self.left.next() else { return false };
        let name = case.to_string();
        if !self.spec.keeps(&name) || !self.seen.insert(name) {
            return true;
        }
        match decide(&case, self.spec, self.caps) {
            Ok(actual) if self.spec.inputs == InputSet::Hard => {
                let (cases, skip) = with_stress_inputs(case, &actual);
                self.plan.cases.extend(cases);
                self.plan.skips.extend(skip);
            }
            Ok(actual) => self.plan.cases.push(Planned { case, actual, stress: None }),
            Err(reason) => self.plan.skips.push(Skip { case, reason }),
        }
        true
    }

    /// Returns the plan of the processed cases.
    ///
    /// # Errors
    /// No case in the plan.
    pub fn end(self) -> Result<Plan, PlanError> {
        if self.plan.cases.is_empty() && self.plan.skips.is_empty() {
            return Err(nothing_matches(self.spec).into());
        }
        Ok(self.plan)
    }
}

fn nothing_matches(spec: &Spec) -> NothingMatches {
    let chooses = |key: &str| setting(key).is_ok_and(|s| matches!(s.scope, Scope::Preset | Scope::Cases));
    let pairs = spec.to_pairs();
    let what: Vec<String> = pairs.iter().filter(|(k, _)| chooses(k)).map(|(k, v)| format!("{k} `{v}`")).collect();
    let what = if what.is_empty() { "the preset".to_owned() } else { what.join(", ") };
    NothingMatches { what, suggestion: did_you_mean(&spec.filter) }
}

/// Returns the names of workloads and variants that resemble unknown words of these filters, as the end of a sentence. Empty if
/// none is similar.
pub fn did_you_mean(filters: &[String]) -> String {
    let forms = || all().iter().flat_map(|workload| &workload.forms);
    let variants = forms().flat_map(|form| form.variants.iter().map(|variant| variant.name));
    let known: BTreeSet<&str> = all().iter().map(|workload| workload.name).chain(variants).collect();
    let words = filters.iter().flat_map(|filter| filter.split(['/', ',', '*']));
    let unknown = words.filter(|word| word.len() > 2 && !known.contains(word));
    let names: Vec<&str> = unknown.filter_map(|word| nearest(word, known.iter().copied())).collect();
    if names.is_empty() { String::new() } else { format!("; did you mean `{}`?", names.join("`, `")) }
}

/// Whether a case can run on a device in the variant that it names.
///
/// # Errors
/// The reason against it.
pub fn runs_as_asked(case: &Case, caps: &Caps) -> Result<(), String> {
    if !caps.dtypes.contains(&case.problem.dtype) {
        return Err(format!("this device does not compute with {}", case.problem.dtype.name()));
    }
    if caps.dialect == Dialect::Cpu { Ok(()) } else { runnable(&case.problem, case.variant, caps) }
}

/// Decides on a case: it runs as requested (`None`), as another variant, or not at all.
fn decide(case: &Case, spec: &Spec, caps: &Caps) -> Result<Option<Actual>, String> {
    if caps.ranks > 1 && !case.problem.workload.has_gpus_axis() {
        let gpus = caps.ranks;
        return Err(format!("a group of {gpus} GPUs runs workloads with the axis `gpus` only: leave `--gpus` out"));
    }
    let name = case.problem.dtype.name();
    if !caps.dtypes.contains(&case.problem.dtype) {
        return Err(format!("this device does not compute with {name}"));
    }
    if (caps.dialect == Dialect::Cpu) != (case.variant == CPU_VARIANT) {
        return Err(match caps.dialect {
            Dialect::Cpu => format!("the host has one implementation, called `{CPU_VARIANT}`"),
            _ => format!("`{CPU_VARIANT}` exists on the targets cpu and wasm only"),
        });
    }
    let Some(form) = case.variant_form() else {
        let bytes: u64 = case.problem.buffers().iter().map(|b| b.len * 4).sum();
        return match caps.memory {
            Some(memory) if bytes > memory.0 / 2 => {
                Err(format!("needs {} of host memory, half of which is {}", Bytes(bytes), Bytes(memory.0 / 2)))
            }
            _ => Ok(None),
        };
    };
    if let VariantKind::Select(select) = form.how {
        let (variant, reason) = select(&case.problem, caps);
        runnable(&case.problem, variant, caps)?;
        return Ok(Some(Actual { variant, reason }));
    }
    let Err(why) = runnable(&case.problem, case.variant, caps) else { return Ok(None) };
    // A fallback only makes sense if the other variant is not measured in its own right.
    let others_planned = spec.variant.is_empty() && spec.case.is_empty();
    let fallback = case.problem.form().fallback.iter().skip_while(|v| **v != case.variant).skip(1);
    match fallback.copied().find(|v| runnable(&case.problem, v, caps).is_ok()) {
        Some(variant) if !others_planned => {
            Ok(Some(Actual { variant, reason: format!("fallback from {}: {why}", case.variant) }))
        }
        _ => Err(why),
    }
}

/// Whether a kernel variant can compute a problem on a device, by its own conditions and by every limit of the device.
fn runnable(problem: &Problem, variant: &str, caps: &Caps) -> Result<(), String> {
    let form = problem.form();
    if let Some((_, reason)) = form.only.filter(|(dialects, _)| !dialects.contains(&caps.dialect)) {
        return Err(reason.to_owned());
    }
    let variant_form = form.variant(variant).ok_or_else(|| format!("no variant `{variant}`"))?;
    let VariantKind::Kernel { dialects, available, program } = variant_form.how else {
        return Err(format!("`{variant}` selects among variants and cannot be selected itself"));
    };
    if !dialects.contains(&caps.dialect) {
        return Err(format!("`{variant}` has no kernel for this target"));
    }
    available(problem, caps)?;
    let mut whole = form.setup.map_or(Program { stages: Vec::new() }, |setup| setup(problem, caps));
    let parts = [whole.clone(), program(problem, caps)];
    // The check covers both parts together, because one of them may read buffers that the other writes.
    whole.stages.extend_from_slice(&parts[1].stages);
    check_access(problem, whole.stages.iter(), caps)?;
    parts.iter().try_for_each(|part| within_limits(problem, part, caps))?;
    within_memory(problem, &whole, caps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_schema::case::DType;
    use parallax_schema::testing::{caps, hopper};

    fn planned(pairs: &[(&str, &str)], caps: &Caps) -> Plan {
        plan(&Spec::from_pairs(pairs.iter().copied()).expect("valid"), caps).expect("cases")
    }

    #[test]
    fn a_preset_plans_every_variant_and_each_skip_has_a_reason() {
        for (preset, reason) in [
            ("quick", "`mma` has no kernel for this target"),
            ("standard", "rows are not sorted by group"),
            ("full", "rows are not sorted by group"),
        ] {
            let plan = planned(&[("preset", preset)], &caps());
            assert!(plan.cases.len() > 10, "{preset}");
            assert!(plan.skips.iter().all(|s| !s.reason.is_empty()));
            assert!(plan.skips.iter().any(|s| s.reason == reason), "{preset}: {:?}", plan.skips);
            let mut strings: Vec<String> = plan.cases.iter().map(|p| p.case.to_string()).collect();
            let all = strings.len();
            strings.sort();
            strings.dedup();
            assert_eq!(strings.len(), all, "{preset}: no case twice");
        }
    }

    #[test]
    fn limits_are_named_with_what_was_needed() {
        let big = "attention/fwd/b1,h1,s16384,d64/f32/manual";
        let bound = "attention/bwd/b1,h1,s4,d4,padded,biased/f32/flash";
        let tile = "depthwise_conv2d/fwd/n1,c1,h512,k9,s4,p1,nchw/f32/tiled";
        for (case, part) in [
            (big, "buffer `scores` needs 1.07 GB, the largest binding is 134 MB"),
            (bound, "needs 10 storage buffers, the limit is 8"),
            (tile, "bytes of workgroup memory, the limit is 16384"),
            ("attention/fwd/b1,h1,s4,d300/f32/flash", "head_dim 300 > 256"),
            ("attention/fwd/b1,h1,s4,d4/bf16/flash", "does not compute with bf16"),
            ("attention/fwd/b1,h1,s4,d4/f32/host", "exists on the targets cpu and wasm only"),
        ] {
            let spec =
                Spec::from_pairs([("case", case), ("case", "attention/fwd/b1,h1,s1,d1/f32/manual")]).expect("valid");
            let plan = plan(&spec, &caps()).expect("cases");
            let reasons: Vec<&str> = plan
                .skips
                .iter()
                .map(|s| s.reason.as_str())
                .chain(plan.cases.iter().filter_map(|p| p.actual.as_ref().map(|a| a.reason.as_str())))
                .collect();
            assert!(reasons.iter().any(|r| r.contains(part)), "{case}: {reasons:?}");
        }
    }
    #[test]
    fn swept_extents_take_the_place_of_the_presets_and_what_is_no_problem_is_refused() {
        let names = |pairs: &[(&str, &str)]| -> Vec<String> {
            planned(pairs, &caps()).cases.iter().map(|planned| planned.case.to_string()).collect()
        };
        let asked = [("filter", "depthwise_conv2d"), ("direction", "fwd"), ("dtype", "f32"), ("variant", "direct")];
        let swept = names(&[&asked[..], &[("shape", "c8xh128,c32xh256"), ("shape", "n1,n01,n2")]].concat());
        let case = |shape: &str| format!("depthwise_conv2d/fwd/{shape},k3,p1,nchw/f32/direct");
        assert_eq!(swept.len(), 4, "{swept:?}");
        for shape in ["n1,c8,h128", "n2,c8,h128", "n1,c32,h256", "n2,c32,h256"] {
            assert!(swept.contains(&case(shape)), "{shape}: {swept:?}");
        }
        // Other workloads with such an extent may lack a problem: the request does not name them.
        let refused = |pairs: &[(&str, &str)]| {
            plan(&Spec::from_pairs(pairs.iter().copied()).expect("valid"), &caps()).expect_err("no problem").to_string()
        };
        let said = refused(&[("filter", "prefetch"), ("shape", "c3")]);
        assert!(said.contains("rows are no 3 batches"), "{said}");
        assert!(refused(&[("filter", "prefetch"), ("shape", "q3")]).contains("no case matches"));
    }

    #[test]
    fn shapes_along_a_scaling_come_beside_the_preset_in_one_type() {
        let of = |scaling: &str, caps: &Caps| -> Vec<String> {
            let pairs = [("filter", "standard_scaler"), ("scaling", scaling)];
            planned(&pairs, caps).cases.iter().map(|planned| planned.case.to_string()).collect()
        };
        let (without, with) = (of("off", &caps()), of("on", &caps()));
        let more: Vec<&String> = with.iter().filter(|case| !without.contains(case)).collect();
        assert!(without.iter().all(|case| with.contains(case)) && more.iter().all(|case| case.contains("/f32/")));
        assert!(more.iter().any(|case| case.contains("/n10000,f64/")), "{more:?}");
        assert!(more.iter().any(|case| case.contains("/n10000,f64,crossing/")), "{more:?}");
        let host = Caps { dialect: Dialect::Cpu, dtypes: vec![DType::F32], ..caps() };
        assert!(of("on", &host).iter().all(|case| !case.contains("crossing")), "the host has its data where it is");
    }

    #[test]
    fn a_case_that_is_named_twice_runs_once() {
        let case = "attention/fwd/b1,h2,s3,d4/f32/flash";
        let plan = planned(&[("case", case), ("case", "attention/fwd/h2,b1,s3,d4/f32/flash"), ("case", case)], &caps());
        assert_eq!(plan.cases.iter().map(Planned::name).collect::<Vec<_>>(), [case]);
    }

    #[test]
    fn the_memory_of_a_case_is_planned() {
        let of = |case| planned(&[("case", case)], &caps()).cases[0].memory(&caps());
        // Three inputs and an output of 2 x 3 x 4 halves. `manual` adds scores of 2 x 3 x 3 words, padded to 256 bytes.
        assert_eq!(of("attention/fwd/b1,h2,s3,d4/f16/flash"), Bytes(4 * 48));
        assert_eq!(of("attention/fwd/b1,h2,s3,d4/f16/manual"), Bytes(4 * 48 + 256));
    }

    #[test]
    fn huge_shapes_run_where_they_fit_and_are_refused_with_the_reason_elsewhere() {
        let plan = planned(&[("preset", "huge")], &hopper());
        for workload in ["copy", "read", "matmul"] {
            assert!(plan.cases.iter().any(|p| p.case.problem.workload.name == workload), "{workload}");
        }
        for case in plan.cases.iter().map(|p| &p.case) {
            let beyond = |b: &parallax_ir::BufferSpec| b.len > 1 << 31 && b.bytes(case.problem.dtype).0 > 1 << 32;
            assert!(case.problem.buffers().iter().any(beyond), "{case}");
        }
        // A WebGPU device with much memory still binds less than 4 GiB at a time.
        let wgsl = Caps { max_binding: Bytes((1 << 32) - 4), memory: Some(Bytes(80_000_000_000)), ..caps() };
        let plan = planned(&[("preset", "huge")], &wgsl);
        assert!(plan.cases.is_empty(), "{:?}", plan.cases);
        assert!(plan.skips.iter().any(|s| s.reason.contains("the largest binding is 4.29 GB")), "{:?}", plan.skips);
    }

    #[test]
    fn an_explicit_case_falls_back_and_says_so() {
        let plan = planned(&[("case", "attention/fwd/b1,h1,s4,d300/f32/flash")], &caps());
        let actual = plan.cases[0].actual.as_ref().expect("falls back");
        assert_eq!(actual.variant, "manual");
        assert!(actual.reason.starts_with("fallback from flash: "), "{}", actual.reason);
        assert_eq!(plan.cases[0].runs().to_string(), "attention/fwd/b1,h1,s4,d300/f32/manual");
    }

    #[test]
    fn the_host_plans_its_own_implementation_only() {
        let caps = Caps { dialect: Dialect::Cpu, dtypes: vec![DType::F32], ..caps() };
        let plan = planned(&[], &caps);
        assert!(plan.cases.iter().all(|p| p.case.variant == CPU_VARIANT));
    }

    #[test]
    fn bf16_is_planned_where_it_exists_or_is_asked_for() {
        let mentions = |plan: &Plan| plan.skips.iter().filter(|s| s.case.problem.dtype == DType::BF16).count();
        assert_eq!(mentions(&planned(&[], &caps())), 0);
        assert!(mentions(&planned(&[("dtype", "bf16")], &caps())) > 0);
    }

    #[test]
    fn launching_as_the_target_cannot_is_refused_with_the_choices() {
        let refusal = |launch: &str, dialect: Dialect| {
            let spec = Spec::from_pairs([("launch", launch)]).expect("valid");
            plan(&spec, &Caps { dialect, ..caps() }).err().map(|error| error.to_string())
        };
        assert_eq!(refusal("pass-each", Dialect::Wgsl), None);
        assert_eq!(refusal("graph", Dialect::Cuda), None);
        for (launch, dialect, part) in [
            ("graph", Dialect::Wgsl, "`graph` does not exist on this target: choose one of one-pass, pass-each"),
            ("one-pass", Dialect::Cuda, "choose one of stream, graph"),
            ("stream", Dialect::Cpu, "leave the setting out"),
        ] {
            let said = refusal(launch, dialect).expect("refused");
            assert!(said.contains(part), "{launch} on {dialect:?}: {said}");
        }
    }

    #[test]
    fn nothing_to_do_is_an_error_that_names_what_left_nothing() {
        for (pairs, part) in [
            (&[("filter", "atention")][..], "filter `atention`"),
            (&[("filter", "copy"), ("direction", "bwd")], "filter `copy`, direction `bwd`"),
        ] {
            let spec = Spec::from_pairs(pairs.iter().copied()).expect("valid");
            let error = plan(&spec, &caps()).expect_err("nothing matches").to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
