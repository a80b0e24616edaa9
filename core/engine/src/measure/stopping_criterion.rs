//! The stopping criterion: a pure state machine on samples and host time, tested with synthetic noise.

use parallax_schema::record::StopReason;
use parallax_schema::record::stats::{FEWEST, Summary, quantile};
use parallax_schema::units::Nanos;

/// Budget and precision of a case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Width of the 95 % interval of the median that stops the sampling (half width over median).
    pub precision: f64,
    /// Host time that stops the sampling, warm-up included.
    pub budget: Nanos,
    /// Minimum host time of the warm-up, even when samples are steady. An idle GPU takes a while to raise its clocks, and runs
    /// steadily at the low ones until then. Zero where the device is already busy.
    pub warm_up: Nanos,
    /// Minimum host time, however narrow the interval is.
    pub least: Nanos,
    /// Minimum number of samples within the budget. Beyond it, up to three budgets, the smallest number with an interval is enough.
    pub min_samples: usize,
    /// Maximum number of samples.
    pub max_samples: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            precision: 0.01,
            budget: Nanos::from_secs(2.0),
            warm_up: Nanos::from_secs(0.2),
            least: Nanos(0.0),
            min_samples: 10,
            max_samples: 2000,
        }
    }
}

/// Use of the next sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Take one and discard it.
    WarmUp,
    /// Take one and keep it.
    Sample,
    /// Stop.
    Stop(StopReason),
}

/// Criterion that decides after every sample.
#[derive(Debug, Clone)]
pub struct StoppingCriterion {
    limits: Limits,
    warm_up: Vec<f64>,
    warm: bool,
    samples: Vec<f64>,
    spent: Nanos,
}

/// Samples in each half of the warm-up window.
const WINDOW: usize = 3;

impl StoppingCriterion {
    /// Returns a criterion without samples.
    pub fn new(limits: Limits) -> Self {
        StoppingCriterion { limits, warm_up: Vec::new(), warm: false, samples: Vec::new(), spent: Nanos(0.0) }
    }

    /// Returns a criterion of the same limits without samples.
    pub fn afresh(&self) -> Self {
        StoppingCriterion::new(self.limits)
    }

    /// Continues from samples that were kept before and took `spent` host time. New samples warm up again.
    pub fn resume(&mut self, samples: &[f64], spent: Nanos) {
        self.samples = samples.to_vec();
        self.spent = spent;
    }

    /// Adds one sample (time per execution) that took `host` of wall time, and returns the next action.
    pub fn add(&mut self, time: Nanos, host: Nanos) -> Next {
        self.spent += host;
        if self.warm {
            self.samples.push(time.0);
            return self.next_sample();
        }
        self.warm_up.push(time.0);
        // Beyond the minimum, the warm-up takes at most a quarter of the budget.
        let Limits { warm_up, budget, .. } = self.limits;
        self.warm = self.spent.0 >= warm_up.0 && (self.steady() || self.spent.0 > budget.0 / 4.0);
        if self.warm { self.next_sample() } else { Next::WarmUp }
    }

    /// Ends the warm-up: earlier executions have warmed up the case.
    pub fn begin_warm(&mut self) {
        self.warm = true;
    }

    /// Adds host time without a sample that counts.
    pub fn spend(&mut self, host: Nanos) -> Next {
        self.spent += host;
        match self.warm {
            // A case without any sample that counts must end too.
            _ if self.spent.0 >= 3.0 * self.limits.budget.0 => Next::Stop(StopReason::Budget),
            false => Next::WarmUp,
            true if self.samples.is_empty() => Next::Sample,
            true => self.next_sample(),
        }
    }

    /// Share of the budget that is spent, at most 1.
    pub fn progress(&self) -> f64 {
        (self.spent.0 / self.limits.budget.0.max(1.0)).min(1.0)
    }

    /// Whether the warm-up is over.
    pub fn warm(&self) -> bool {
        self.warm
    }

    /// The samples kept.
    pub fn samples(&self) -> &[f64] {
        &self.samples
    }

    /// Number of samples that were discarded.
    pub fn warmed_up_after(&self) -> usize {
        self.warm_up.len()
    }

    /// Whether the running median no longer falls: the last few samples are not faster than the few before them.
    fn steady(&self) -> bool {
        let n = self.warm_up.len();
        if n < 2 * WINDOW {
            return false;
        }
        let median = |window: &[f64]| {
            let mut sorted = window.to_vec();
            sorted.sort_by(f64::total_cmp);
            quantile(&sorted, 0.5)
        };
        let (before, after) = (median(&self.warm_up[n - 2 * WINDOW..n - WINDOW]), median(&self.warm_up[n - WINDOW..]));
        (after - before).abs() <= 0.03 * before
    }

    /// Whether three budgets are enough for the smallest number of samples with an interval.
    fn reaches_an_interval(&self) -> bool {
        let (n, taken) = (self.samples.len(), self.samples.len() + self.warm_up.len());
        let sample = self.spent.0 / taken.max(1) as f64;
        self.spent.0 + sample * (FEWEST as usize).saturating_sub(n) as f64 <= 3.0 * self.limits.budget.0
    }

