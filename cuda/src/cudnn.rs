//! Convolutions and attention of NVIDIA's library cuDNN, loaded at run time.
//!
//! A computation is a graph. The library's heuristic returns engines for it, in the order of their expected speed. Only an
//! execution shows whether an engine can compute the graph on a device. So a plan is an engine that has run: the first that does,
//! or the fastest of several.

mod api;
mod attention;
mod convolution;
mod descriptor;
mod engines;
mod graph;
mod planned;

use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::Arc;

pub(crate) use api::WANTED;
use api::{Api, api, handle};
use cudarc::driver::sys::CUdeviceptr;
use engines::Engine;
use graph::Graph;
use parallax_ir::device::{BackendError, Ledger};
use parallax_ir::{Choice, Library};
use parallax_schema::case::DType;
use parallax_schema::units::Nanos;
pub(crate) use planned::Planned;
use planned::{Execution, Wired};

use crate::driver::{CudaContext, CudaStream};
use crate::errors::Context;
use crate::events::{elapsed, event};
use crate::ffi::Owned;

/// Approximate duration of a sample of an engine, and the maximum number of launches in it.
const SAMPLE: Nanos = Nanos(2e6);
const MOST_LAUNCHES: f64 = 50.0;
/// Samples per engine. The fastest one counts.
const SAMPLES: usize = 5;
/// Maximum number of timed engines. The heuristic's order is rarely wrong by more, and each engine compiles kernels.
const MOST_TIMED: usize = 24;

/// The library, initialised for the device at its first use.
#[derive(Default)]
pub(crate) struct Cudnn {
    open: OnceCell<Rc<Open>>,
}

struct Open {
    api: &'static Api,
    handle: Owned,
}

/// Context and stream of a plan, and the ledger of its workspace.
pub(crate) struct PlanContext<'a> {
    pub(crate) context: &'a Arc<CudaContext>,
    pub(crate) stream: &'a CudaStream,
    pub(crate) ledger: &'a Rc<Ledger>,
}

/// Returns the graphs of a call, and the choice among engines. The first graph with an engine is used.
///
/// # Errors
/// [`BackendError::Unsupported`] for calls outside this library, and for extents beyond its integers.
fn graphs_of(call: Library, dtype: DType) -> Result<(Vec<Graph>, Choice), BackendError> {
    match call {
        Library::Gemm(..) | Library::Fourier(_) => {
            Err(BackendError::Unsupported(format!("cuDNN has no call for {call:?}")))
        }
        Library::Conv(wanted) => Ok((convolution::graphs(&wanted, dtype)?, wanted.choice)),
        Library::Attention(wanted) => Ok((vec![attention::graph(&wanted, dtype)?], wanted.choice)),
    }
}

impl Cudnn {
    /// Returns the library, and initialises it at the first call. The device's context is current.
    fn open(&self) -> Result<Rc<Open>, BackendError> {
        if let Some(open) = self.open.get() {
            return Ok(open.clone());
        }
        let api = api()?;
        let handle = handle(api)?;
        Ok(self.open.get_or_init(|| Rc::new(Open { api, handle })).clone())
    }

    /// Plans a call by running it on these arguments. Results are overwritten. The device's context is current.
    ///
    /// # Errors
    /// [`BackendError::Refused`] when the library is not installed, or has no engine for this call here.
    ///
    /// # Safety
    /// The memory is that of the call's arguments, in the given element type, and has no other use.
    pub(crate) unsafe fn plan(
        &self,
        dtype: DType,
        call: Library,
        arguments: &[CUdeviceptr],
        place: &PlanContext<'_>,
    ) -> Result<Planned, BackendError> {
        let (graphs, choice) = graphs_of(call, dtype)?;
        let open = self.open()?;
        let mut refused = Vec::new();
        for graph in graphs {
            let wired = Rc::new(Wired::new(open.clone(), &graph, place)?);
            let engines = engines::offered(open.api, &wired.described.graph, None)?;
            let (fit, coarse): (Vec<_>, Vec<_>) = engines.into_iter().partition(|engine| engine.fits(dtype));
            if !coarse.is_empty() && fit.is_empty() {
                refused.push(format!("its {} engines compute below the requested precision", coarse.len()));
            }
            let most = call.most_workspace().0;
            // SAFETY: the caller guarantees the memory.
            if let Some(planned) = unsafe { best(&wired, fit, (choice, most), arguments, place, &mut refused) }? {
                return Ok(planned);
            }
        }
        if refused.is_empty() {
            refused.push("its heuristic offers none".to_owned());
        }
        let version = open.api.version();
        Err(BackendError::Refused(format!("{version} has no engine for {call:?} in {dtype:?}: {}", refused.join("; "))))
    }
}

