//! `tune`: searches this device's best values of tunables, and writes them to the file that runs read.
//!
//! Every candidate is checked before it is timed, and timed alternately with the best values so far. The ratio of both
//! is over all cases of the variant together. A candidate replaces the best if the whole interval of the ratio says
//! faster, and if its results are right at the awkward shapes too. An undecided candidate changes nothing.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use parallax_analysis::compare::verdict::{Ratio, Verdict, resolution_on};
use parallax_engine::measure::check::WORK;
use parallax_engine::measure::sampler::TrustedClock;
use parallax_engine::measure::side_by_side::{Effort, side_by_side};
use parallax_engine::measure::timer;
use parallax_engine::plan::{TuningFile, plan};
use parallax_ir::device::{BackendError, Prepared, Profiler};
use parallax_ir::{Case, Program, Tunable};
use parallax_schema::case::Tuning;
use parallax_schema::spec::Spec;
use parallax_schema::units::Nanos;
use parallax_workloads::{parse_case, tunables};
use pollster::block_on;

use crate::args::{DEVICES, Device, Native};
use crate::console::outln;
use crate::files::write_text;
use crate::interrupts::{interrupted, listen_for_interrupts};
use crate::output::writable_folder;
use crate::search::Search;
use crate::targets::{Opened, choose};
use crate::trial::{Awkward, CheckedCase, Failure, ratio};
use crate::tuning;

/// `tune`.
#[derive(Debug, Args)]
pub struct Tune {
    /// Cases, or filters of the preset's cases [default: all cases with tunables]
    #[arg(value_name = "CASE|FILTER")]
    pub what: Vec<String>,
    /// wgpu or cuda [default: best]
    #[arg(long, help_heading = DEVICES)]
    pub target: Option<String>,
    /// Preset of the timed shapes
    #[arg(long, default_value = "quick")]
    pub preset: String,
    /// Seconds for the whole search
    #[arg(long, value_name = "SECONDS", default_value_t = 300.0)]
    pub budget: f64,
    /// Seed of the inputs and of the order
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub native: Native,
}

/// Searches, and writes the values found.
pub fn tune(args: &Tune) -> anyhow::Result<ExitCode> {
    Spec::default().set("budget", &args.budget.to_string())?;
    listen_for_interrupts()?;
    let (name, opened) = choose(args.target.as_deref(), &Device::from(&args.native), &[])?.one();
    let Opened::Here(mut profiler) = opened else {
        bail!("tune runs on wgpu or cuda; all browsers share one file, because pages cannot identify devices");
    };
    let groups = groups(args, &*profiler)?;
    let path = tuning::path(&args.native, profiler.device());
    writable_folder(path.parent().context("the file lies in a folder")?)?;
    outln!("{} ({name}): {} variants have tunables", profiler.device().name, groups.len());

    let (_, clock) = block_on(timer::test(&mut *profiler, None)).context("the clocks cannot be tested")?;
    let begun = Instant::now();
    let (mut found, mut left) = (Tuning::default(), groups.len() as u32);
    for group in &groups {
        // A variant's unused time is available to the others.
        let remaining = Nanos::from_secs(args.budget).duration().saturating_sub(begun.elapsed());
        let until = Instant::now() + remaining / left;
        left -= 1;
        block_on(Sweep { group, clock: &clock, until, seed: args.seed }.run(&mut *profiler, &mut found))?;
        if interrupted() {
            break;
        }
    }
    let device = profiler.device();
    let before = tuning::read(&args.native, device)?;
    let before = before.map(|text| TuningFile::parse(&text)).transpose().with_context(|| path.display().to_string())?;
    let mut file = before.or_else(|| TuningFile::shipped(&device.class())).unwrap_or_default();
    file.put(device.caps.dialect, &found);
    let comment =
        format!("{}: found by `parallax tune`, last through {} within {} s.", device.class(), device.api, args.budget);
    write_text(&path, &file.text(&comment))?;
    outln!("written: {}", path.display());
    Ok(ExitCode::SUCCESS)
}

