//! Samples of one case: size of the batch, single samples, and the resulting timing.

use parallax_ir::device::{BackendError, Batch, Prepared, Profiler, Sample};
use parallax_schema::device::{Clock, ClockInfo, Conditions, rounding};
use parallax_schema::record::stats::Summary;
use parallax_schema::record::{Discarded, Method, Slope, Spent, StopReason, THROTTLED, Timing};
use parallax_schema::spec::Cache;
use parallax_schema::units::{Nanos, percent};

use crate::measure::stopping_criterion::{Limits, Next, StoppingCriterion};

/// Longest submission, for the sake of other users of the device and of watchdogs.
const LONGEST_BATCH: Nanos = Nanos(100e6);
/// Shortest batch; a shorter one measures the interface's noise.
const SHORTEST_BATCH: Nanos = Nanos(2e6);
/// Largest clock error, as a share of a sample.
pub const CLOCK_SHARE: f64 = 0.01;
/// Approximate time of the untimed executions before a sample.
const LEAD: Nanos = Nanos(0.25e6);
/// Length beyond which an execution brings caches into its own state by itself.
const LONG_EXECUTION: Nanos = Nanos(10e6);
/// Largest number of executions in one submission.
const MOST_REPEATS: u32 = 1 << 16;
/// Smallest ratio of a batch to the time until the host knows of its completion.
const BUSY: f64 = 5.0;
/// Share of the period of the host's looks that a batch fills. A batch beyond the next look leaves the device idle until the one
/// after.
const PERIOD_SHARE: f64 = 0.8;
/// Submissions of one execution before the batch is sized.
const SINGLES: usize = 3;
/// Number of samples with a short batch, where it is no part of their time.
const PAIRS: usize = 9;
/// Executions of the long batch over those of the short one.
const SHORT_PART: u32 = 8;

/// The run's trusted clock, and its error for one batch.
#[derive(Debug, Clone, PartialEq)]
pub struct TrustedClock {
    /// The clock.
    pub info: ClockInfo,
    /// Fixed time of every submission that the clock sees beside the kernels; nearly nothing on a device's own clock.
    pub fixed: Nanos,
    /// Error of the time of one batch.
    pub error: Nanos,
    /// Period at which the host looks for completed work; zero if it knows at once.
    pub period: Nanos,
}

impl TrustedClock {
    /// Returns the time of a sample's batch.
    pub fn read(&self, sample: Sample) -> Nanos {
        if self.info.clock == Clock::Host { sample.host } else { sample.time }
    }
}

/// Reason why a case has no sampler.
#[derive(Debug, Clone, PartialEq)]
pub enum Unsized {
    /// The clock cannot resolve the case.
    Unresolvable(String),
    /// The device failed.
    Backend(BackendError),
}

impl From<BackendError> for Unsized {
    fn from(error: BackendError) -> Unsized {
        Unsized::Backend(error)
    }
}

/// Samples of one case.
#[derive(Clone)]
pub struct Sampler {
    clock: TrustedClock,
    method: Method,
    cache: Cache,
    sets: u32,
    repeats: u32,
    short: u32,
    lead: u32,
    clock_error: f64,
    rule: StoppingCriterion,
    /// Host times of samples that count, in the order of the samples in `rule`.
    host: Vec<f64>,
    conditions: Vec<Conditions>,
    /// Times of the long and short batch of every sample after the warm-up: the run's clock, then the host's.
    pairs: Vec<[Nanos; 4]>,
    /// Samples that do not count, except where most samples are like them.
    disturbed: Vec<Disturbed>,
    /// Samples that never count.
    refused: Vec<Discarded>,
    /// Execution of the sizing that becomes the first sample, because it alone takes the budget.
    sized_by: Option<Sample>,
    spent: Spent,
}

#[derive(Clone)]
struct Disturbed {
    time: f64,
    host: f64,
    conditions: Conditions,
    reason: String,
}

