//! Execution of layers on a device.
//!
//! Each layer has a case of its own, which is prepared once. Where its backend can replace single inputs, they stay on the device
//! until their arrays change: parameters are uploaded once. Outputs go to the inputs of later layers by copies on the device, and
//! to the host only where they are needed there. Otherwise all arrays pass through the host.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use parallax_engine::plan::{PlanError, plan};
use parallax_ir::device::{BackendError, Batch, Contents, Prepared, Profiler};
use parallax_ir::{BufferSpec, Case, Problem, Role};
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
    cases: BTreeMap<Key, Ready>,
}

/// Key of a layer's case: its problem, and the arrays of its outputs.
type Key = (String, Vec<String>);

/// Returns the key of a layer.
fn key(layer: &Layer) -> Key {
    (layer.problem.clone(), layer.outputs.iter().map(|(_, name)| name.clone()).collect())
}

/// Case of a layer.
struct Ready {
    case: Case,
    specs: Vec<BufferSpec>,
    prepared: Option<Box<dyn Prepared>>,
    /// Contents of the inputs, by position: the source, and the number of its array. Absent for copies of other buffers.
    held: BTreeMap<usize, (Source, u64)>,
}

impl Ready {
    /// Whether its executions take only the inputs that change.
    fn enqueues(&self) -> bool {
        self.prepared.as_ref().is_some_and(|prepared| prepared.enqueues())
    }

    /// Returns the position of an input.
    fn input(&self, name: &str) -> Result<usize, LayerError> {
        position(&self.specs, name, |spec| spec.role.fill().is_some())
    }

    /// Returns the element type of a buffer.
    fn storage(&self, index: usize) -> Storage {
        self.specs[index].elem.storage(self.case.problem.dtype)
    }

    /// Returns the size of a buffer.
    fn bytes(&self, index: usize) -> Bytes {
        self.specs[index].bytes(self.case.problem.dtype)
    }

    /// Whether an input may be a copy of a float buffer. Contents with preconditions are checked on the host.
    fn copies(&self, index: usize, from: &Ready, buffer: usize) -> bool {
        let checked = self.case.problem.form().preconditions.iter().any(|of| of.buffer() == self.specs[index].name);
        let alike = self.storage(index) == from.storage(buffer) && self.bytes(index) == from.bytes(buffer);
        // Scratch may be a part of a larger buffer.
        let whole = matches!(from.specs[buffer].role, Role::Output { .. } | Role::InOut { .. });
        alike && whole && !checked && !self.storage(index).is_integer()
    }

    /// Returns a buffer's bytes after the last execution.
    async fn read(&mut self, index: usize) -> Result<Vec<u8>, BackendError> {
        let bytes = self.bytes(index).0;
        self.prepared.as_mut().expect("it has computed the buffer").read_back(index, 0..bytes).await
    }
}

/// Returns the position of a buffer.
fn position(specs: &[BufferSpec], name: &str, fits: fn(&BufferSpec) -> bool) -> Result<usize, LayerError> {
    let found = specs.iter().position(|spec| spec.name == name && fits(spec));
    found.ok_or_else(|| LayerError::NoBuffer(name.to_owned()))
}

/// Arrays of one run that are outputs of cases, by name.
type OnDevice = BTreeMap<String, Output>;

/// Output of a case, which no later execution of the run has changed.
struct Output {
    key: Key,
    buffer: usize,
    /// Whether the host has the array, too.
    on_host: bool,
}

/// Input that is copied on the device: its name, and the buffer of another case.
struct Copied<'a> {
    input: &'a str,
    key: Key,
    buffer: usize,
}