/// Cases of one variant, and its tunables.
struct Group {
    /// Common prefix of the tunables' full names.
    name: String,
    tunables: &'static [Tunable],
    cases: Vec<Case>,
}

/// Returns the requested cases by variant; only variants with tunables.
fn groups(args: &Tune, profiler: &dyn Profiler) -> anyhow::Result<Vec<Group>> {
    let mut spec = Spec::default();
    spec.set("preset", &args.preset)?;
    let (exact, filters): (Vec<&String>, Vec<&String>) = args.what.iter().partition(|what| parse_case(what).is_ok());
    if !exact.is_empty() && !filters.is_empty() {
        bail!("name either cases or filters: `{}` is a case, `{}` is none", exact[0], filters[0]);
    }
    exact.into_iter().try_for_each(|case| spec.set("case", case))?;
    filters.into_iter().try_for_each(|filter| spec.set("filter", filter))?;
    let plan = plan(&spec, &profiler.device().caps)?;
    let mut groups: Vec<Group> = Vec::new();
    for case in plan.cases.into_iter().map(|planned| planned.case) {
        let tunables = case.variant_form().map_or(&[][..], |variant| variant.tunables);
        let Some(first) = tunables.first() else { continue };
        let key = case.tunable_key(first);
        let name = key.rsplit_once('.').map_or(key.as_str(), |(name, _)| name).to_owned();
        match groups.iter_mut().find(|group| group.name == name) {
            Some(group) => group.cases.push(case),
            None => groups.push(Group { name, tunables, cases: vec![case] }),
        }
    }
    if groups.is_empty() {
        bail!("no case of these has tunables on this device; `parallax list` shows all cases");
    }
    Ok(groups)
}

/// Search over the values of one variant.
struct Sweep<'a> {
    group: &'a Group,
    clock: &'a TrustedClock,
    until: Instant,
    seed: u64,
}

/// Result of a candidate.
enum Outcome {
    /// Faster, with the ratio of all cases together.
    Faster(f64),
    /// Not faster, or undecided, with the reason.
    Not(String),
}