impl Sampler {
    /// Sizes the batch: the number of executions grows, at most fourfold a step, until the clock's error is small beside their
    /// time.
    pub async fn size(
        prepared: &mut dyn Prepared,
        clock: &TrustedClock,
        limits: Limits,
        cache: Cache,
        sets: u32,
    ) -> Result<Sampler, Unsized> {
        // Times of submissions of one execution, the fixed cost included.
        let mut single = Vec::new();
        let fixed_cost = clock.fixed.0 > CLOCK_SHARE * SHORTEST_BATCH.0;
        for _ in 0..SINGLES {
            let sample = prepared.measure(Batch::new(1)).await?;
            single.push(sample);
            // Noise is small beside a long execution. A slope starts from the fixed cost, which needs the shortest of three.
            let long = if fixed_cost { LONGEST_BATCH } else { LONG_EXECUTION };
            if sample.host.0 >= long.0 {
                break;
            }
        }
        let least = |of: &dyn Fn(&Sample) -> f64| single.iter().map(of).fold(f64::INFINITY, f64::min);
        let (one, one_on_host) = (least(&|s| clock.read(*s).0), least(&|s| s.host.0));
        let slope = fixed_cost && one < LONGEST_BATCH.0 / 2.0;
        // A device that idles until the host knows of each sample lowers its clocks. The batch is therefore long beside that
        // time, which may be milliseconds in a page.
        let round_trip = (one_on_host - one).max(clock.fixed.0);
        let busy = match clock.period {
            Nanos(0.0) => (BUSY * round_trip).min(LONGEST_BATCH.0 / 2.0),
            period => PERIOD_SHARE * period.0.min(LONGEST_BATCH.0),
        };
        // The difference of two readings has twice the error, over 7/8 of the executions.
        let error = if slope { clock.error.0 * 2.0 / (1.0 - 1.0 / f64::from(SHORT_PART)) } else { clock.error.0 };
        let wanted = SHORTEST_BATCH.0.max(busy).max(error / CLOCK_SHARE * 1.05).min(LONGEST_BATCH.0);
        let mut repeats = 1u32;
        let time = loop {
            let (read, host) = match repeats {
                // The first execution has the fixed cost, from which a slope is free.
                1 if slope => (0.0, 0.0),
                1 => (one, one_on_host),
                _ => {
                    let sample = prepared.measure(Batch::new(repeats)).await?;
                    let without = |time: f64, first: f64| if slope { time - first } else { time };
                    (without(clock.read(sample).0, one), without(sample.host.0, one_on_host))
                }
            };
            // The longer of the two clocks decides: a broken clock must not make the batch grow without end.
            // A host that looks rarely sees the period beside it.
            let time = read.max((host - clock.period.0) / 4.0);
            if time >= wanted || repeats >= MOST_REPEATS {
                break read;
            }
            let factor = (wanted / time.max(1.0) * 1.1).clamp(1.5, 4.0);
            repeats = (f64::from(repeats) * factor).ceil().min(f64::from(MOST_REPEATS)) as u32;
        };
        let clock_error = if time > 0.0 { error / time } else { f64::INFINITY };
        // The limit has a tenth of slack: the batch may be a little shorter than during sizing.
        if clock_error > 1.1 * CLOCK_SHARE {
            let step = clock.info.step;
            return Err(Unsized::Unresolvable(match clock_error.is_finite() {
                true => format!(
                    "the {} clock (steps of {step}) is off by up to {} of the longest batch of {repeats} executions, \
                     which took {}",
                    clock.info.clock.label(),
                    percent(clock_error),
                    Nanos(time)
                ),
                false => format!("the {} clock saw no time pass in {repeats} executions", clock.info.clock.label()),
            }));
        }
        let execution = time / f64::from(repeats);
        // The host's clock includes a submission's lead, so that clock gets none.
        let lead = match clock.info.clock {
            Clock::Host => 0,
            _ if execution > LONG_EXECUTION.0 => 0,
            _ => ((LEAD.0 / execution).ceil() as u32).clamp(1, repeats),
        };
        // With a long period, the device would idle beside a short batch. A device's own clock needs none.
        let alone = repeats < 2 || (clock.period.0 > 0.0 && !slope);
        let short = if alone { 0 } else { (repeats / SHORT_PART).max(1) };
        let mut rule = StoppingCriterion::new(limits);
        // An execution that alone takes the budget is a sample: the first launch has warmed it up.
        let sized_by = single.first().copied().filter(|_| one_on_host >= limits.budget.0.max(LONGEST_BATCH.0));
        if sized_by.is_some() {
            rule.begin_warm();
        } else if one_on_host >= LONGEST_BATCH.0 {
            // These executions are batches of their own, and warm up.
            for sample in &single {
                rule.add(clock.read(*sample), sample.host);
            }
        }
        Ok(Sampler {
            clock: clock.clone(),
            method: if slope && short > 0 { Method::Slope } else { Method::Batch },
            cache,
            sets,
            repeats,
            short,
            lead,
            clock_error,
            rule,
            host: Vec::new(),
            conditions: Vec::new(),
            pairs: Vec::new(),
            disturbed: Vec::new(),
            refused: Vec::new(),
            sized_by,
            spent: Spent::default(),
        })
    }

