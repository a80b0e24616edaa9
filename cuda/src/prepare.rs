//! Preparation of a case on the device: kernels, library calls, sets of buffers, inputs.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;

use cudarc::driver::sys::CUdeviceptr;
use parallax_ir::device::{BackendError, Ledger, POISON, Rotation, settle};
use parallax_ir::{
    Arg, BufferSpec, Case, Fourier, Gemm, Inputs, Library, LibraryEpilogue, Program, Queues, Region, Role, Scratch,
    Stage, StageOp,
};
use parallax_schema::case::DType;
use parallax_schema::device::{Compiled, Dialect, Launching, Step};
use rayon::prelude::*;

use crate::compile::{compile_cached, hash};
use crate::cublaslt::{PlannedGemm, WORKSPACE};
use crate::cudnn;
use crate::cufft::PlannedFourier;
use crate::driver::{CudaContext, CudaStream};
use crate::errors::Context;
use crate::events::{event, since};
use crate::launch::{BoundStage, Given, Module, Range, Ready, alone};
use crate::memory::Buffer;
use crate::occupancy::Multiprocessors;
use crate::prepared::{PreparedCase, Set};
use crate::profiler::Cuda;
use crate::source::{KernelSource, assemble_all};
use crate::streams::Streams;
use crate::tensor_map::encode;

impl Cuda {
    /// Compiles a case, and places it with `sets` copies of its buffers on the device.
    pub(crate) fn prepare_case(
        &mut self,
        case: &Case,
        inputs: &Inputs,
        sets: u32,
    ) -> Result<PreparedCase, BackendError> {
        let (program, first) = case.whole_program(&self.device.info.caps).ok_or_else(|| {
            BackendError::Unsupported(format!("{case} has no kernels of its own: prepare the variant that it selects"))
        })?;
        self.prepare_program(case, (&program, first), inputs, sets)
    }

    /// Prepares a program of the caller on the case's buffers. The first `setup` stages are the set-up.
    pub(crate) fn prepare_program(
        &mut self,
        case: &Case,
        (program, setup): (&Program, usize),
        inputs: &Inputs,
        sets: u32,
    ) -> Result<PreparedCase, BackendError> {
        match program.stages.iter().find(|stage| matches!(stage.work, StageOp::Collective(_))) {
            Some(exchange) => Err(alone(&exchange.label)),
            None => self.prepare_on((case, case.problem.buffers()), (program, setup), inputs, sets),
        }
    }

