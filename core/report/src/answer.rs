//! Answers in sentences: the result of a run, and the cost of a target farther from the hardware.

use parallax_analysis::compare::{CallCost, Cost, CostRun};
use parallax_schema::case::DType;
use parallax_schema::device::DeviceKind;
use parallax_schema::record::stats::quantile;
use parallax_schema::record::{Outcome, Record, Route, Run, way};
use parallax_schema::units::{Nanos, counted, percent, scaled};

use super::html::short;
use super::summary::{aim, short_of_precision};

/// Number of cases that a sentence names.
const NAMED: usize = 3;

/// Returns the answer of a run: number of measured or checked cases, duration, correctness and noise.
pub fn answer(run: &Run, took: Nanos) -> String {
    let ran: Vec<&Record> = run.records.iter().filter(|r| !matches!(r.outcome, Outcome::Skipped { .. })).collect();
    let timed = ran.iter().filter(|r| r.timing().is_some()).count();
    let done = if timed > 0 { "measured" } else { "checked" };
    let cases = counted(ran.len(), "case");
    let wrong: Vec<&str> = ran.iter().filter(|r| r.verdict() != "pass").map(|r| r.case.as_str()).collect();
    let correct = match wrong.len() {
        0 => "all correct".to_owned(),
        1 => format!("all but {} correct", wrong[0]),
        many if many <= NAMED => format!("{many} not: {}", wrong.join(", ")),
        many => format!("{many} not: {}, and {} more", wrong[..NAMED].join(", "), many - NAMED),
    };
    let noisy = ran.iter().filter(|record| short_of_precision(record, run)).count();
    let noise = match noisy {
        0 => String::new(),
        noisy if noisy == timed => format!(" Noisy: every interval is wider than ± {}.", percent(aim(run))),
        noisy => format!(" Noisy: {noisy} of {timed} intervals are wider than ± {}.", percent(aim(run))),
    };
    format!("{cases} {done} on {} in {}, {correct}.{noise}", run.called(), in_words(took))
}

/// Returns the answer on a device: its name and its facts. `None` if none of them was measured.
pub fn device_answer(run: &Run) -> Option<String> {
    let emulated = if run.device().kind == DeviceKind::Software { " (emulated on the processor)" } else { "" };
    Some(format!("{}{emulated}: {}", run.called(), device_facts(run)?))
}

/// Returns the facts of a device: its memory, its arithmetic and one call. `None` if none of them was measured.
pub fn device_facts(run: &Run) -> Option<String> {
    let ceilings = run.baseline.as_ref().map(|baseline| &baseline.ceilings);
    let memory =
        ceilings.and_then(|of| of.bandwidth.last()).map(|point| format!("{} memory", scaled(point.rate, "B/s")));
    let rates = ceilings.map_or(&[][..], |of| &of.arithmetic);
    let plain = rates.iter().find(|rate| rate.dtype == DType::F32 && !rate.matrix);
    let plain = plain.map(|rate| format!("{} in f32", scaled(rate.rate, "FLOP/s")));
    let mut calls: Vec<f64> =
        run.records.iter().filter_map(|record| Some(record.measured()?.call.as_ref()?.result()?.median.0)).collect();
    calls.sort_by(f64::total_cmp);
    let call = (!calls.is_empty()).then(|| format!("one call {}", Nanos(quantile(&calls, 0.5))));
    let parts: Vec<String> = [memory, plain, call].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("{}.", parts.join(", ")))
}

/// Formats a duration in seconds, or in minutes and seconds.
fn in_words(took: Nanos) -> String {
    match took.secs() {
        seconds if seconds < 10.0 => format!("{seconds:.1} s"),
        seconds if seconds < 99.5 => format!("{seconds:.0} s"),
        seconds => format!("{} min {} s", (seconds / 60.0).floor(), (seconds % 60.0).floor()),
    }
}

/// Returns the common name of a target.
pub fn target_name(target: &str) -> &str {
    match target {
        "cuda" => "CUDA",
        "wgpu" => "native WebGPU",
        "browser" => "the browser",
        "cpu" => "the processor",
        "wasm" => "WebAssembly",
        other => other,
    }
}

/// Returns the common name of a route, as in `Firefox (stock)` or `native WebGPU (checks: all)`.
pub fn route_name(route: &Route) -> String {
    route.titled(route.browser.as_deref().filter(|_| route.target == "browser").unwrap_or(target_name(&route.target)))
}

/// Returns the place of a run: the browser with its version and system if known, or else the target.
fn place(run: &CostRun) -> String {
    let named = run.browser.clone().filter(|_| run.route.target == "browser");
    named.map_or_else(|| route_name(&run.route), |browser| way(&browser, run.route.reach))
}

/// Kind of a piece of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    /// Plain words.
    Words,
    /// Ratio of the same kernel.
    Same,
    /// Ratio of the fastest versions.
    Best,
    /// Ratio of one call.
    Call,
}