    /// Continues from the samples that an earlier part of the run took with the same method, cache state and buffer sets. Other
    /// samples are ignored.
    pub fn resume(&mut self, earlier: &Timing) {
        let same_way = (earlier.method, earlier.cache, earlier.sets) == (self.method, self.cache, self.sets);
        if !same_way || earlier.host_samples.len() != earlier.samples.len() {
            return;
        }
        let all = |times: &[f64], executions: u32| Nanos(times.iter().sum::<f64>() * f64::from(executions));
        let host = all(&earlier.host_samples, earlier.repeats.saturating_add(earlier.lead));
        self.rule.resume(&earlier.samples, host);
        self.spent += Spent { wall: host, waiting: host, device: all(&earlier.samples, earlier.repeats), cpu: None };
        self.host.clone_from(&earlier.host_samples);
        self.conditions.clone_from(&earlier.conditions);
        // The record omits sensors without readings.
        self.conditions.resize(self.host.len(), Conditions::default());
    }

    /// Returns a sampler of the same batches without samples.
    pub fn afresh(&self) -> Sampler {
        Sampler {
            rule: self.rule.afresh(),
            host: Vec::new(),
            conditions: Vec::new(),
            pairs: Vec::new(),
            disturbed: Vec::new(),
            refused: Vec::new(),
            sized_by: None,
            spent: Spent::default(),
            ..self.clone()
        }
    }

    /// Takes samples until the criterion stops, for a case that is measured alone.
    pub async fn sample_all(
        &mut self,
        prepared: &mut dyn Prepared,
        profiler: &mut dyn Profiler,
    ) -> Result<StopReason, BackendError> {
        loop {
            if let Some(why) = self.sample(prepared, profiler, None).await? {
                return Ok(why);
            }
            profiler.yield_now().await;
        }
    }