    /// Prepares a program on these buffers: those of the case, or those of a rank. Exchanges are left to the group.
    pub(crate) fn prepare_on(
        &mut self,
        (case, specs): (&Case, Vec<BufferSpec>),
        (program, setup): (&Program, usize),
        inputs: &Inputs,
        sets: u32,
    ) -> Result<PreparedCase, BackendError> {
        let context = &self.device.context.clone();
        context.bind_to_thread().doing(|| "binding the device to this thread".into())?;
        let (program, blueprints) = settle(&self.options.texts, program.clone(), case.problem.dtype, Dialect::Cuda)?;
        let program = &program;
        let (modules, places, mut compiled) = self.compile(case, program)?;
        compiled.options.extend(blueprints);

        let ledger = Rc::<Ledger>::default();
        let sets = self.upload((&specs, case.problem.dtype), program, &ledger, inputs, sets)?;
        let first = self.keep(&specs, &sets[0], &ledger)?;

        let multiplies = |stage: &Stage| matches!(stage.work, StageOp::Library(Library::Gemm(..)));
        let workspace = match program.stages.iter().any(multiplies) {
            true => Some(Buffer::new(context, &ledger, "the library's workspace", WORKSPACE)?),
            false => None,
        };
        let works = program.stages.iter().zip(&places).map(|(stage, place)| match (&stage.work, place, &workspace) {
            (StageOp::Library(Library::Gemm(gemm, epilogue)), _, Some(workspace)) => {
                let gemm = self.plan_gemm((*gemm, *epilogue), case.problem.dtype, &mut compiled)?;
                Ok(Ready::Gemm(Rc::new(gemm), workspace.pointer()))
            }
            (StageOp::Library(call @ (Library::Conv(_) | Library::Attention(_))), ..) => {
                let pointer = |arg| Ok::<_, BackendError>(given(stage, arg, &specs, &sets[0])?.1.pointer());
                let arguments = stage.args.iter().map(pointer).collect::<Result<Vec<_>, _>>()?;
                let planned = self.plan_graph(*call, &arguments, case.problem.dtype, &ledger, &mut compiled)?;
                Ok(Ready::Graph(Rc::new(planned)))
            }
            (StageOp::Library(Library::Fourier(wanted)), ..) => {
                let planned = self.plan_fourier(*wanted, &ledger, &mut compiled)?;
                Ok(Ready::Fourier(Rc::new(planned)))
            }
            (StageOp::Kernel(kernel), Some(place), _) => Ok(Ready::Kernel(Rc::new(modules[*place].function(kernel)?))),
            (StageOp::Fill(word), ..) => Ok(Ready::Fill(*word, None)),
            (StageOp::FillRange(part), ..) => Ok(Ready::Fill(part.word, Some([part.from, part.bytes]))),
            (StageOp::Copy, ..) => Ok(Ready::Copy(None)),
            (StageOp::CopyRange(part), ..) => Ok(Ready::Copy(Some(*part))),
            (StageOp::CopyThrough, ..) => Ok(Ready::CopyThrough),
            (StageOp::Collective(_), ..) => Ok(Ready::Exchange),
            _ => unreachable!("a text is compiled and a workspace allocated exactly where a stage needs it"),
        });
        let works = works.collect::<Result<Vec<_>, _>>()?;

        let dtype = case.problem.dtype;
        let steps = |set| execution(program, &works, (&specs, dtype), set);
        let mut executions = sets.iter().map(steps).collect::<Result<Vec<_>, _>>()?;
        let timed: Vec<Vec<BoundStage>> = executions.iter_mut().map(|steps| steps.split_off(setup)).collect();
        let streams = Streams::new(context, &self.stream, Queues::after_setup(setup, &program.stages))?;
        if streams.count() > 1 {
            compiled.options.push(format!("{} streams", streams.count()));
        }
        let prepared = PreparedCase {
            name: case.to_string(),
            launching: Launching::Stream,
            graphs: Vec::new(),
            setup: executions,
            of_setup: program.used_by_first(setup, &specs),
            executions: timed,
            rotation: Rotation::new(sets.len()),
            specs,
            dtype,
            begin: event(context)?,
            end: event(context)?,
            sets,
            first,
            _workspace: workspace,
            _modules: modules,
            compiled,
            context: context.clone(),
            stream: self.stream.clone(),
            streams,
            opened: self.opened,
            ledger,
            free_before: self.free_before,
            multiprocessors: self.multiprocessors(),
        };
        // Fresh memory may hold the correct results of an earlier case.
        prepared.poison_all(POISON)?;
        prepared.set_up()?;
        Ok(prepared)
    }