/// Returns the answer on the cost of a target, in pieces that are joined without a space.
pub fn cost_pieces(cost: &Cost) -> Vec<(Piece, String)> {
    let base = route_name(&cost.base.route);
    let problems = |n: usize| counted(n, "problem");
    let mut pieces = vec![(Piece::Words, format!("In {}, ", place(&cost.other)))];
    let mut say = |piece, text: String| pieces.push((piece, text));
    let (same, best, call) = (cost.same(), cost.best(), cost.call());
    if let Some((ratio, n)) = same {
        say(Piece::Words, "the same kernel takes ".to_owned());
        say(Piece::Same, short(ratio));
        say(Piece::Words, format!(" as long as in {base} ({})", problems(n)));
    }
    if let Some((ratio, n)) = best {
        let library = match cost.by_library() {
            0 => None,
            library => Some(format!("{library} of {n} in {base} by NVIDIA's libraries")),
        };
        let (before, after) = match (same, library) {
            (Some(_), None) => (", the fastest version ", String::new()),
            (Some(_), Some(library)) => (", the fastest version ", format!(" ({library})")),
            (None, None) => ("the fastest version takes ", format!(" as long as in {base} ({})", problems(n))),
            (None, Some(library)) => ("the fastest version takes ", format!(" as long as in {base} ({library})")),
        };
        say(Piece::Words, before.to_owned());
        say(Piece::Best, short(ratio));
        say(Piece::Words, after);
    }
    if let Some(CallCost { ratio, base, other, shares: [_, completion, readback], .. }) = call {
        say(
            Piece::Words,
            if same.is_some() || best.is_some() { "; one call takes " } else { "one call takes " }.to_owned(),
        );
        say(Piece::Call, short(ratio));
        let share = |part: f64| format!("{:.0} %", part * 100.0);
        let parts = format!("waiting {}, read-back {}", share(completion), share(readback));
        say(Piece::Words, format!(" as long ({other} against {base}): {parts}"));
    }
    say(Piece::Words, ".".to_owned());
    pieces.retain(|(_, text)| !text.is_empty());
    pieces
}

/// Returns [`cost_pieces`] as one sentence.
pub fn cost_answer(cost: &Cost) -> String {
    cost_pieces(cost).into_iter().map(|(_, text)| text).collect()
}

/// Explanation of the figures in [`cost_answer`].
pub const COST_NOTE: &str = "Typical values: geometric means over problems and cases; the times of a call are medians over cases. The fastest version \
                             of each side may be another algorithm; tensor cores and the vendor's libraries count";

#[cfg(test)]
mod tests {
    use super::*;
    use parallax_analysis::compare::cost;
    use parallax_schema::record::{NamedRun, OneCall};
    use parallax_schema::testing::{measured, run, spread};

    #[test]
    fn a_cost_has_an_answer() {
        let case = "copy/fwd/n64/f32/vec4";
        let of = |target: &str, kernel: f64, done: f64, result: f64| {
            let mut run = run(target, "NVIDIA H200", &[(case, spread(kernel, 0.002, 40))]);
            measured(&mut run, case).call = Some(OneCall { done: vec![done; 9], result: vec![result; 9] });
            NamedRun::new(target, run)
        };
        let near = of("cuda", 10_000.0, 20_000.0, 40_000.0);
        let mut far = of("browser", 15_000.0, 1_000_000.0, 1_500_000.0);
        let said = |far: &NamedRun| cost_answer(&cost(&near, far).expect("one GPU"));
        let rest = "the same kernel takes 1.50× as long as in CUDA (1 problem), the fastest version 1.50×; one call takes 37.5× as \
                    long (1.50 ms against 40.0 µs): waiting 67 %, read-back 33 %.";
        assert_eq!(said(&far), format!("In the browser, {rest}"));
        far.run.environment.insert("user_agent".to_owned(), "(X11; Linux x86_64) HeadlessChrome/156.0".to_owned());
        assert_eq!(said(&far), format!("In Chromium 156 on Linux, {rest}"));
        measured(&mut far.run, case).call = None;
        assert!(said(&far).ends_with("the fastest version 1.50×."), "{}", said(&far));
    }

    #[test]
    fn the_fastest_that_are_a_librarys_are_counted() {
        let of = |target: &str, cases: [(&str, f64); 2]| {
            let cases = cases.map(|(case, median)| (case, spread(median, 0.002, 40)));
            NamedRun::new(target, run(target, "NVIDIA H200", &cases))
        };
        let (product, copy) = ("matmul/fwd/m64,n64,k64/f32", "copy/fwd/n64/f32/vec4");
        let library = format!("{product}/vendor");
        let near = of("cuda", [(&library, 10_000.0), (copy, 10_000.0)]);
        let tiled = format!("{product}/tiled");
        let far = of("wgpu", [(&tiled, 20_000.0), (copy, 20_000.0)]);
        let answer = cost_answer(&cost(&near, &far).expect("one GPU"));
        assert!(answer.contains("the fastest version 2.00× (1 of 2 in CUDA by NVIDIA's libraries)"), "{answer}");
    }

    #[test]
    fn a_run_has_an_answer() {
        let of = |widths: &[f64]| {
            let cases: Vec<String> = (0..widths.len()).map(|i| format!("a/fwd/b1/f32/{i}")).collect();
            let timed: Vec<(&str, Vec<f64>)> =
                cases.iter().zip(widths).map(|(case, width)| (case.as_str(), spread(100.0, *width, 40))).collect();
            run("cuda", "X", &timed)
        };
        let took = Nanos::from_secs(140.4);
        let mut noisy = of(&[0.002, 0.4]);
        assert_eq!(answer(&of(&[0.002]), took), "1 case measured on X in 2 min 20 s, all correct.");
        assert_eq!(
            answer(&noisy, Nanos::from_secs(12.3)),
            "2 cases measured on X in 12 s, all correct. Noisy: 1 of 2 intervals are wider than ± 1.00 %."
        );
        assert!(answer(&of(&[0.4, 0.4]), took).ends_with("Noisy: every interval is wider than ± 1.00 %."));
        noisy.records[1].outcome = Outcome::Error { reason: "lost".to_owned() };
        assert_eq!(answer(&noisy, took), "2 cases measured on X in 2 min 20 s, all but a/fwd/b1/f32/1 correct.");
    }
}
