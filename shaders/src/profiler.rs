//! A wgpu device as a profiler.

use std::rc::Rc;
use std::time::Duration;

use async_trait::async_trait;
use parallax_ir::device::{BackendError, Coming, Ledger, POISON, Prepared, Profiler, Rotation, Transfer, settle};
use parallax_ir::{Case, Inputs, KernelSources, Program, Queues, Role, Stage};
use parallax_schema::case::Tuning;
use parallax_schema::device::{Clock, ClockInfo, DeviceInfo, DeviceKind, Dialect, Launching};
use parallax_schema::spec::Cache;
use parallax_schema::units::Nanos;

use crate::ahead::Ahead;
use crate::barriers::BarrierBuffer;
use crate::buffers::Buffers;
use crate::builtin_kernels::lower;
use crate::checks::Checks;
use crate::compile::{ProgramSource, Unit};
use crate::device::WgpuOptions;
use crate::gpu::Gpu;
use crate::launch::{BoundStage, Pass};
use crate::poison::{Fill, Poison};
use crate::prepared::{Origin, WgpuCase};
use crate::source::{Form, Imitation, KernelSource, WrittenLoops, assemble_all};
use crate::timestamp_fence::Fence;
use crate::timing::Timestamps;
use crate::transfer;
use crate::wait::yield_now;

/// A program, its kernel sources with the index of each stage's source, and lines for the record.
type Assembled = (Program, (Vec<KernelSource>, Vec<Option<usize>>), Vec<String>);

/// A wgpu device as a profiler.
pub struct Wgpu {
    pub(crate) gpu: Rc<Gpu>,
    pub(crate) timestamps: Option<Rc<Timestamps>>,
    clock: ClockInfo,
    device: DeviceInfo,
    checks: Checks,
    form: Form,
    texts: KernelSources,
    pub(crate) poison: Rc<Poison>,
    order: BarrierBuffer,
    fence: Fence,
    pub(crate) ahead: Ahead,
}

impl Wgpu {
    pub(crate) fn new(
        gpu: Rc<Gpu>,
        timestamps: Option<Timestamps>,
        clock: ClockInfo,
        device: DeviceInfo,
        options: &WgpuOptions,
    ) -> Wgpu {
        // A clock that failed the test is unused.
        let timestamps = timestamps.filter(|_| clock.clock == Clock::GpuTimestamps).map(Rc::new);
        let poison = Rc::new(Poison::new(&gpu));
        let order = BarrierBuffer::new(&gpu);
        let fence = Fence::new(&gpu);
        let (checks, texts) = (options.checks, options.texts.clone());
        let mut form = options.form();
        if device.kind == DeviceKind::Software && form.loops == WrittenLoops::Long {
            form.loops = WrittenLoops::Short;
        }
        let mut device = device;
        device.caps.cube = texts.translator().is_some();
        device.caps.no_cube = texts.untranslated().map(str::to_owned);
        Wgpu { gpu, timestamps, clock, device, checks, form, texts, poison, order, fence, ahead: Ahead::new() }
    }

    /// Limits native waits for the device from now on. After that time the device counts as lost. A page's waits have no limit.
    pub fn limit_waits(&self, limit: Duration) {
        self.gpu.limit_waits(limit);
    }

    /// Returns the form of the device's kernel sources.
    pub fn form(&self) -> Form {
        self.form
    }

    /// The underlying device.
    #[cfg(test)]
    pub(crate) fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Compiles, allocates, binds and fills a case.
    pub(crate) async fn case(&self, case: &Case, inputs: &Inputs, sets: u32) -> Result<WgpuCase, BackendError> {
        let missing = || BackendError::Unsupported(format!("{case} has no WGSL kernel"));
        let whole = case.whole_program(&self.device.caps).ok_or_else(missing)?;
        self.program(case, whole, inputs, sets).await
    }

    /// Returns a program with its kernel sources, the index of each stage's source, and lines for the record.
    fn assembled(&self, case: &Case, program: Program) -> Result<Assembled, BackendError> {
        let (program, blueprints) = settle(&self.texts, program, case.problem.dtype, Dialect::Wgsl)?;
        let program = lower(program, &case.problem)?;
        let assembled = assemble_all(&self.texts, &program, case.problem.dtype, self.form)?;
        Ok((program, assembled, blueprints))
    }

    /// Returns the units of a case with one buffer set. `None` for a case that cannot be prepared.
    fn units(&self, case: &Case) -> Option<Vec<Unit>> {
        let (program, _) = case.whole_program(&self.device.caps)?;
        let (program, (texts, places), _) = self.assembled(case, program).ok()?;
        Some(ProgramSource::new(&program, (texts, &places), |_| None, self.checks).units())
    }