    /// Compiles the kernels of the cases, on all processors, each once. On a first visit, compilation takes far longer than all other
    /// work.
    pub(crate) fn compile_ahead<'c>(&mut self, cases: impl Iterator<Item = &'c Case>) {
        let of_case = |case: &Case| {
            let (program, _) = case.whole_program(&self.device.info.caps)?;
            Some(assemble_all(&self.options.texts, &program, case.problem.dtype).ok()?.0)
        };
        // Cases that differ only in their launch have the same kernel source.
        let texts: BTreeMap<String, KernelSource> =
            cases.filter_map(of_case).flatten().map(|text| (text.source.clone(), text)).collect();
        let mut texts: Vec<_> = texts.into_iter().filter(|(source, _)| self.compiled.insert(source.clone())).collect();
        // A long source that begins last keeps one processor busy and the others idle.
        texts.sort_by_key(|(source, _)| Reverse(source.len()));
        let (compiler, cache) = (self.device_compiler(), self.options.cache.as_deref());
        let binary =
            |(source, text): (String, KernelSource)| Some((source, compile_cached(&text, compiler, cache).ok()?));
        self.ahead.par_extend(texts.into_iter().par_bridge().filter_map(binary));
    }

    /// Loads the kernel sources of a program. Returns the modules, the module of each stage, and the record of the compilation.
    /// Empty where no stage launches a kernel.
    fn compile(&mut self, case: &Case, program: &Program) -> Result<Loaded, BackendError> {
        let (texts, places) = assemble_all(&self.options.texts, program, case.problem.dtype)?;
        let loaded = texts.iter().map(|text| self.load(text)).collect::<Result<Vec<_>, _>>()?;
        let (modules, each): (Vec<_>, Vec<_>) = loaded.into_iter().unzip();
        let mut compiled = together(each);
        // Time of a repeat visit, which finds the binary in the cache. The second modules are loaded and dropped at once.
        if self.options.cache.is_some() && !texts.is_empty() {
            let again = texts.iter().map(|text| Ok(self.load(text)?.1)).collect::<Result<Vec<_>, BackendError>>()?;
            let repeat = together(again);
            compiled.repeat = repeat.cached.then_some(repeat.time);
        }
        Ok((modules, places, compiled))
    }

    fn load(&mut self, text: &KernelSource) -> Result<(Module, Compiled), BackendError> {
        let (cubin, mut compiled) = match self.ahead.remove(&text.source) {
            Some(binary) => binary,
            None => compile_cached(text, self.device_compiler(), self.options.cache.as_deref())?,
        };
        // A translated kernel source is translated anew at every visit.
        text.made.iter().for_each(|step| compiled.time += step.time);
        compiled.steps.splice(0..0, text.made.iter().cloned());
        let begin = Instant::now();
        let module = Module::load(&self.device.context, &cubin)?;
        add_step(&mut compiled, "module load", begin);
        Ok((module, compiled))
    }

    fn plan_gemm(
        &self,
        (gemm, epilogue): (Gemm, LibraryEpilogue),
        dtype: DType,
        compiled: &mut Compiled,
    ) -> Result<PlannedGemm, BackendError> {
        let begin = Instant::now();
        let gemm = self.products.plan(dtype, gemm, epilogue)?;
        add_step(compiled, "cuBLASLt plan", begin);
        tell(compiled, gemm.version());
        Ok(gemm)
    }

    /// Plans a cuDNN call. The arguments are those of the first set, whose outputs are poisoned only after this.
    fn plan_graph(
        &self,
        call: Library,
        arguments: &[CUdeviceptr],
        dtype: DType,
        ledger: &Rc<Ledger>,
        compiled: &mut Compiled,
    ) -> Result<cudnn::Planned, BackendError> {
        let begin = Instant::now();
        let place = cudnn::PlanContext { context: &self.device.context, stream: &self.stream, ledger };
        // SAFETY: the set's buffers have the size of their specifications, which are the call's extents. The device is idle while a
        // case is prepared.
        let planned = unsafe { self.graphs.plan(dtype, call, arguments, &place) }?;
        add_step(compiled, "cuDNN plan", begin);
        planned.sentences().into_iter().for_each(|sentence| tell(compiled, sentence));
        Ok(planned)
    }

    fn plan_fourier(
        &self,
        wanted: Fourier,
        ledger: &Rc<Ledger>,
        compiled: &mut Compiled,
    ) -> Result<PlannedFourier, BackendError> {
        let begin = Instant::now();
        let planned = PlannedFourier::new(wanted, &self.device.context, ledger)?;
        add_step(compiled, "cuFFT plan", begin);
        tell(compiled, planned.version());
        Ok(planned)
    }

    /// Allocates every set, and copies the inputs into all of them.
    fn upload(
        &self,
        (specs, dtype): (&[BufferSpec], DType),
        program: &Program,
        ledger: &Rc<Ledger>,
        inputs: &Inputs,
        sets: u32,
    ) -> Result<Vec<Set>, BackendError> {
        let context = &self.device.context;
        let scratch = Scratch::new(program, specs, dtype);
        let allocate_set = |_| {
            let arena = match scratch.arena {
                0 => None,
                bytes => Some(Rc::new(Buffer::new(context, ledger, "scratch", bytes)?)),
            };
            let allocate = |(spec, region): (&BufferSpec, &Option<Region>)| match (region, &arena) {
                (Some(region), Some(arena)) => Ok(Some(Buffer::part(arena, region.offset, region.bytes))),
                _ if matches!(spec.role, Role::Scratch) && !program.uses(spec.name) => Ok(None),
                // Outputs are allocated in any case: they are read back by their position.
                _ => Buffer::at(spec.place, context, ledger, spec.name, spec.bytes(dtype).0).map(Some),
            };
            specs.iter().zip(&scratch.regions).map(allocate).collect::<Result<Set, _>>()
        };
        let sets = (0..sets.max(1)).map(allocate_set).collect::<Result<Vec<_>, _>>()?;
        fill(context, &self.stream, specs, &sets, (inputs, dtype))?;
        Ok(sets)
    }

    /// Copies the buffers that executions modify.
    fn keep(&self, specs: &[BufferSpec], set: &Set, ledger: &Rc<Ledger>) -> Result<Vec<(usize, Buffer)>, BackendError> {
        let changed = specs.iter().zip(set).enumerate().filter(|(_, (spec, _))| spec.role.restored());
        let copy = |(index, (spec, buffer)): (usize, (&BufferSpec, &Option<Buffer>))| {
            let buffer = buffer.as_ref()?;
            let copy = Buffer::new(&self.device.context, ledger, spec.name, buffer.bytes());
            Some(copy.and_then(|copy| copy.copy_from(buffer, self.stream.cu_stream()).map(|()| (index, copy))))
        };
        let kept = changed.filter_map(copy).collect::<Result<Vec<_>, _>>();
        // Wait also after a failed copy: no work may be in flight when the buffers are dropped.
        self.stream.synchronize().doing(|| "copying the changed inputs".into())?;
        kept
    }

    fn multiprocessors(&self) -> Multiprocessors {
        let info = &self.device.info;
        let threads = info.limits.get("max_threads_per_multiprocessor").copied().unwrap_or(0);
        Multiprocessors {
            count: info.caps.compute_units.unwrap_or(0),
            threads: u32::try_from(threads).unwrap_or(0),
            warp: info.caps.subgroup.map_or(0, |(warp, _)| warp),
        }
    }
}