    /// Takes one sample: a short and a long batch. `slow` is the reason why the device is known to be slower than usual.
    ///
    /// Returns the reason to stop after enough samples.
    pub async fn sample(
        &mut self,
        prepared: &mut dyn Prepared,
        profiler: &mut dyn Profiler,
        slow: Option<&str>,
    ) -> Result<Option<StopReason>, BackendError> {
        let (began, cpu, stood) = (profiler.now(), profiler.cpu_time(), profiler.stood_still());
        // Beside batches, the slope is a description, for which a few pairs are enough.
        let paired = self.method == Method::Slope || self.rule.warm() && self.pairs.len() < PAIRS;
        let short = match self.short {
            0 => None,
            _ if !paired => None,
            short => Some(prepared.measure(Batch { lead: self.lead, repeats: short }).await?),
        };
        let sized_by = self.sized_by.take();
        let long = match sized_by {
            Some(sample) => sample,
            None => prepared.measure(Batch { lead: self.lead, repeats: self.repeats }).await?,
        };
        let still = profiler.stood_still() - stood;
        // A clock may stop while the machine is suspended: the pause does not count then.
        let now = Nanos((profiler.now() - began - still).0.max(0.0));
        let wall = sized_by.map_or(now, |sample| sample.host);
        if still.0 > 0.0 {
            // The sensors' next readings cover the time since this call.
            profiler.conditions();
            self.spent.wall += wall;
            let (time, reason) = (self.execution(short, long), format!("the program stood still for {still}"));
            self.refused.push(Discarded { time, reason });
            return Ok(stop(self.rule.spend(wall)));
        }
        let samples = || short.iter().chain([&long]);
        self.spent += Spent {
            wall,
            waiting: Nanos(samples().map(|s| s.host.0).sum()),
            device: Nanos(samples().map(|s| self.clock.read(*s).0).sum()),
            cpu: profiler.cpu_time().zip(cpu).map(|(now, then)| now - then),
        };
        let conditions = profiler.conditions();
        let time = self.execution(short, long);
        let host = long.host.0 / f64::from(self.repeats + self.lead);
        if time <= 0.0 || !time.is_finite() {
            let reason = "the clock gave a time of zero or less".to_owned();
            self.refused.push(Discarded { time, reason });
            return Ok(stop(self.rule.spend(wall)));
        }
        if conditions.hidden {
            self.refused.push(Discarded { time, reason: "the page was out of sight".to_owned() });
            return Ok(stop(self.rule.spend(wall)));
        }
        let warming = !self.rule.warm();
        let throttled =
            (!conditions.throttle.is_empty()).then(|| format!("{THROTTLED}{}", conditions.throttle.join(", ")));
        // A device that is throttled most of the time is measured in that state.
        let patient = self.disturbed.len() <= self.rule.samples().len() + 4;
        if let (false, true, Some(reason)) = (warming, patient, throttled.or(slow.map(str::to_owned))) {
            self.disturbed.push(Disturbed { time, host, conditions, reason });
            return Ok(stop(self.rule.spend(wall)));
        }
        let next = self.rule.add(Nanos(time), wall);
        if !warming {
            self.host.push(host);
            self.conditions.push(conditions);
            if let Some(short) = short {
                self.pairs.push([self.clock.read(long), self.clock.read(short), long.host, short.host]);
            }
        }
        Ok(stop(next))
    }

    /// Time of one execution in nanoseconds.
    fn execution(&self, short: Option<Sample>, long: Sample) -> f64 {
        let long = self.clock.read(long);
        match (self.method, short) {
            (Method::Slope, Some(short)) => (long.0 - self.clock.read(short).0) / f64::from(self.repeats - self.short),
            _ => long.0 / f64::from(self.repeats),
        }
    }

    /// Number of executions of the long batch.
    pub fn repeats(&self) -> u32 {
        self.repeats
    }

    /// Share of the sampling that is done, by the budget.
    pub fn progress(&self) -> f64 {
        self.rule.progress()
    }

    /// Number of samples that count so far.
    pub fn samples(&self) -> usize {
        self.rule.samples().len()
    }

    /// Returns the last sample that counts: its time, the host's, and the sensors' readings.
    pub fn last(&self) -> Option<(f64, f64, &Conditions)> {
        Some((*self.rule.samples().last()?, *self.host.last()?, self.conditions.last()?))
    }

    /// Returns the timing so far, if any sample counts.
    pub fn result_so_far(&self) -> Option<Timing> {
        self.clone().finish(StopReason::Killed).ok()
    }