    /// Prepares a program of the caller on the case's buffers. The first `first` stages are the set-up.
    pub(crate) async fn program(
        &self,
        case: &Case,
        (program, first): (Program, usize),
        inputs: &Inputs,
        sets: u32,
    ) -> Result<WgpuCase, BackendError> {
        let gpu = &self.gpu;
        gpu.incident()?;
        let (program, (texts, places), blueprints) = self.assembled(case, program)?;
        if sets > 1 && texts.iter().any(|text| text.imitation.is_some()) {
            return Err(BackendError::Unsupported("several buffer sets: the emulation of matrices has one".to_owned()));
        }
        // A single set needs no order: each execution writes the buffers of the previous one.
        let order = (sets > 1).then_some(&self.order);
        if order.is_some() && !program.stages.iter().all(|stage| BarrierBuffer::fits(gpu, stage)) {
            return Err(BackendError::Unsupported("several buffer sets, as kernels bind no further buffer".to_owned()));
        }
        let layout = |stage: &Stage| order.map(|order| order.layout(gpu, stage));
        let source = ProgramSource::new(&program, (texts, &places), layout, self.checks);
        let imitated = |place: &Option<usize>| place.and_then(|text| source.texts[text].imitation);
        let (pipelines, mut compiled) = source.compile(gpu, &self.ahead).await?;
        compiled.options.extend(blueprints);
        let queues = Queues::after_setup(first, &program.stages).map_err(BackendError::Unsupported)?.queues;
        if queues > 1 {
            compiled.options.push(format!("one queue for {queues}: stages run in the order of the list"));
        }
        if pipelines.iter().any(Option::is_none) {
            compiled.options.push("pinned host memory: buffers that the host maps".to_owned());
        }

        let ledger = Rc::<Ledger>::default();
        let sets = sets.max(1) as usize;
        // Memory is allocated before any binding or fill: an excess set fails here, with its own error.
        let buffers = gpu.make(|| Buffers::allocate(gpu, &ledger, case, &program, sets)).await?;
        for (stage, place) in program.stages.iter().zip(&places) {
            imitated(place).map_or(Ok(()), |buffers| imitation_fits(gpu, stage, buffers))?;
        }
        let bind = || {
            let stages = pipelines.into_iter().zip(program.stages.iter().zip(&places));
            let step = |(pipeline, (stage, place))| match pipeline {
                Some(pipeline) => {
                    let matrices = imitated(place).map(|buffers| imitation(gpu, stage, &pipeline, buffers));
                    let further = matrices.or_else(|| order.map(|order| order.group().clone()));
                    BoundStage::Launch(buffers.bind(gpu, case, stage, pipeline, further))
                }
                None => BoundStage::Copy(buffers.copied(gpu, case, stage, order, &self.fence)),
            };
            let steps: Vec<_> = stages.map(step).collect();
            let fills = buffers.poison(gpu, case, &self.poison, |role| role.poisoned());
            let fresh = buffers.poison(gpu, case, &self.poison, |role| matches!(role, Role::Setup { .. }));
            (steps, fills, fresh)
        };
        let (mut setup, fills, fresh) = gpu.make(bind).await?;
        buffers.fill(gpu, case, inputs).await?;
        let steps = setup.split_off(first);
        let of_setup = program.used_by_first(first, &case.problem.buffers());
        self.set_up(&setup, fresh.iter().chain(&fills), &buffers).await?;
        Ok(WgpuCase {
            gpu: gpu.clone(),
            timestamps: self.timestamps.clone(),
            compiled,
            source,
            ledger,
            buffers,
            steps,
            poison: self.poison.clone(),
            fills,
            rotation: Rotation::new(sets),
            launching: Launching::OnePass,
            origin: Some(Origin { case: case.clone(), setup, of_setup }),
        })
    }
}

/// Returns the buffer sizes of a launch's emulated matrices, in bytes: their elements, then each array.
fn imitation_sizes(stage: &Stage, buffers: Imitation) -> Vec<u64> {
    let kernel = stage.kernel_launch().expect("it has a text");
    let product = |counts: [u32; 3]| counts.iter().map(|count| u64::from(*count)).product::<u64>();
    let groups = product(kernel.grid);
    let kept = groups * product(kernel.workgroup) * u64::from(buffers.kept) * 16;
    // Upper bound: no array is longer than all arrays together.
    let arrays = (0..buffers.arrays).map(|_| groups * u64::from(kernel.shared_bytes));
    [kept].into_iter().chain(arrays).collect()
}

/// Checks that the device binds buffers of that size. A plan does not contain them, because no real device needs them.
fn imitation_fits(gpu: &Gpu, stage: &Stage, buffers: Imitation) -> Result<(), BackendError> {
    let limit = gpu.device.limits().max_storage_buffer_binding_size;
    match imitation_sizes(stage, buffers).into_iter().max().filter(|size| *size > limit) {
        Some(size) => {
            Err(BackendError::Unsupported(format!("emulated matrices of {size} bytes, the limit is {limit}")))
        }
        None => Ok(()),
    }
}

