//! Burn-in of a device: the same executions for a long time, with a comparison of all bits of every result.

mod findings;
mod subject;

pub use findings::{CaseFindings, Findings, MemoryErrors, Verdict};
pub use subject::{Refused, Subject};

use std::time::{Duration, Instant};

use parallax_ir::device::Profiler;

/// Cases of a burn-in without a choice: tensor cores and other arithmetic, memory, and reductions. Each runs in the best variant of the
/// device; types that it lacks are left out.
pub const PROBLEMS: [&str; 8] = [
    "matmul/fwd/m4096,n4096,k4096/bf16",
    "matmul/fwd/m4096,n4096,k4096/f16",
    "matmul/fwd/m2048,n2048,k2048/f32",
    "attention/fwd/b8,h16,s1024,d64/f16",
    "conv2d/fwd/n8,c64,h56,k3,p1,nchw/f32",
    "copy/fwd/n67108864/f32",
    "softmax/fwd/r8192,c8192/f32",
    "layernorm/fwd/r4096,c1024/f32",
];

/// Events of a burn-in, for a display.
pub enum Step<'s> {
    /// A round of a case, and the share of the time that is over.
    Round(&'s str, f64),
    /// Results with other bits.
    Differs(&'s str, u64),
}

/// Executes the cases in turn for `time`, or until `stopped`. Each round of a case takes about a quarter of a second. A device that fails
/// ends it, and the failure is a finding.
pub async fn burn_in(
    profiler: &mut dyn Profiler,
    subjects: &mut [Subject],
    time: Duration,
    stopped: impl Fn() -> bool,
    mut step: impl FnMut(Step<'_>),
) -> Findings {
    let begun = Instant::now();
    let mut findings = Findings { cases: subjects.iter().map(Subject::begin).collect(), ..Findings::default() };
    while begun.elapsed() < time && !stopped() && findings.failed.is_empty() {
        for (subject, found) in subjects.iter_mut().zip(&mut findings.cases) {
            let share = (begun.elapsed().as_secs_f64() / time.as_secs_f64()).min(1.0);
            step(Step::Round(&found.case, share));
            match subject.round(found).await {
                Ok(false) => {}
                Ok(true) => step(Step::Differs(&found.case, found.rounds)),
                Err(why) => {
                    findings.failed.push(format!("{}: the device failed: {why}", found.case));
                    break;
                }
            }
            findings.sensors.take(&profiler.conditions());
        }
        profiler.yield_now().await;
    }
    findings.wall_s = begun.elapsed().as_secs_f64();
    findings
}

#[cfg(test)]
mod tests {
    use parallax_testing::mock::{Fault, Mock};
    use parallax_workloads::parse_case;
    use pollster::block_on;

    use super::*;

    const CASE: &str = "copy/fwd/n4096/f32/vec4";

    /// Burn-in of a scripted device for some milliseconds.
    fn burned(fault: Fault) -> (Findings, Vec<String>) {
        let mut mock = Mock::new(|_| 1e7, fault);
        let subject = block_on(Subject::new(parse_case(CASE).expect("a case"), 42, &mut mock)).expect("right results");
        let mut said = Vec::new();
        let found = block_on(burn_in(
            &mut mock,
            &mut [subject],
            Duration::from_millis(50),
            || false,
            |step| {
                if let Step::Differs(case, round) = step {
                    said.push(format!("{case} {round}"));
                }
            },
        ));
        (found, said)
    }

    #[test]
    fn equal_results_of_every_round_are_healthy() {
        let (found, said) = burned(Fault::None);
        assert_eq!((found.verdict(), said.len()), (Verdict::Healthy, 0), "{found:?}");
        assert!(found.cases[0].rounds > 1 && found.cases[0].executions > found.cases[0].rounds, "{found:?}");
    }

    #[test]
    fn one_different_bit_of_one_round_is_a_fault() {
        let (found, said) = burned(Fault::DiffersAfter(6));
        assert_eq!((found.verdict(), said.len(), found.cases[0].different), (Verdict::Faulty, 1, 1), "{found:?}");
        assert!(found.reasons()[0].contains(CASE), "{:?}", found.reasons());
    }

    #[test]
    fn a_lost_device_is_a_fault_with_the_findings_until_then() {
        // A hundred executions come before the rounds.
        let (found, _) = burned(Fault::LostAt(500));
        assert_eq!(found.verdict(), Verdict::Faulty, "{found:?}");
        assert!(found.cases[0].rounds > 0 && found.failed[0].contains("the device failed"), "{found:?}");
    }

    #[test]
    fn wrong_and_unrepeatable_results_are_refused_at_once() {
        for (fault, part) in
            [(Fault::WrongElement, "should be"), (Fault::DiffersAfter(4), "differ from execution to execution")]
        {
            let mut mock = Mock::new(|_| 1e7, fault);
            let refused = block_on(Subject::new(parse_case(CASE).expect("a case"), 42, &mut mock)).err();
            let refused = refused.expect("refused").to_string();
            assert!(refused.contains(part), "{refused}");
        }
    }
}
