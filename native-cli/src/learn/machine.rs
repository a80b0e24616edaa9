//! Execution of layers on a device of this process. Every case is prepared once, and filled again for each execution.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use parallax_ir::device::{BackendError, Batch, Prepared, Profiler};
use parallax_ir::{BufferSpec, Case, Problem};
use parallax_model::layers::{Arrays, Layer};
use parallax_schema::case::CPU_VARIANT;
use parallax_schema::device::{Dialect, MemoryStats};
use parallax_schema::units::Bytes;
use parallax_workloads::parse_problem;

use crate::args::Device;
use crate::targets::{Opened, choose, only};

/// Device with the cases of a model.
pub struct Machine {
    /// Name of the target.
    pub target: &'static str,
    profiler: Box<dyn Profiler>,
    cases: BTreeMap<String, Ready>,
}

/// Case of a layer.
struct Ready {
    case: Case,
    specs: Vec<BufferSpec>,
    prepared: Option<Box<dyn Prepared>>,
}

impl Machine {
    /// Opens a target of this process.
    ///
    /// # Errors
    /// Unknown or absent target, or one of a page.
    pub fn open(target: Option<&str>, device: &Device, set: &[String]) -> anyhow::Result<Machine> {
        let (target, opened) = choose(target, device, set)?.one();
        match opened {
            Opened::Here(profiler) => Ok(Machine { target, profiler, cases: BTreeMap::new() }),
            Opened::Browser(_) => bail!("models run on cpu, wgpu or cuda, not on {target}"),
        }
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
    pub fn run(&mut self, layers: &[Layer], arrays: &mut Arrays) -> anyhow::Result<()> {
        layers.iter().try_for_each(|layer| {
            pollster::block_on(self.layer(layer, arrays)).with_context(|| format!("layer {}", layer.problem))
        })
    }

    async fn layer(&mut self, layer: &Layer, arrays: &mut Arrays) -> anyhow::Result<()> {
        if !self.cases.contains_key(&layer.problem) {
            let case = self.case(&layer.problem)?;
            let specs = case.problem.buffers();
            self.cases.insert(layer.problem.clone(), Ready { case, specs, prepared: None });
        }
        let Machine { profiler, cases, .. } = self;
        let Ready { case, specs, prepared } = cases.get_mut(&layer.problem).expect("inserted above");
        let dtype = case.problem.dtype;
        let position = |name: &str| specs.iter().position(|spec| spec.name == name).context("no such buffer");
        let mut inputs = case.problem.inputs(0);
        for (buffer, source) in &layer.inputs {
            let bytes = arrays.source(source).with_context(|| format!("array {source:?} is missing"))?;
            inputs.replace(position(buffer)?, bytes.into_owned())?;
        }
        // Kernels use input values as indices. No kernel is launched on arrays with indices out of range.
        case.problem.accepts(&inputs)?;
        let refilled = match prepared {
            Some(prepared) => match prepared.refill(&inputs).await {
                Err(BackendError::Unsupported(_)) => false,
                other => other.map(|()| true)?,
            },
            None => false,
        };
        if !refilled {
            *prepared = Some(profiler.prepare(case, &inputs, 1).await?);
        }
        let prepared = prepared.as_mut().context("prepared above")?;
        prepared.measure(Batch::new(1)).await?;
        for (buffer, name) in &layer.outputs {
            let index = position(buffer)?;
            arrays.set(name, prepared.read_back(index, 0..specs[index].bytes(dtype).0).await?);
        }
        Ok(())
    }

    /// Returns the case of a problem: the best variant that the device runs.
    fn case(&self, problem: &str) -> anyhow::Result<Case> {
        let problem: Problem = parse_problem(problem)?;
        let caps = &self.profiler.device().caps;
        let variant = match caps.dialect {
            Dialect::Cpu => CPU_VARIANT,
            _ => problem.form().fallback.first().copied().context("the workload has no variant")?,
        };
        Ok(only(&Case { problem, variant }, self.profiler(), self.target)?.runs())
    }
}