impl Sweep<'_> {
    async fn run(&self, profiler: &mut dyn Profiler, found: &mut Tuning) -> anyhow::Result<()> {
        let Group { name, tunables, cases } = self.group;
        let base = profiler.device().caps.tuning.clone();
        let start: Vec<u32> = cases[0].settings(&profiler.device().caps).into_iter().map(|(_, value)| value).collect();
        let axes = tunables.iter().map(|tunable| tunable.allowed.candidates()).collect();
        let mut search = Search::new(axes, start.clone(), self.seed);
        let trials = search.size();
        outln!("\n{name}: {} cases, {} to try, from {}", cases.len(), trials, self.words(&start));
        let mut known = Vec::new();
        for case in cases {
            known.push(CheckedCase::of(case.clone(), self.seed, WORK, profiler).await);
        }
        let mut awkward: Vec<Awkward> = cases.iter().map(|_| Awkward::default()).collect();
        // The budget has room for two timed candidates per candidate that is rejected at once.
        let each = self.until.saturating_duration_since(Instant::now()) / (trials * cases.len()).max(1) as u32;
        let each = each.clamp(Duration::from_millis(200), Duration::from_secs(2));
        // Many values of a threshold give the same launches. A program that was not faster than an earlier best needs
        // no other evaluation.
        let mut judged: Vec<Vec<(Case, Program)>> = Vec::new();
        while let Some(values) = search.next() {
            if Instant::now() >= self.until || interrupted() {
                outln!("  the time is over");
                break;
            }
            let best = self.tuned(&base, search.best());
            let candidate = self.tuned(&base, &values);
            match programs(&candidate, &known, profiler) {
                Ok(launches) if judged.iter().any(|other| alike(other, &launches)) => continue,
                Ok(launches) => judged.push(launches),
                Err(_) => {}
            }
            let outcome = self.against(&best, &candidate, &known, &mut awkward, each, profiler).await?;
            match outcome {
                Outcome::Faster(ratio) => {
                    outln!("  {}: {ratio:.3}×, the best so far", self.words(&values));
                    search.won(values);
                }
                Outcome::Not(why) => outln!("  {}: {why}", self.words(&values)),
            }
        }
        let best = self.tuned(&base, search.best());
        for (tunable, value) in tunables.iter().zip(search.best()) {
            tunables::set(found, &cases[0].tunable_key(tunable), *value)
                .context("a search stays among the allowed values")?;
        }
        outln!("  kept: {}", self.words(search.best()));
        profiler.set_tuning(best);
        Ok(())
    }

    /// Returns the device's values, with those of the variant replaced.
    fn tuned(&self, base: &Tuning, values: &[u32]) -> Tuning {
        let mut tuning = base.clone();
        for (tunable, value) in self.group.tunables.iter().zip(values) {
            let set = tunables::set(&mut tuning, &self.group.cases[0].tunable_key(tunable), *value);
            set.expect("a search stays among the allowed values");
        }
        tuning
    }

    fn words(&self, values: &[u32]) -> String {
        let words = self.group.tunables.iter().zip(values).map(|(tunable, value)| format!("{}={value}", tunable.name));
        words.collect::<Vec<_>>().join(" ")
    }

    /// Compares one candidate with the best so far. Only a lost device is an error.
    async fn against(
        &self,
        best: &Tuning,
        candidate: &Tuning,
        known: &[CheckedCase],
        awkward: &mut [Awkward],
        each: Duration,
        profiler: &mut dyn Profiler,
    ) -> Result<Outcome, BackendError> {
        let of_best = match programs(best, known, profiler) {
            Ok(programs) => programs,
            Err(why) => return Ok(Outcome::Not(format!("nothing to compare with: {why}"))),
        };
        let of_candidate = match programs(candidate, known, profiler) {
            Ok(programs) => programs,
            Err(why) => return Ok(Outcome::Not(why)),
        };
        let mut ratios = Vec::new();
        for ((trial, (left, a)), (right, b)) in known.iter().zip(&of_best).zip(&of_candidate) {
            if (&left.variant, a) == (&right.variant, b) {
                // Equal launches need no measurement.
                ratios.push(None);
                continue;
            }
            match self.one(trial, (best, left), (candidate, right), each, profiler).await {
                Ok(ratio) => ratios.push(Some(ratio)),
                Err(Failure::Backend(lost @ BackendError::Lost(_))) => return Err(lost),
                Err(failure) => return Ok(Outcome::Not(failure.to_string())),
            }
        }
        let resolution = resolution_on(profiler.device().kind);
        let (value, verdict) = match together(&ratios, resolution) {
            Ok(judged) => judged,
            Err(why) => return Ok(Outcome::Not(why)),
        };
        if verdict != Verdict::Faster {
            return Ok(Outcome::Not(format!("{value:.3}×, {}", verdict.name())));
        }
        profiler.set_tuning(candidate.clone());
        for (awkward, (case, _)) in awkward.iter_mut().zip(&of_candidate) {
            match awkward.check(case, self.seed, profiler).await {
                Ok(_) => {}
                Err(Failure::Backend(lost @ BackendError::Lost(_))) => return Err(lost),
                Err(failure) => return Ok(Outcome::Not(failure.to_string())),
            }
        }
        Ok(Outcome::Faster(value))
    }

    /// Checks and times one case with both sets of values, side by side.
    async fn one(
        &self,
        trial: &CheckedCase,
        (best, left): (&Tuning, &Case),
        (candidate, right): (&Tuning, &Case),
        each: Duration,
        profiler: &mut dyn Profiler,
    ) -> Result<Ratio, Failure> {
        profiler.set_tuning(candidate.clone());
        let mut b = trial.prepare(right, profiler).await?;
        trial.check(&mut *b, profiler).await?;
        profiler.set_tuning(best.clone());
        let mut a = trial.prepare(left, profiler).await?;
        let launches = a.launches().len().max(b.launches().len());
        let mut both: Vec<&mut dyn Prepared> = vec![&mut *a, &mut *b];
        let effort = Effort { budget: Nanos::from_secs(each.as_secs_f64()), seed: self.seed };
        let timings = side_by_side(&mut both, self.clock, effort, profiler, || !interrupted()).await?;
        match (&timings[0], &timings[1]) {
            (Ok(a), Ok(b)) => Ok(ratio(a, b, launches, profiler)),
            (Err(why), _) | (_, Err(why)) => Err(Failure::Backend(BackendError::Unsupported(why.clone()))),
        }
    }
}

