//! Execution of layers on a device. Every case is prepared once, and filled again for each execution.

use std::collections::BTreeMap;

use parallax_engine::plan::{PlanError, plan};
use parallax_ir::device::{BackendError, Batch, Prepared, Profiler};
use parallax_ir::{BufferSpec, Case, Problem};
use parallax_model::layers::{Arrays, Layer, Source};
use parallax_schema::case::{CPU_VARIANT, CaseError, Storage};
use parallax_schema::device::{Dialect, MemoryStats};
use parallax_schema::spec::Spec;
use parallax_schema::units::Bytes;
use parallax_workloads::parse_problem;

/// Error of an execution.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LearnError {
    /// Layer that does not run.
    #[error("layer {problem}: {reason}")]
    Layer {
        /// Problem of the layer.
        problem: String,
        /// The reason.
        reason: LayerError,
    },
    /// Array that no layer computed, or of another length.
    #[error("array `{name}` has {got} bytes, and {want} are needed")]
    Array {
        /// Name of the array.
        name: String,
        /// Its bytes.
        got: usize,
        /// Expected bytes.
        want: usize,
    },
    /// The caller has no use for further passes.
    #[error("stopped on request")]
    Stopped,
}

/// Reason for which a layer does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayerError {
    /// Not a problem of the suite.
    #[error(transparent)]
    Case(#[from] CaseError),
    /// Workload that runs on processors only.
    #[error("the workload has no variant")]
    NoVariant,
    /// No plan of its case.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Case that the device does not run.
    #[error("{case} cannot run on {device}: {reason}")]
    Skipped {
        /// The case.
        case: String,
        /// Name of the device.
        device: String,
        /// Reason of the skip.
        reason: String,
    },
    /// Buffer that the problem does not have, or that is no input.
    #[error("the problem has no such buffer: `{0}`")]
    NoBuffer(String),
    /// Missing array, or columns beyond its rows.
    #[error("there is no such array: {0}")]
    NoArray(String),
    /// Inputs of another length, or with indices out of range.
    #[error("{0}")]
    Inputs(String),
    /// Error of the device.
    #[error(transparent)]
    Device(#[from] BackendError),
}

/// Device with the cases of a model.
pub struct Machine {
    profiler: Box<dyn Profiler>,
    cases: BTreeMap<String, Ready>,
}

/// Case of a layer.
struct Ready {
    case: Case,
    specs: Vec<BufferSpec>,
    prepared: Option<Box<dyn Prepared>>,
}

impl Ready {
    /// Returns the position of an input.
    fn input(&self, name: &str) -> Result<usize, LayerError> {
        position(&self.specs, name, |spec| spec.role.fill().is_some())
    }

    /// Returns the element type of a buffer.
    fn storage(&self, index: usize) -> Storage {
        self.specs[index].elem.storage(self.case.problem.dtype)
    }
}

/// Returns the position of a buffer.
fn position(specs: &[BufferSpec], name: &str, fits: fn(&BufferSpec) -> bool) -> Result<usize, LayerError> {
    let found = specs.iter().position(|spec| spec.name == name && fits(spec));
    found.ok_or_else(|| LayerError::NoBuffer(name.to_owned()))
}

impl Machine {
    /// Returns a machine without cases on an open device.
    pub fn new(profiler: Box<dyn Profiler>) -> Machine {
        Machine { profiler, cases: BTreeMap::new() }
    }

    /// Returns the device.
    pub fn profiler(&self) -> &dyn Profiler {
        &*self.profiler
    }

    /// Returns the device memory of all prepared cases.
    pub fn memory(&self) -> MemoryStats {
        let peaks = self.cases.values().filter_map(|ready| Some(ready.prepared.as_ref()?.memory().peak.0));
        let peak = Bytes(peaks.sum());
        MemoryStats { current: peak, peak, ..MemoryStats::default() }
    }

    /// Executes layers in order. Each takes its inputs from the arrays, and leaves its outputs there.
    ///
    /// # Errors
    /// Case that the device does not run, or missing array.
    pub async fn run(&mut self, layers: &[Layer], arrays: &mut Arrays) -> Result<(), LearnError> {
        for layer in layers {
            let ended = self.layer(layer, arrays).await;
            ended.map_err(|reason| LearnError::Layer { problem: layer.problem.clone(), reason })?;
        }
        Ok(())
    }

    /// Converts the arrays that are there to the element types that layers take, so that no execution does it again.
    ///
    /// # Errors
    /// Case that the device does not run, or a buffer that a problem does not have.
    pub fn convert(&mut self, layers: &[Layer], arrays: &mut Arrays) -> Result<(), LearnError> {
        for layer in layers {
            let converted = self.converted(layer, arrays);
            converted.map_err(|reason| LearnError::Layer { problem: layer.problem.clone(), reason })?;
        }
        Ok(())
    }

    fn converted(&mut self, layer: &Layer, arrays: &mut Arrays) -> Result<(), LayerError> {
        let ready = self.ready(&layer.problem)?;
        for (buffer, source) in &layer.inputs {
            if let Source::Whole(name) = source {
                arrays.convert(name, ready.storage(ready.input(buffer)?));
            }
        }
        Ok(())
    }

    /// Returns the case of a problem, planned once.
    fn ready(&mut self, problem: &str) -> Result<&mut Ready, LayerError> {
        if !self.cases.contains_key(problem) {
            let case = self.case(problem)?;
            let specs = case.problem.buffers();
            self.cases.insert(problem.to_owned(), Ready { case, specs, prepared: None });
        }
        Ok(self.cases.get_mut(problem).expect("inserted above"))
    }

    async fn layer(&mut self, layer: &Layer, arrays: &mut Arrays) -> Result<(), LayerError> {
        self.ready(&layer.problem)?;
        let Machine { profiler, cases, .. } = self;
        let ready = cases.get_mut(&layer.problem).expect("planned above");
        let mut inputs = ready.case.problem.inputs(0);
        for (buffer, source) in &layer.inputs {
            let index = ready.input(buffer)?;
            let bytes = arrays.source(source, ready.storage(index));
            let bytes = bytes.ok_or_else(|| LayerError::NoArray(format!("{source:?}")))?;
            inputs.replace(index, bytes.into_owned()).map_err(|why| LayerError::Inputs(why.to_string()))?;
        }
        // Kernels use input values as indices. No kernel is launched on arrays with indices out of range.
        ready.case.problem.accepts(&inputs).map_err(|why| LayerError::Inputs(why.to_string()))?;
        let refilled = match &mut ready.prepared {
            Some(prepared) => match prepared.refill(&inputs).await {
                Err(BackendError::Unsupported(_)) => false,
                other => other.map(|()| true)?,
            },
            None => false,
        };
        if !refilled {
            ready.prepared = Some(profiler.prepare(&ready.case, &inputs, 1).await?);
        }
        let prepared = ready.prepared.as_mut().expect("prepared above");
        prepared.measure(Batch::new(1)).await?;
        for (buffer, name) in &layer.outputs {
            let index = position(&ready.specs, buffer, |_| true)?;
            let (spec, dtype) = (&ready.specs[index], ready.case.problem.dtype);
            let bytes = prepared.read_back(index, 0..spec.bytes(dtype).0).await?;
            arrays.set(name, spec.elem.storage(dtype), bytes);
        }
        Ok(())
    }

    /// Returns the case of a problem: the best variant that the device runs.
    fn case(&self, problem: &str) -> Result<Case, LayerError> {
        let problem: Problem = parse_problem(problem)?;
        let device = self.profiler.device();
        let variant = match device.caps.dialect {
            Dialect::Cpu => CPU_VARIANT,
            _ => problem.form().fallback.first().copied().ok_or(LayerError::NoVariant)?,
        };
        let case = Case { problem, variant }.to_string();
        let spec = Spec { case: vec![case.clone()], ..Spec::default() };
        let mut plan = plan(&spec, &device.caps)?;
        if let Some(skip) = plan.skips.first() {
            let (device, reason) = (device.name.clone(), skip.reason.clone());
            return Err(LayerError::Skipped { case, device, reason });
        }
        Ok(plan.cases.remove(0).runs())
    }
}
