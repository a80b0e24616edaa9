//! Comparison of a few prepared cases. Every round samples all of them in a new random order, so that a slow phase of the device
//! affects them all. It gives an answer in seconds; the records of a run are made in [`runner`](super::runner).

use parallax_ir::device::{BackendError, Prepared, Profiler};
use parallax_ir::splitmix64;
use parallax_schema::record::{StopReason, Timing};
use parallax_schema::spec::Cache;
use parallax_schema::units::Nanos;

use crate::measure::sampler::{Sampler, TrustedClock, Unsized};
use crate::measure::stopping_criterion::Limits;

/// Effort of a comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effort {
    /// Host time for all contenders together.
    pub budget: Nanos,
    /// Seed of the order of samples.
    pub seed: u64,
}

/// Times contenders side by side. Returns the timing of each, or the reason why it has none.
///
/// # Errors
/// Errors of the device.
pub async fn side_by_side(
    contenders: &mut [&mut dyn Prepared],
    clock: &TrustedClock,
    effort: Effort,
    profiler: &mut dyn Profiler,
    mut go_on: impl FnMut() -> bool,
) -> Result<Vec<Result<Timing, String>>, BackendError> {
    let budget = Nanos(effort.budget.0 / contenders.len().max(1) as f64);
    // The first samples find the device in the state that the last comparison left.
    let limits = Limits { budget, warm_up: Nanos(budget.0 / 10.0), least: Nanos(budget.0 / 2.0), ..Limits::default() };
    let mut samplers = Vec::new();
    for contender in contenders.iter_mut() {
        samplers.push(match Sampler::size(&mut **contender, clock, limits, Cache::Hot, 1).await {
            Ok(sampler) => Ok(sampler),
            Err(Unsized::Unresolvable(why)) => Err(why),
            Err(Unsized::Backend(error)) => return Err(error),
        });
    }
    let mut ends: Vec<Option<StopReason>> = vec![None; samplers.len()];
    for round in 0u64.. {
        let waiting = |i: &usize| samplers[*i].is_ok() && ends[*i].is_none();
        let mut order: Vec<usize> = (0..samplers.len()).filter(waiting).collect();
        if order.is_empty() || !go_on() {
            break;
        }
        let draw = |i: usize| splitmix64(effort.seed ^ splitmix64(round) ^ (i as u64).rotate_left(32));
        order.sort_by_key(|i| draw(*i));
        for i in order {
            let Ok(sampler) = &mut samplers[i] else { continue };
            ends[i] = sampler.sample(&mut *contenders[i], profiler, None).await?;
            profiler.yield_now().await;
        }
    }
    let finish = |(sampler, end): (Result<Sampler, String>, Option<StopReason>)| {
        sampler.and_then(|sampler| sampler.finish(end.unwrap_or(StopReason::Asked)))
    };
    Ok(samplers.into_iter().zip(ends).map(finish).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::timer;
    use parallax_ir::Case;
    use parallax_testing::mock::{Mock, World};
    use parallax_workloads::parse_case;
    use pollster::block_on;

    fn contenders(mock: &mut Mock, variants: &[&str]) -> Vec<Box<dyn Prepared>> {
        let prepare = |variant: &&str| {
            let case = parse_case(&format!("attention/fwd/b1,h1,s8,d4/f32/{variant}")).expect("valid");
            let inputs = case.problem.inputs(1);
            block_on(mock.prepare(&case, &inputs, 1)).expect("the mock prepares anything")
        };
        variants.iter().map(prepare).collect()
    }

    #[test]
    fn drift_that_hits_everyone_leaves_ratios_alone() {
        // The device slows down steadily; one variant takes twice as long as the other.
        let of_case = |case: &Case| if case.variant == "manual" { 2.0 } else { 1.0 };
        let pace = |now: f64| 1.0 + now / 1e9;
        let mut mock = Mock::in_world(World { of_case, pace, ..World::default() });
        let mut prepared = contenders(&mut mock, &["manual", "flash"]);
        let (_, clock) = block_on(timer::test(&mut mock, None)).expect("clocks");
        let mut both: Vec<&mut dyn Prepared> = prepared.iter_mut().map(|p| &mut **p as &mut dyn Prepared).collect();
        let effort = Effort { budget: Nanos::from_secs(2.0), seed: 1 };
        let timings = block_on(side_by_side(&mut both, &clock, effort, &mut mock, || true)).expect("no device is lost");
        let median = |i: usize| timings[i].as_ref().expect("timed").summary.median.0;
        let ratio = median(0) / median(1);
        assert!((1.9..2.1).contains(&ratio), "{ratio}");
    }

    #[test]
    fn whoever_cannot_wait_keeps_what_there_is() {
        let mut mock = Mock::in_world(World::default());
        let mut prepared = contenders(&mut mock, &["flash"]);
        let (_, clock) = block_on(timer::test(&mut mock, None)).expect("clocks");
        let mut one: Vec<&mut dyn Prepared> = prepared.iter_mut().map(|p| &mut **p as &mut dyn Prepared).collect();
        let effort = Effort { budget: Nanos::from_secs(1.0), seed: 1 };
        let mut rounds = 0;
        let go_on = || {
            rounds += 1;
            rounds <= 3
        };
        let timings = block_on(side_by_side(&mut one, &clock, effort, &mut mock, go_on)).expect("no device is lost");
        assert!(timings[0].is_err(), "three rounds are warm-up: {timings:?}");
    }
}