/// Returns the case that each case runs as with these values, and its launches.
///
/// # Errors
/// The plan's reason for which one of them cannot run.
fn programs(
    tuning: &Tuning,
    known: &[CheckedCase],
    profiler: &mut dyn Profiler,
) -> Result<Vec<(Case, Program)>, String> {
    profiler.set_tuning(tuning.clone());
    let caps = &profiler.device().caps;
    let one = |trial: &CheckedCase| {
        let case = trial.runs(profiler)?;
        let program = case.program(caps).ok_or_else(|| format!("{case} has no launches"))?;
        Ok((case, program))
    };
    known.iter().map(one).collect()
}

/// Returns whether both have the same launches of the same variants.
fn alike(a: &[(Case, Program)], b: &[(Case, Program)]) -> bool {
    a.iter().zip(b).all(|((left, a), (right, b))| left.variant == right.variant && a == b)
}

/// Returns the geometric mean of the ratios of all cases, and its verdict. A case without a ratio counts as equal.
///
/// # Errors
/// No ratio to judge by.
fn together(ratios: &[Option<Ratio>], resolution: f64) -> Result<(f64, Verdict), String> {
    if ratios.iter().all(Option::is_none) {
        return Err("the same launches".to_owned());
    }
    let (mut value, mut low, mut high) = (0.0, 0.0, 0.0);
    let mut coarsest = resolution;
    for ratio in ratios.iter().flatten() {
        let (Some(l), Some(h)) = (ratio.low, ratio.high) else {
            return Err(format!("undecided: {}", ratio.notes.join("; ")));
        };
        value += ratio.value.ln();
        low += l.ln();
        high += h.ln();
        coarsest = coarsest.max(ratio.resolution.value);
    }
    let mean = |sum: f64| (sum / ratios.len() as f64).exp();
    Ok((mean(value), Verdict::of(mean(low), mean(high), coarsest)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_analysis::compare::verdict::{Resolution, Source};

    /// Returns a ratio with an interval of a thousandth.
    fn ratio(value: f64) -> Option<Ratio> {
        let (low, high) = (value * 0.999, value * 1.001);
        Some(Ratio {
            value,
            low: Some(low),
            high: Some(high),
            resolution: Resolution { value: 0.01, source: Source::Asked },
            detectable: None,
            verdict: Verdict::of(low, high, 0.01),
            notes: Vec::new(),
        })
    }

    #[test]
    fn all_cases_decide_together() {
        for (ratios, want) in [
            (vec![ratio(0.9)], Verdict::Faster),
            (vec![ratio(0.9), ratio(1.0)], Verdict::Faster),
            (vec![ratio(0.9), None], Verdict::Faster),
            (vec![ratio(0.9), ratio(1.2)], Verdict::Slower),
            (vec![ratio(0.995), ratio(1.005)], Verdict::Same),
        ] {
            let (_, verdict) = together(&ratios, 0.01).expect("intervals");
            assert_eq!(verdict, want, "{ratios:?}");
        }
        let (value, _) = together(&[ratio(0.81), None], 0.01).expect("an interval");
        assert!((value - 0.9).abs() < 1e-9, "{value}");
        assert!(together(&[None, None], 0.01).is_err());
    }
}
