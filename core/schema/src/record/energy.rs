//! Energy of a case: joules of an execution, and power, from steady stretches beside an energy counter.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::stats::Summary;
use super::{Better, Items, Score};
use crate::device::EnergySource;
use crate::units::{Flops, Nanos, percent, three_digits};

/// Share by which integrated power may differ from the counter beside the counter's steps: the accuracy that NVML states for power.
const POWER_ERROR: f64 = 0.05;
/// Updates of the counter that the difference of two readings may miss.
const STEPS: f64 = 2.0;

/// Energy of a case, or the reason of its absence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Energy {
    /// The figures.
    Measured(Box<EnergyFigure>),
    /// The reason of their absence.
    Absent(String),
}

/// Figures of steady stretches. All but `source`, `step`, `idle_watts` and `busy` follow from the stretches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EnergyFigure {
    /// Origin of the counter.
    pub source: EnergySource,
    /// Median energy of one execution, in joules.
    pub joules: f64,
    /// 95 % interval of it, low end.
    pub low: f64,
    /// 95 % interval of it, high end.
    pub high: f64,
    /// Mean power over all stretches, in watts, the idle power included.
    pub watts: f64,
    /// Power before the first case of the run, with the device open and at rest.
    pub idle_watts: f64,
    /// Mean of the power samples over the same time; absent where there is no sensor of the power.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integrated_watts: Option<f64>,
    /// Usual time between two updates of the counter.
    pub step: Nanos,
    /// Share of the stretches in which the device executed, by the run's clock.
    pub busy: f64,
    /// The stretches, one after the other.
    pub stretches: Vec<Stretch>,
}

/// Stretch of executions without a pause, between two readings of the counter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stretch {
    /// Number of executions.
    pub executions: u64,
    /// Host time of the stretch.
    pub wall: Nanos,
    /// Difference of the counter, in joules, between its latest updates before both ends.
    pub joules: f64,
    /// Time between these two updates.
    pub over: Nanos,
    /// Integrated power over the same time, in joules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integrated: Option<f64>,
}

impl Stretch {
    /// Returns joules of one execution: the power between the updates, for the time of an execution.
    fn per_execution(&self) -> f64 {
        self.joules / self.over.secs() * self.wall.secs() / self.executions as f64
    }
}

/// State of the device and of the counter, beside the stretches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EnergyState {
    /// Origin of the counter.
    pub source: EnergySource,
    /// Usual time between two updates of the counter.
    pub step: Nanos,
    /// Power at rest, in watts.
    pub idle_watts: f64,
    /// Share of the stretches in which the device executed.
    pub busy: f64,
}

impl EnergyFigure {
    /// Returns the figures of stretches.
    ///
    /// # Errors
    /// The reason of a refusal: a counter that stood still, or that differs from the integrated power.
    pub fn of(state: EnergyState, stretches: Vec<Stretch>) -> Result<EnergyFigure, String> {
        let figure = EnergyFigure::derived(state, stretches)?;
        let Some(integrated) = figure.integrated_watts else { return Ok(figure) };
        let over: f64 = figure.stretches.iter().map(|stretch| stretch.over.secs()).sum();
        let allowed = STEPS * state.step.secs() / over + POWER_ERROR;
        let apart = (integrated / figure.watts - 1.0).abs();
        if apart.is_nan() || apart > allowed {
            return Err(format!(
                "the energy counter gives {} W and the power samples {} W: {} apart, beyond the {} of two steps of {} and of the \
                 sensor",
                three_digits(figure.watts),
                three_digits(integrated),
                percent(apart),
                percent(allowed),
                state.step
            ));
        }
        Ok(figure)
    }

    /// Returns the figures of stretches, however far the integrated power is from the counter.
    ///
    /// # Errors
    /// A counter that stood still.
    pub(super) fn derived(state: EnergyState, stretches: Vec<Stretch>) -> Result<EnergyFigure, String> {
        let still = |stretch: &&Stretch| !(stretch.joules > 0.0 && stretch.over.0 > 0.0 && stretch.executions > 0);
        if let Some(stretch) = stretches.iter().find(still) {
            return Err(format!("the energy counter stood still over a stretch of {}", stretch.wall));
        }
        let joules: Vec<f64> = stretches.iter().map(Stretch::per_execution).collect();
        let summary = Summary::of(&joules).ok_or("no stretch was measured")?;
        let (all, over) =
            stretches.iter().fold((0.0, 0.0), |(joules, over), s| (joules + s.joules, over + s.over.secs()));
        let integrated: Option<f64> = stretches.iter().map(|s| s.integrated).sum();
        Ok(EnergyFigure {
            source: state.source,
            joules: summary.median.0,
            low: summary.low.0,
            high: summary.high.0,
            watts: all / over,
            idle_watts: state.idle_watts,
            integrated_watts: integrated.map(|joules| joules / over),
            step: state.step,
            busy: state.busy,
            stretches,
        })
    }

