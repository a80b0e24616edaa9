//! Energy: the idle power of a run, and steady stretches of a case after its samples.
//!
//! A case first runs for a second, because sensors of the power may average over one. Six stretches follow without a pause. Each
//! reading of the counter has the time of its latest update, so that the counter's step puts no error on the power. Submissions are
//! long, and the host waits for each: the device rests for a share of the time that the record states.

use parallax_ir::device::{BackendError, Batch, Prepared, Profiler};
use parallax_schema::record::stats::FEWEST;
use parallax_schema::record::{Activity, Energy, EnergyFigure, EnergyState, Stretch};
use parallax_schema::spec::Spec;
use parallax_schema::units::Nanos;

use crate::measure::watch::Watch;

/// Time at rest before the first case.
const IDLE: Nanos = Nanos(1e9);
/// Time of executions before the first stretch.
const WARM: Nanos = Nanos(1e9);
/// Shortest stretch.
const STRETCH: Nanos = Nanos(0.4e9);
/// Fewest updates of the counter in a stretch.
const UPDATES: f64 = 4.0;
/// Approximate length of a submission.
const SUBMISSION: Nanos = Nanos(100e6);
/// Length of a submission over that of the first.
const FIRST: f64 = 10.0;
/// Largest number of executions in a submission.
const MOST_REPEATS: f64 = 65_536.0;
/// Length of an execution beyond which the stretches would take too long.
const LONGEST: Nanos = Nanos(5e9);

/// End of the stretches before a figure.
enum Absence {
    Reason(String),
    Device(BackendError),
}

impl From<String> for Absence {
    fn from(reason: String) -> Absence {
        Absence::Reason(reason)
    }
}

impl From<BackendError> for Absence {
    fn from(error: BackendError) -> Absence {
        Absence::Device(error)
    }
}

/// Returns the power at rest in watts, or the reason of its absence; `None` where energy was not asked for.
pub(super) async fn idle(spec: &Spec, watch: &Watch, profiler: &mut dyn Profiler) -> Option<Result<f64, String>> {
    if !spec.energy {
        return None;
    }
    let activity = watch.begin(Activity::Energy, profiler.now());
    let power = idle_power(profiler).await;
    watch.begin(activity, profiler.now());
    Some(power)
}

async fn idle_power(profiler: &mut dyn Profiler) -> Result<f64, String> {
    let begin = profiler.energy(Nanos(0.0)).await?;
    let end = profiler.energy(IDLE).await?;
    let watts = (end.joules - begin.joules) / (end.at - begin.at).secs();
    let moved = watts.is_finite() && watts >= 0.0;
    moved.then_some(watts).ok_or_else(|| format!("the energy counter stood still for {IDLE} at rest"))
}

/// Returns the energy of a case whose execution takes `execution`; `None` where energy was not asked for. `idle` is the result of
/// [`idle`].
///
/// # Errors
/// Errors of the device. The absence of a counter is none.
pub(super) async fn of_case(
    prepared: &mut dyn Prepared,
    profiler: &mut dyn Profiler,
    (idle, watch): (Option<&Result<f64, String>>, &Watch),
    execution: Nanos,
) -> Result<Option<Energy>, BackendError> {
    let Some(idle) = idle else { return Ok(None) };
    watch.begin(Activity::Energy, profiler.now());
    let figure = match idle {
        Err(why) => Err(Absence::Reason(why.clone())),
        Ok(idle) => figure(prepared, profiler, *idle, execution).await,
    };
    match figure {
        Ok(figure) => Ok(Some(Energy::Measured(Box::new(figure)))),
        Err(Absence::Reason(why)) => Ok(Some(Energy::Absent(why))),
        Err(Absence::Device(error)) => Err(error),
    }
}

async fn figure(
    prepared: &mut dyn Prepared,
    profiler: &mut dyn Profiler,
    idle_watts: f64,
    execution: Nanos,
) -> Result<EnergyFigure, Absence> {
    if execution.0 > LONGEST.0 {
        return Err(format!("an execution takes {execution}; energy is measured up to {LONGEST}").into());
    }
    // The first submission is short, because executions may take longer now than during the samples.
    let mut repeats = repeats_of(Nanos(FIRST * execution.0));
    let stood = profiler.stood_still();
    profiler.conditions();
    profiler.energy(Nanos(0.0)).await?;
    work(prepared, &mut repeats, WARM).await?;
    let (mut began, mut before) = (profiler.now(), profiler.energy(Nanos(0.0)).await?);
    let (length, start) = (Nanos(STRETCH.0.max(UPDATES * before.step.0)), began);
    let (mut stretches, mut device) = (Vec::new(), 0.0);
    for _ in 0..FEWEST {
        let (executions, time) = work(prepared, &mut repeats, length).await?;
        let (ended, after) = (profiler.now(), profiler.energy(Nanos(0.0)).await?);
        stretches.push(Stretch {
            executions,
            wall: ended - began,
            joules: after.joules - before.joules,
            over: after.at - before.at,
            integrated: after.integrated.zip(before.integrated).map(|(after, before)| after - before),
        });
        device += time.0;
        (began, before) = (ended, after);
        profiler.yield_now().await;
    }
    let state = EnergyState {
        source: before.source,
        step: before.step,
        idle_watts,
        busy: (device / (began - start).0).min(1.0),
    };
    if profiler.stood_still() != stood {
        return Err("the program stood still during a stretch".to_owned().into());
    }
    if profiler.conditions().hidden {
        return Err("the page was out of sight during a stretch".to_owned().into());
    }
    Ok(EnergyFigure::of(state, stretches)?)
}

/// Returns the executions of a submission.
fn repeats_of(execution: Nanos) -> u32 {
    (SUBMISSION.0 / execution.0).clamp(1.0, MOST_REPEATS) as u32
}

/// Executes submissions for at least `length`, and sizes each by the last. Returns the number of executions, and their time on the
/// profiler's clock.
async fn work(prepared: &mut dyn Prepared, repeats: &mut u32, length: Nanos) -> Result<(u64, Nanos), BackendError> {
    let (began, mut executions, mut device) = (prepared.now(), 0, 0.0);
    while executions == 0 || (prepared.now() - began).0 < length.0 {
        let sample = prepared.measure(Batch::new(*repeats)).await?;
        device += sample.time.0;
        executions += u64::from(*repeats);
        *repeats = repeats_of(Nanos(sample.host.0 / f64::from(*repeats)));
    }
    Ok((executions, Nanos(device)))
}