/// Modules, the module of each stage, and the record of the compilation.
type Loaded = (Vec<Module>, Vec<Option<usize>>, Compiled);

/// Merges the records of several compilations. The result counts as cached if all are.
fn together(each: Vec<Compiled>) -> Compiled {
    let (cached, hashes): (bool, Vec<String>) =
        (each.iter().all(|one| one.cached), each.iter().map(|one| one.text_hash.clone()).collect());
    let mut all = each.into_iter().reduce(|mut all, one| {
        all.time += one.time;
        for step in one.steps {
            match all.steps.iter_mut().find(|known| known.name == step.name) {
                Some(known) => known.time += step.time,
                None => all.steps.push(step),
            }
        }
        all
    });
    if let Some(all) = &mut all {
        all.cached = cached;
        if hashes.len() > 1 {
            all.text_hash = hash(&hashes.concat());
        }
    }
    all.unwrap_or_default()
}

/// Adds a sentence to the record of compilation, once.
fn tell(compiled: &mut Compiled, sentence: String) {
    if !compiled.options.contains(&sentence) {
        compiled.options.push(sentence);
    }
}

/// Adds a step that began at `begin` to the record of compilation.
fn add_step(compiled: &mut Compiled, name: &str, begin: Instant) {
    let time = since(begin);
    compiled.time += time;
    compiled.steps.push(Step { name: name.to_owned(), time });
}