    fn next_sample(&self) -> Next {
        let n = self.samples.len();
        let over = |times: f64| self.spent.0 >= self.limits.budget.0 * times;
        if n >= self.limits.max_samples {
            return Next::Stop(StopReason::Samples);
        }
        if n == 0 || (n < self.limits.min_samples && !over(1.0)) || (n < FEWEST as usize && self.reaches_an_interval())
        {
            return Next::Sample;
        }
        if over(1.0) {
            return Next::Stop(StopReason::Budget);
        }
        if self.spent.0 < self.limits.least.0 {
            return Next::Sample;
        }
        let precise = Summary::of(&self.samples).is_some_and(|s| s.precision() <= self.limits.precision);
        if precise { Next::Stop(StopReason::Precise) } else { Next::Sample }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds times (ns) until the criterion stops; each sample costs a millisecond of host time.
    fn run(limits: Limits, time: impl Fn(usize) -> f64) -> (StopReason, usize, usize) {
        let mut rule = StoppingCriterion::new(limits);
        for i in 0..100_000 {
            if let Next::Stop(why) = rule.add(Nanos(time(i)), Nanos(1e6)) {
                return (why, rule.warmed_up_after(), rule.samples().len());
            }
        }
        panic!("never stopped");
    }

    /// Limits under which only steadiness ends the warm-up.
    fn limits() -> Limits {
        Limits { warm_up: Nanos(0.0), ..Limits::default() }
    }

    /// Noise without a generator: multiples of the golden ratio are evenly spread.
    fn noise(i: usize) -> f64 {
        (i as f64 * 0.618_033_988_75).fract() - 0.5
    }

    #[test]
    fn quiet_times_stop_at_the_minimum() {
        assert_eq!(run(limits(), |_| 100.0), (StopReason::Precise, 6, 10));
    }

    #[test]
    fn settling_times_are_warmed_up_first() {
        let (why, warm_up, _) = run(limits(), |i| 100.0 + 400.0 * 0.7f64.powi(i as i32));
        assert_eq!(why, StopReason::Precise);
        assert!((12..25).contains(&warm_up), "{warm_up}");
    }

    #[test]
    fn noise_takes_more_samples_and_wild_noise_spends_the_budget() {
        let (why, _, few) = run(limits(), |i| 100.0 + 4.0 * noise(i));
        assert_eq!(why, StopReason::Precise);
        let (why, _, more) = run(limits(), |i| 100.0 + 20.0 * noise(i));
        assert_eq!(why, StopReason::Precise);
        assert!(more > few, "{few} {more}");
        let (why, ..) = run(Limits { precision: 1e-4, ..limits() }, |i| 100.0 + 150.0 * noise(i));
        assert_eq!(why, StopReason::Budget);
    }

    #[test]
    fn two_modes_do_not_pass_for_precise() {
        let (why, _, samples) = run(limits(), |i| if i % 2 == 0 { 100.0 } else { 150.0 });
        assert_eq!((why, samples > 100), (StopReason::Budget, true));
    }

    #[test]
    fn a_least_time_is_kept_even_when_quiet() {
        let (why, _, samples) = run(Limits { least: Nanos(100e6), ..limits() }, |_| 100.0);
        assert_eq!((why, samples), (StopReason::Precise, 94), "six of the hundred milliseconds were warm-up");
    }

    #[test]
    fn one_outlier_changes_nothing() {
        assert_eq!(run(limits(), |i| if i == 8 { 1e6 } else { 100.0 }), (StopReason::Precise, 6, 10));
    }

    #[test]
    fn slow_cases_stop_after_three_budgets_with_what_they_have() {
        let mut rule = StoppingCriterion::new(Limits { budget: Nanos(1.0), ..limits() });
        assert_eq!(rule.add(Nanos(5.0), Nanos(5.0)), Next::Sample, "at least one sample is kept");
        assert_eq!(rule.add(Nanos(5.0), Nanos(5.0)), Next::Stop(StopReason::Budget));
        assert_eq!(rule.samples(), [5.0]);
    }

    #[test]
    fn three_budgets_are_spent_for_an_interval_only() {
        let taken = |sample: f64| {
            let mut rule = StoppingCriterion::new(Limits { budget: Nanos(10.0), ..limits() });
            rule.begin_warm();
            while rule.add(Nanos(sample), Nanos(sample)) == Next::Sample {}
            rule.samples().len()
        };
        for (sample, want) in [(0.9, 10), (1.5, 7), (4.0, 6), (5.0, 6), (5.1, 2), (9.0, 2), (12.0, 1)] {
            assert_eq!(taken(sample), want, "samples of {sample} in a budget of 10");
        }
    }

    #[test]
    fn a_clock_that_rises_late_is_waited_for() {
        // Steady at a third of the speed for a tenth of a second, then steady at full speed.
        let late = |i| if i < 100 { 300.0 } else { 100.0 };
        let (why, warm_up, _) = run(Limits::default(), late);
        assert_eq!((why, warm_up), (StopReason::Precise, 200));
        assert_eq!(run(limits(), late).1, 6, "steadiness alone would have been fooled");
    }
}
