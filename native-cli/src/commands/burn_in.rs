//! `burn-in`: a device under load for a long time, with a comparison of every result.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use parallax_engine::plan::runs_as_asked;
use parallax_ir::Case;
use parallax_ir::device::Profiler;
use parallax_report::escape;
use parallax_schema::units::{Nanos, counted};
use parallax_workloads::{parse_case, parse_problem};
use pollster::block_on;

use crate::args::{DEVICES, Device, Native, RESULTS};
use crate::burn_in::{Findings, PROBLEMS, Refused, Step, Subject, Verdict, burn_in};
use crate::console::{errln, outln};
use crate::interrupts::{interrupted, listen_for_interrupts};
use crate::progress::Progress;
use crate::sensors;
use crate::targets::{Opened, choose};
use crate::trial::Failure;

/// Exit code of a suspect device.
const SUSPECT: u8 = 3;

/// `burn-in`.
#[derive(Debug, Args)]
pub struct BurnIn {
    /// Cases or problems [default: products, attention, convolution, copies and rows]
    #[arg(value_name = "CASE|PROBLEM")]
    pub cases: Vec<String>,
    /// Duration, as in 90s, 30m or 12h
    #[arg(long = "for", value_name = "TIME", default_value = "30m", value_parser = duration)]
    pub time: Duration,
    /// cuda, wgpu or cpu [default: best]
    #[arg(long, help_heading = DEVICES)]
    pub target: Option<String>,
    /// Seed of the inputs
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
    /// Print the findings as JSON on stdout, everything else on stderr
    #[arg(long, help_heading = RESULTS)]
    pub json: bool,
    #[allow(missing_docs, reason = "flattened groups must not show a help text of their own")]
    #[command(flatten)]
    pub native: Native,
}

/// Returns a duration by its text.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no duration such as 90s, 30m or 12h");
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..split].parse().map_err(|_| wrong())?;
    let unit = match &text[split..] {
        "s" | "" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    let seconds = number * unit;
    match seconds > 0.0 && seconds <= 30.0 * 24.0 * 3600.0 {
        true => Ok(Nanos::from_secs(seconds).duration()),
        false => Err(format!("{text} is not between 1 s and 30 days")),
    }
}

/// Burns in, and shows the findings. The exit code is 0 for a healthy device, 1 for a faulty and 3 for a suspect one.
pub fn burn_in_command(args: &BurnIn) -> anyhow::Result<ExitCode> {
    listen_for_interrupts()?;
    let (name, opened) = choose(args.target.as_deref(), &Device::from(&args.native), &[])?.one();
    let Opened::Here(mut profiler) = opened else {
        bail!("burn-in runs on cuda, wgpu or cpu: a page cannot read the sensors of its device");
    };
    let say = |line: String| if args.json { errln!("{line}") } else { outln!("{line}") };
    say(format!("{} ({name}): {}", profiler.device().name, Nanos::from_secs(args.time.as_secs_f64())));
    let (mut subjects, failed) = subjects(args, &mut *profiler)?;
    if subjects.is_empty() && failed.is_empty() {
        bail!(
            "no case of these runs on {}; `parallax list --target {name}` shows those that do",
            profiler.device().name
        );
    }
    let before = sensors::memory_errors(profiler.device());
    let progress = Progress::new(name);
    let step = |step: Step<'_>| match step {
        Step::Round(case, share) => {
            progress.started(case);
            progress.at(share, Nanos::from_secs(args.time.as_secs_f64() * (1.0 - share)));
        }
        Step::Differs(case, round) => progress.say(&format!("{case}: other bits in round {round}")),
    };
    let mut found = block_on(burn_in(&mut *profiler, &mut subjects, args.time, interrupted, step));
    progress.clear();
    found.failed.extend(failed);
    let after = sensors::memory_errors(profiler.device());
    found.memory_errors = after.zip(before).map(|(after, before)| after.since(before));
    if args.json {
        outln!("{}", json(&found, profiler.device().name.as_str(), name)?);
    }
    lines(&found).iter().for_each(|line| say(escape(line).into_owned()));
    Ok(match found.verdict() {
        Verdict::Healthy => ExitCode::SUCCESS,
        Verdict::Suspect => ExitCode::from(SUSPECT),
        Verdict::Faulty => ExitCode::from(1),
    })
}