/// Returns the bind group of a launch's emulated matrices.
fn imitation(gpu: &Gpu, stage: &Stage, pipeline: &wgpu::ComputePipeline, buffers: Imitation) -> wgpu::BindGroup {
    let made = imitation_sizes(stage, buffers).into_iter().map(|size| {
        let (label, usage) = (Some("matrices"), wgpu::BufferUsages::STORAGE);
        gpu.device.create_buffer(&wgpu::BufferDescriptor { label, size, usage, mapped_at_creation: false })
    });
    let made: Vec<_> = made.collect();
    let entries = (0..).zip(&made).map(|(binding, buffer)| {
        let resource = buffer.as_entire_binding();
        wgpu::BindGroupEntry { binding, resource }
    });
    gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: Some("matrices"),
        layout: &pipeline.get_bind_group_layout(1),
        entries: &entries.collect::<Vec<_>>(),
    })
}

impl Wgpu {
    /// Runs the set-up once on every set, on poisoned buffers.
    async fn set_up<'a>(
        &self,
        setup: &'a [BoundStage],
        fills: impl Iterator<Item = &'a Fill>,
        buffers: &Buffers,
    ) -> Result<(), BackendError> {
        if setup.is_empty() {
            return Ok(());
        }
        self.poison.set(&self.gpu, POISON);
        buffers.poison_host(&self.gpu, POISON, |role| role.poisoned() || matches!(role, Role::Setup { .. }));
        let mut encoder = self.gpu.device.create_command_encoder(&Default::default());
        let mut pass = Pass::begin(&mut encoder, Some("set-up"), None);
        fills.for_each(|fill| fill.encode(&mut pass));
        drop(pass);
        buffers.encode_setup(&mut encoder, setup);
        self.gpu.finish(encoder).await
    }
}

#[async_trait(?Send)]
impl Profiler for Wgpu {
    fn device(&self) -> &DeviceInfo {
        &self.device
    }

    fn set_tuning(&mut self, tuning: Tuning) {
        self.device.caps.tuning = tuning;
    }

    fn clock(&self) -> &ClockInfo {
        &self.clock
    }

    fn now(&self) -> Nanos {
        self.gpu.now()
    }

    async fn yield_now(&self) {
        yield_now().await;
    }

    async fn empty(&mut self) -> Result<Nanos, BackendError> {
        self.gpu.empty().await
    }

    async fn transfer(&mut self, way: Transfer, bytes: u64) -> Result<Option<Nanos>, BackendError> {
        self.gpu.incident()?;
        transfer::time(&self.gpu, way, bytes).await.map(Some)
    }

    /// Compiles the kernels of the next cases. The others would stay in memory for long. With several buffer sets, pipelines have
    /// other layouts, which a case creates.
    async fn prefetch(&mut self, coming: &Coming<'_>) {
        let next = if coming.cache == Cache::Hot { coming.next } else { &[] };
        let units = next.iter().filter_map(|case| self.units(case)).flatten().collect();
        self.ahead.start(&self.gpu, units);
    }

    async fn prepare(&mut self, case: &Case, inputs: &Inputs, sets: u32) -> Result<Box<dyn Prepared>, BackendError> {
        Ok(Box::new(self.case(case, inputs, sets).await?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open;
    use parallax_ir::device::Batch;
    use parallax_workloads::parse_case;
    use pollster::block_on;

    #[test]
    fn a_lost_device_ends_every_wait() {
        let mut wgpu = block_on(open(WgpuOptions::default())).expect("an adapter (llvmpipe will do)");
        let case = parse_case("attention/fwd/b1,h1,s5,d3/f32/manual").expect("valid");
        let inputs = case.problem.inputs(1);
        let mut prepared = block_on(wgpu.case(&case, &inputs, 2)).expect("a small case");
        wgpu.gpu.device.destroy();
        let measured = block_on(prepared.measure(Batch { lead: 1, repeats: 2 }));
        assert!(matches!(measured, Err(BackendError::Lost(_))), "{measured:?}");
        let read = block_on(prepared.read_back(0, 0..4));
        assert!(matches!(read, Err(BackendError::Lost(_))), "{read:?}");
        let traced = block_on(prepared.trace(false));
        assert!(matches!(traced, Err(BackendError::Lost(_))), "{traced:?}");
        let poisoned = block_on(prepared.poison(POISON));
        assert!(matches!(poisoned, Err(BackendError::Lost(_))), "{poisoned:?}");
        let empty = block_on(wgpu.empty());
        assert!(matches!(empty, Err(BackendError::Lost(_))), "{empty:?}");
        for way in [Transfer::Upload, Transfer::Download] {
            let moved = block_on(wgpu.transfer(way, 64));
            assert!(matches!(moved, Err(BackendError::Lost(_))), "{moved:?}");
        }
        let again = block_on(wgpu.case(&case, &inputs, 1)).map(|_| ());
        assert!(matches!(again, Err(BackendError::Lost(_))), "{again:?}");
    }
}