    /// Returns the timing; otherwise the reason why no sample counts.
    pub fn finish(mut self, stopped: StopReason) -> Result<Timing, String> {
        let mut samples = self.rule.samples().to_vec();
        // The larger part is never discarded: the disturbance is then the device's ordinary state.
        let mut caveat = None;
        if self.disturbed.len() > samples.len() {
            let (n, why) = (self.disturbed.len(), &self.disturbed[0].reason);
            caveat = Some(format!("{n} of {} samples were disturbed ({why}), so they count", n + samples.len()));
            for d in self.disturbed.drain(..) {
                samples.push(d.time);
                self.host.push(d.host);
                self.conditions.push(d.conditions);
            }
        }
        // Rounded as in the file, so that figures derived from the file are the same.
        samples.iter_mut().chain(&mut self.host).for_each(|time| *time = rounding::time(*time));
        let Some(summary) = Summary::of(&samples) else {
            let why = self.refused.last().map_or("the run ended before the first one", |r| r.reason.as_str());
            return Err(format!("no sample counts: {why}"));
        };
        if self.conditions.iter().all(Conditions::say_nothing) {
            self.conditions.clear();
        }
        let disturbed = self.disturbed.into_iter().map(|d| Discarded { time: d.time, reason: d.reason });
        Ok(Timing {
            method: self.method,
            launch: None,
            relaunched: None,
            cache: self.cache,
            sets: self.sets,
            repeats: self.repeats,
            lead: self.lead,
            slope: slope(&self.pairs, self.short, self.repeats, self.lead),
            clock_error: self.clock_error,
            warm_up: self.rule.warmed_up_after() as u32,
            samples,
            host_samples: self.host,
            conditions: self.conditions,
            discarded: disturbed.chain(self.refused).map(|d| Discarded { time: rounding::time(d.time), ..d }).collect(),
            caveat,
            stopped,
            summary,
            spent: self.spent,
        })
    }
}

fn stop(next: Next) -> Option<StopReason> {
    match next {
        Next::Stop(why) => Some(why),
        Next::WarmUp | Next::Sample => None,
    }
}

/// Fits a line to the short and long batches.
///
/// Each pair of batches gives a slope of its own, so that drift between pairs cancels. The result is the median of the slopes, as
/// in the Theil–Sen estimator with pairs fixed by design. Its interval is the distribution-free one of a median.
/// The host's clock also sees the lead, which is the same in both batches and cancels in the slope. The executions of the lead
/// are subtracted from the intercept.
fn slope(pairs: &[[Nanos; 4]], short: u32, repeats: u32, lead: u32) -> Option<Slope> {
    let more = f64::from(repeats - short);
    let of =
        |long: usize, s: usize| Summary::of(&pairs.iter().map(|p| (p[long].0 - p[s].0) / more).collect::<Vec<_>>());
    let (execution, host) = (of(0, 1)?, of(2, 3)?);
    let fixed = |at: usize, execution: Nanos, executions: u32| {
        let rest: Vec<f64> = pairs.iter().map(|p| p[at].0 - execution.0 * f64::from(executions)).collect();
        Summary::of(&rest).map(|s| s.median)
    };
    Some(Slope {
        short,
        execution: execution.median,
        low: execution.low,
        high: execution.high,
        fixed: fixed(1, execution.median, short)?,
        host_execution: host.median,
        host_fixed: fixed(3, host.median, short + lead)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_tells_execution_and_submission_apart() {
        // 7 ns an execution and 500 a submission on the device; 8 and 3000 on the host, which sees 2 more executions.
        let pairs: Vec<[Nanos; 4]> = (0..9)
            .map(|i| {
                let drift = f64::from(i);
                [7.0 * 80.0 + 500.0 + drift, 7.0 * 10.0 + 500.0 + drift, 8.0 * 82.0 + 3000.0, 8.0 * 12.0 + 3000.0]
                    .map(Nanos)
            })
            .collect();
        let slope = slope(&pairs, 10, 80, 2).expect("pairs");
        assert_eq!((slope.execution, slope.low, slope.high), (Nanos(7.0), Nanos(7.0), Nanos(7.0)));
        assert_eq!(slope.fixed, Nanos(504.0), "the median of the drifting intercepts");
        assert_eq!((slope.host_execution, slope.host_fixed), (Nanos(8.0), Nanos(3000.0)));
        assert_eq!(super::slope(&[], 1, 8, 0), None);
    }
}