/// Prepares the cases. Returns them with the wrong ones among them; cases that this device cannot run are left out.
fn subjects(args: &BurnIn, profiler: &mut dyn Profiler) -> anyhow::Result<(Vec<Subject>, Vec<String>)> {
    let chosen: Vec<&str> = match args.cases.is_empty() {
        true => PROBLEMS.to_vec(),
        false => args.cases.iter().map(String::as_str).collect(),
    };
    let (mut subjects, mut failed) = (Vec::new(), Vec::new());
    for text in chosen {
        let Some(case) = best(text, profiler)? else {
            errln!("{text} is left out: no variant runs on this device");
            continue;
        };
        match block_on(Subject::new(case, args.seed, profiler)) {
            Ok(subject) => subjects.push(subject),
            Err(Refused::Failed(wrong @ Failure::Wrong { .. })) => failed.push(wrong.to_string()),
            Err(why) => errln!("{text} is left out: {why}"),
        }
        if interrupted() {
            break;
        }
    }
    Ok((subjects, failed))
}

/// Returns a named case, or the best variant of a problem; `None` if none runs.
fn best(text: &str, profiler: &dyn Profiler) -> anyhow::Result<Option<Case>> {
    if let Ok(case) = parse_case(text) {
        return Ok(runs_as_asked(&case, &profiler.device().caps).is_ok().then_some(case));
    }
    let problem = parse_problem(text)?;
    let variants = problem.form().fallback.iter().copied().chain([parallax_schema::case::CPU_VARIANT]);
    let cases = variants.map(|variant| Case { problem: problem.clone(), variant });
    Ok(cases.into_iter().find(|case| runs_as_asked(case, &profiler.device().caps).is_ok()))
}

/// Returns the findings as lines.
fn lines(found: &Findings) -> Vec<String> {
    let mut lines = Vec::new();
    for case in &found.cases {
        let growth = case.growth().map_or_else(String::new, |growth| format!(", last rounds {growth:.3}× the first"));
        lines.push(format!(
            "{}: {} executions in {} rounds, {} with other bits{growth}",
            case.case, case.executions, case.rounds, case.different
        ));
    }
    let hottest = found.sensors.hottest_c.map(|degrees| format!("at most {degrees:.0} °C"));
    let memory = match found.memory_errors {
        Some(errors) => format!("memory errors: {} corrected, {} not", errors.corrected, errors.uncorrected),
        None => "memory errors are not counted here".to_owned(),
    };
    lines.push(hottest.into_iter().chain([memory]).collect::<Vec<_>>().join("; "));
    let reasons = found.reasons();
    let verdict = found.verdict().name();
    lines.push(match reasons.is_empty() {
        true => format!("{verdict} after {} of {}", Nanos::from_secs(found.wall_s), counted(found.cases.len(), "case")),
        false => format!("{verdict}: {}", reasons.join("; ")),
    });
    lines
}

/// Returns the findings as JSON.
fn json(found: &Findings, device: &str, target: &str) -> anyhow::Result<String> {
    let verdict = serde_json::json!({
        "device": device,
        "target": target,
        "verdict": found.verdict(),
        "reasons": found.reasons(),
        "findings": found,
    });
    Ok(serde_json::to_string(&verdict)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        for (text, seconds) in [("90s", 90), ("30m", 1800), ("12h", 43_200), ("45", 45), ("0.5m", 30)] {
            assert_eq!(duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "m", "-5s", "0s", "1d", "1e9h", "31000h"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn every_problem_of_the_default_exists() {
        for problem in PROBLEMS {
            assert!(parse_problem(problem).is_ok(), "{problem}");
        }
    }
}