    /// Returns the state that [`EnergyFigure::of`] took.
    pub fn state(&self) -> EnergyState {
        EnergyState { source: self.source, step: self.step, idle_watts: self.idle_watts, busy: self.busy }
    }

    /// Returns joules per execution, operations per joule and items per joule as scores over the stretches.
    pub fn scores(&self, flops: Flops, items: Option<&Items>) -> Vec<Score> {
        let over = self.stretches.len() as u64;
        let score =
            |name: String, [value, low, high]: [f64; 3], better| Score { name, value, low, high, better, items: over };
        let per_joule = |count: f64| [self.joules, self.high, self.low].map(|joules| count / joules);
        let mut scores = vec![score("J/execution".to_owned(), [self.joules, self.low, self.high], Better::Lower)];
        if flops.0 > 0 {
            scores.push(score("GFLOP/J".to_owned(), per_joule(flops.0 as f64 / 1e9), Better::Higher));
        }
        if let Some(items) = items {
            scores.push(score(format!("{}/J", items.name), per_joule(items.count as f64), Better::Higher));
        }
        scores
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATE: EnergyState =
        EnergyState { source: EnergySource::Nvml, step: Nanos(2e7), idle_watts: 70.0, busy: 0.99 };

    /// Six stretches of 0.4 s at about 500 W, with 100 executions each.
    fn stretches(integrated: Option<f64>) -> Vec<Stretch> {
        let stretch = |i: u32| {
            let joules = 200.0 + f64::from(i);
            let (wall, over) = (Nanos(4e8), Nanos(4e8));
            Stretch { executions: 100, wall, joules, over, integrated: integrated.map(|share| share * joules) }
        };
        (0..6).map(stretch).collect()
    }

    #[test]
    fn joules_are_those_of_an_execution() {
        let figure = EnergyFigure::of(STATE, stretches(Some(1.02))).expect("agrees");
        assert!((figure.joules - 2.025).abs() < 1e-9, "{figure:?}");
        assert!((figure.low - 2.0).abs() < 1e-9 && (figure.high - 2.05).abs() < 1e-9, "{figure:?}");
        assert!((figure.watts - 506.25).abs() < 1e-9, "{figure:?}");
        assert!((figure.integrated_watts.expect("samples") - 1.02 * 506.25).abs() < 1e-9);
        // The counter's updates span less time than the executions.
        let early = stretches(None).into_iter().map(|s| Stretch { joules: s.joules / 2.0, over: Nanos(2e8), ..s });
        let early = EnergyFigure::of(STATE, early.collect()).expect("no power");
        assert!((early.joules - figure.joules).abs() < 1e-9 && early.integrated_watts.is_none());
    }

    #[test]
    fn a_counter_without_sense_is_refused() {
        for (stretches, reason) in [
            (Vec::new(), "no stretch"),
            (stretches(Some(1.10)), "10.0 % apart"),
            (stretches(Some(0.80)), "20.0 % apart"),
            (stretches(None).into_iter().map(|s| Stretch { joules: 0.0, ..s }).collect(), "stood still"),
            (stretches(None).into_iter().map(|s| Stretch { over: Nanos(0.0), ..s }).collect(), "stood still"),
        ] {
            let why = EnergyFigure::of(STATE, stretches).expect_err(reason);
            assert!(why.contains(reason), "{why}");
        }
        // Coarser steps allow more.
        let coarse = EnergyState { step: Nanos(1e8), ..STATE };
        assert!(EnergyFigure::of(coarse, stretches(Some(1.10))).is_ok());
    }

    #[test]
    fn scores_have_the_interval_of_the_joules() {
        let figure = EnergyFigure::of(STATE, stretches(None)).expect("a figure");
        let items = Items { name: "samples".to_owned(), count: 8 };
        let scores = figure.scores(Flops(4_000_000_000), Some(&items));
        let names: Vec<&str> = scores.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["J/execution", "GFLOP/J", "samples/J"]);
        assert_eq!(
            scores.iter().map(|s| s.better).collect::<Vec<_>>(),
            [Better::Lower, Better::Higher, Better::Higher]
        );
        assert!(scores.iter().all(|s| s.low <= s.value && s.value <= s.high && s.items == 6));
        assert!((scores[1].value - 4.0 / figure.joules).abs() < 1e-12);
        assert_eq!(figure.scores(Flops(0), None).len(), 1);
    }
}