/// Whether an input is copied on the device.
fn is_copied(copied: &[Copied<'_>], input: &str) -> bool {
    copied.iter().any(|copied| copied.input == input)
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
        let all = layers.iter().flat_map(|layer| &layer.outputs).map(|(_, name)| &**name);
        self.run_for(&all.collect::<Vec<_>>(), layers, arrays).await
    }

    /// Executes layers in order. Each takes its inputs from the arrays or from earlier layers. Of the outputs, those of these names
    /// are in the arrays afterwards. The others may stay on the device.
    ///
    /// # Errors
    /// Case that the device does not run, or missing array.
    pub async fn run_for(&mut self, wanted: &[&str], layers: &[Layer], arrays: &mut Arrays) -> Result<(), LearnError> {
        let mut on_device = OnDevice::new();
        for layer in layers {
            let named = |reason| LearnError::Layer { problem: layer.problem.clone(), reason };
            self.ready(layer).map_err(named)?;
            let copied = self.copied(layer, &on_device).map_err(named)?;
            let from_host = layer.inputs.iter().filter(|(buffer, _)| !is_copied(&copied, buffer));
            let from_host: Vec<&str> = from_host.map(|(_, source)| source.array()).collect();
            self.fetch(&from_host, arrays, &mut on_device).await?;
            self.layer(layer, &copied, arrays, &mut on_device).await.map_err(named)?;
        }
        self.fetch(wanted, arrays, &mut on_device).await
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
        let ready = self.ready(layer)?;
        for (buffer, source) in &layer.inputs {
            if let Source::Whole(name) = source {
                arrays.convert(name, ready.storage(ready.input(buffer)?));
            }
        }
        Ok(())
    }

    /// Returns the case of a layer, planned once.
    fn ready(&mut self, layer: &Layer) -> Result<&mut Ready, LayerError> {
        let key = key(layer);
        if !self.cases.contains_key(&key) {
            let case = self.case(&layer.problem)?;
            let specs = case.problem.buffers();
            self.cases.insert(key.clone(), Ready { case, specs, prepared: None, held: BTreeMap::new() });
        }
        Ok(self.cases.get_mut(&key).expect("inserted above"))
    }

    /// Executes a layer whose arrays are on the host, except those that are copied on the device.
    async fn layer(
        &mut self,
        layer: &Layer,
        copied: &[Copied<'_>],
        arrays: &Arrays,
        on_device: &mut OnDevice,
    ) -> Result<(), LayerError> {
        let key = key(layer);
        let mut ready = self.cases.remove(&key).expect("planned before");
        let executed = self.execute(&mut ready, layer, copied, arrays).await;
        for (buffer, name) in &layer.outputs {
            let buffer = position(&ready.specs, buffer, |_| true)?;
            on_device.insert(name.clone(), Output { key: key.clone(), buffer, on_host: false });
        }
        self.cases.insert(key, ready);
        executed
    }

    /// Returns the inputs of a planned layer that are copied on the device.
    fn copied<'a>(&self, layer: &'a Layer, on_device: &OnDevice) -> Result<Vec<Copied<'a>>, LayerError> {
        let key = key(layer);
        let ready = &self.cases[&key];
        let mut copied = Vec::new();
        if !ready.enqueues() {
            return Ok(copied);
        }
        for (input, source) in &layer.inputs {
            let index = ready.input(input)?;
            let Source::Whole(name) = source else { continue };
            let Some(output) = on_device.get(name).filter(|output| output.key != key) else { continue };
            if ready.copies(index, &self.cases[&output.key], output.buffer) {
                copied.push(Copied { input, key: output.key.clone(), buffer: output.buffer });
            }
        }
        Ok(copied)
    }

    /// Reads outputs of the run back, except those that the host has. Reads of different cases wait together.
    async fn fetch(&mut self, names: &[&str], arrays: &mut Arrays, on_device: &mut OnDevice) -> Result<(), LearnError> {
        let mut reads = BTreeMap::new();
        for name in names {
            let Some(output) = on_device.get_mut(*name).filter(|output| !output.on_host) else { continue };
            output.on_host = true;
            let Output { key, buffer, .. } = output;
            let taken = || (self.cases.remove(key).expect("it has computed the array"), Vec::new());
            reads.entry(key.clone()).or_insert_with(taken).1.push((*name, *buffer));
        }
        let read = async |(key, (mut ready, outputs)): (Key, (Ready, Vec<_>))| {
            let mut contents = Vec::new();
            for (name, buffer) in outputs {
                contents.push((name, ready.storage(buffer), ready.read(buffer).await));
            }
            (key, ready, contents)
        };
        let mut found = Vec::new();
        for (key, ready, contents) in join_all(reads.into_iter().map(read)).await {
            let named = |(name, storage, bytes)| (key.0.clone(), name, storage, bytes);
            found.extend(contents.into_iter().map(named));
            self.cases.insert(key, ready);
        }
        for (problem, name, storage, bytes) in found {
            let bytes = bytes.map_err(|reason| LearnError::Layer { problem, reason: LayerError::Device(reason) })?;
            arrays.set(name, storage, bytes);
        }
        Ok(())
    }

    /// Executes a case with the arrays of the host that have changed, and with copies of other buffers.
    async fn execute(
        &mut self,
        ready: &mut Ready,
        layer: &Layer,
        copied: &[Copied<'_>],
        arrays: &Arrays,
    ) -> Result<(), LayerError> {
        // After an error, nothing is known of the inputs.
        let held = std::mem::take(&mut ready.held);
        let enqueues = ready.enqueues();
        let (mut holds, mut given) = (BTreeMap::new(), Vec::new());
        for (buffer, source) in layer.inputs.iter().filter(|(buffer, _)| !is_copied(copied, buffer)) {
            let input = ready.input(buffer)?;
            let missing = || LayerError::NoArray(format!("{source:?}"));
            let version = arrays.version(source.array()).ok_or_else(missing)?;
            let contents = (source.clone(), version);
            if !enqueues || held.get(&input) != Some(&contents) {
                given.push((input, arrays.source(source, ready.storage(input)).ok_or_else(missing)?));
            }
            holds.insert(input, contents);
        }
        let mut inputs = ready.case.problem.inputs(0);
        for (input, bytes) in &given {
            inputs.replace(*input, bytes.to_vec()).map_err(|why| LayerError::Inputs(why.to_string()))?;
        }
        // Kernels use input values as indices. No kernel is launched on arrays with indices out of range.
        if !given.is_empty() {
            ready.case.problem.accepts(&inputs).map_err(|why| LayerError::Inputs(why.to_string()))?;
        }
        if !enqueues {
            let refilled = match &mut ready.prepared {
                Some(prepared) => match prepared.refill(&inputs).await {
                    Err(BackendError::Unsupported(_)) => false,
                    other => other.map(|()| true)?,
                },
                None => false,
            };
            if !refilled {
                ready.prepared = Some(self.profiler.prepare(&ready.case, &inputs, 1).await?);
            }
            ready.prepared.as_mut().expect("prepared above").measure(Batch::new(1)).await?;
        } else if let Some(prepared) = &mut ready.prepared {
            let given = given.iter().map(|(input, bytes)| (*input, Contents::Bytes(bytes)));
            let copied = copied.iter().map(|Copied { input, key, buffer }| {
                let from = self.cases[key].prepared.as_deref().expect("it has computed the buffer");
                let input = position(&ready.specs, input, |_| true).expect("found before");
                (input, Contents::Buffer(from, *buffer))
            });
            prepared.enqueue(&given.chain(copied).collect::<Vec<_>>()).await?;
        }
        ready.held = holds;
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