/// Returns the first engine that computes a graph, or the fastest of several. `None` where all fail; `refused` then has the
/// reasons. A plan's memory is at most `most` bytes, without its arguments.
///
/// # Safety
/// As for [`Cudnn::plan`].
unsafe fn best(
    wired: &Rc<Wired>,
    engines: Vec<Engine>,
    (choice, most): (Choice, u64),
    arguments: &[CUdeviceptr],
    place: &PlanContext<'_>,
    refused: &mut Vec<String>,
) -> Result<Option<Planned>, BackendError> {
    let mut best: Option<(Nanos, Planned)> = None;
    let mut carried_out = 0;
    for engine in engines {
        let name = engine.name.clone();
        let execution = Execution::new(wired, engine, most, place);
        // SAFETY: the caller guarantees the memory.
        let tried = execution.and_then(|execution| unsafe {
            let planned = Planned::new(wired.clone(), execution);
            let took = time(&planned, choice, arguments, place)?;
            Ok((took, planned))
        });
        match tried {
            Ok((took, planned)) => {
                carried_out += 1;
                if best.as_ref().is_none_or(|(least, _)| took < *least) {
                    best = Some((took, planned));
                }
                if choice == Choice::Heuristic || carried_out == MOST_TIMED {
                    break;
                }
            }
            // Another engine may compute a graph that one refuses. A lost device remains lost.
            Err(lost @ BackendError::Lost(_)) => return Err(lost),
            Err(error) => refused.push(format!("{name}: {error}")),
        }
    }
    let reason = match choice {
        Choice::Heuristic => "the heuristic's first that runs".to_owned(),
        Choice::Timed => format!("the fastest of {carried_out}"),
    };
    Ok(best.map(|(_, planned)| planned.chosen(reason)))
}

/// Runs a plan, and times it where the choice depends on times.
///
/// # Safety
/// As for [`Cudnn::plan`].
unsafe fn time(
    planned: &Planned,
    choice: Choice,
    arguments: &[CUdeviceptr],
    PlanContext { context, stream, .. }: &PlanContext<'_>,
) -> Result<Nanos, BackendError> {
    let (begin, end) = (event(context)?, event(context)?);
    let sample = |launches: usize| {
        begin.record(stream).doing(|| "timing an engine of cuDNN's".into())?;
        // SAFETY: the caller guarantees the memory, and the stream is synchronised below in every case.
        let queued = (0..launches).try_for_each(|_| unsafe { planned.launch(arguments, stream.cu_stream()) });
        let recorded = end.record(stream).doing(|| "timing an engine of cuDNN's".into());
        stream.synchronize().doing(|| "running an engine of cuDNN's".into())?;
        queued.and(recorded)?;
        Ok::<_, BackendError>(Nanos(elapsed(&begin, &end)?.0 / launches as f64))
    };
    // The first launch loads kernels.
    let mut took = sample(1)?;
    if choice == Choice::Timed {
        let launches = (SAMPLE.0 / sample(1)?.0.max(1.0)).clamp(1.0, MOST_LAUNCHES) as usize;
        took = sample(launches)?;
        for _ in 1..SAMPLES {
            let again = sample(launches)?;
            took = if again < took { again } else { took };
        }
    }
    Ok(took)
}

#[cfg(test)]
mod tests;