/// Returns the buffer of a stage's argument in a set.
fn given<'a>(
    stage: &Stage,
    arg: &Arg,
    specs: &'a [BufferSpec],
    set: &'a Set,
) -> Result<(&'a BufferSpec, &'a Buffer), BackendError> {
    let (label, name) = (&stage.label, arg.buffer);
    match specs.iter().zip(set).find(|(spec, _)| spec.name == name) {
        Some((spec, Some(buffer))) => Ok((spec, buffer)),
        _ => Err(BackendError::Device(format!("{label} uses `{name}`, which is not a buffer of the workload"))),
    }
}

/// Returns the launches of one execution on a set of buffers, for a case of this element type.
fn execution(
    program: &Program,
    works: &[Ready],
    (specs, dtype): (&[BufferSpec], DType),
    set: &Set,
) -> Result<Vec<BoundStage>, BackendError> {
    let step = |(stage, work): (&Stage, &Ready)| {
        let give = |arg: &Arg| {
            let (spec, buffer) = given(stage, arg, specs, set)?;
            let range = Range { pointer: buffer.pointer(), bytes: buffer.bytes(), place: buffer.place() };
            let encoded = |map| encode(map, spec.elem.storage(dtype), range.pointer, range.bytes);
            Ok(Given { range, map: arg.map.as_ref().map(encoded).transpose()? })
        };
        BoundStage::new(stage, work.clone(), stage.args.iter().map(give).collect::<Result<_, _>>()?)
    };
    program.stages.iter().zip(works).map(step).collect()
}

/// Size of a piece of inputs, in bytes. Inputs are made and copied in pieces, so that a large tensor needs no second copy on the
/// host.
const PIECE: u64 = 16 << 20;

/// Copies the inputs into every set, and waits.
pub(crate) fn fill(
    context: &CudaContext,
    stream: &CudaStream,
    specs: &[BufferSpec],
    sets: &[Set],
    (inputs, dtype): (&Inputs, DType),
) -> Result<(), BackendError> {
    let is_input = |(_, spec): &(usize, &BufferSpec)| spec.role.fill().is_some();
    for (index, spec) in specs.iter().enumerate().filter(is_input) {
        if let Some(buffer) = &sets[0][index] {
            write(buffer, inputs, index, spec.elem.storage(dtype).bytes())?;
        }
    }
    // Copies from pageable host memory may be incomplete when the call returns, and the kernels' stream does not wait for them.
    context.synchronize().doing(|| "uploading inputs".into())?;
    let copied = sets[1..].iter().try_for_each(|set| {
        specs.iter().enumerate().filter(is_input).try_for_each(|(index, _)| match (&set[index], &sets[0][index]) {
            (Some(copy), Some(first)) => copy.copy_from(first, stream.cu_stream()),
            _ => Ok(()),
        })
    });
    // Wait also after a failed copy: no work may be in flight when the buffers are dropped.
    stream.synchronize().doing(|| "copying inputs".into()).and(copied)
}

fn write(buffer: &Buffer, inputs: &Inputs, index: usize, elem_bytes: u64) -> Result<(), BackendError> {
    let mut piece = vec![0; PIECE.min(buffer.bytes()) as usize];
    let mut offset = 0;
    while offset < buffer.bytes() {
        let part = &mut piece[..PIECE.min(buffer.bytes() - offset) as usize];
        inputs.write(index, offset / elem_bytes, part);
        buffer.write(offset, part)?;
        offset += part.len() as u64;
    }
    Ok(())
}
