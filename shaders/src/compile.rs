//! Compilation of WGSL to pipelines, with its times.

use std::borrow::Cow;
use std::collections::BTreeMap;
#[cfg(not(target_arch = "wasm32"))]
use std::{
    future::Future,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use parallax_ir::device::BackendError;
use parallax_ir::{Program, Stage};
use parallax_schema::device::{Compiled, Step};
use parallax_schema::units::Nanos;

use crate::ahead::Ahead;
use crate::checks::Checks;
use crate::device_errors::{Scopes, backend_error};
use crate::gpu::Gpu;
use crate::source::{KernelSource, hash_of};

/// One pipeline for each stage that is a kernel.
pub type Pipelines = Vec<Option<wgpu::ComputePipeline>>;

/// Input of the compilation of a program's pipelines.
pub struct ProgramSource {
    /// Kernel sources of the program.
    pub texts: Vec<KernelSource>,
    /// Entry of each stage. `None` for a stage that is no kernel.
    stages: Vec<Option<Entry>>,
    /// Safety checks of the kernels.
    checks: Checks,
    /// Values of pipeline-overridable constants, by name or number.
    constants: Vec<(String, f64)>,
}

/// Entry point of a stage's kernel.
struct Entry {
    /// Index of the kernel source.
    text: usize,
    /// Name of the entry point.
    name: Cow<'static, str>,
    /// Layout of the pipeline. `None` for the one derived from the kernel source.
    layout: Option<wgpu::PipelineLayout>,
}

impl ProgramSource {
    /// Returns the source of a program. `places` has the index of each stage's kernel source.
    pub fn new(
        program: &Program,
        (texts, places): (Vec<KernelSource>, &[Option<usize>]),
        layout: impl Fn(&Stage) -> Option<wgpu::PipelineLayout>,
        checks: Checks,
    ) -> ProgramSource {
        let entry = |(stage, place): (&Stage, &Option<usize>)| {
            place.map(|text| Entry { text, name: stage.entry().into(), layout: layout(stage) })
        };
        let stages = program.stages.iter().zip(places).map(entry).collect();
        ProgramSource { texts, stages, checks, constants: Vec::new() }
    }

    /// Returns the source of one kernel from outside the program, which is compiled with all checks.
    pub fn foreign(
        text: KernelSource,
        entry: &str,
        layout: wgpu::PipelineLayout,
        constants: &[(String, f64)],
    ) -> ProgramSource {
        let entry = Entry { text: 0, name: entry.to_owned().into(), layout: Some(layout) };
        ProgramSource {
            texts: vec![text],
            stages: vec![Some(entry)],
            checks: Checks::ALL,
            constants: constants.to_vec(),
        }
    }

    /// Compiles one pipeline per kernel, and returns them with the record. Stages with the same kernel source share its module.
    /// Stages with the same entry point also share the pipeline. Kernels that were compiled ahead are taken from there.
    ///
    /// # Errors
    /// [`BackendError::Compile`] with the compiler's message.
    pub async fn compile(&self, gpu: &Gpu, ahead: &Ahead) -> Result<(Pipelines, Compiled), BackendError> {
        let mut units = Vec::new();
        for unit in self.units() {
            units.push(match ahead.take(gpu, &unit).await {
                Some(compiled) => compiled,
                None => unit.compile(gpu).await?,
            });
        }
        let steps = self.steps(&units);
        let of_stage = |entry: &Option<Entry>| entry.as_ref().and_then(|entry| units[entry.text].of_entry(&entry.name));
        let pipelines = self.stages.iter().map(of_stage).collect();
        let compiled = Compiled {
            time: total(&steps),
            cached: false,
            text_hash: hash_of(&self.texts),
            options: self.options(),
            repeat: None,
            steps,
        };
        Ok((pipelines, compiled))
    }

    /// Returns one unit for each kernel source.
    pub fn units(&self) -> Vec<Unit> {
        let unit = |(index, text): (usize, &KernelSource)| {
            let mut entries = BTreeMap::new();
            for entry in self.stages.iter().flatten().filter(|entry| entry.text == index) {
                entries.entry(entry.name.to_string()).or_insert_with(|| entry.layout.clone());
            }
            Unit {
                text: text.clone(),
                entries: entries.into_iter().collect(),
                checks: self.checks_of(text),
                constants: self.constants.clone(),
            }
        };
        self.texts.iter().enumerate().map(unit).collect()
    }

    /// Returns the steps of the compilation of all units.
    fn steps(&self, units: &[CompiledUnit]) -> Vec<Step> {
        let step = |name: &str, time: fn(&CompiledUnit) -> Nanos| Step {
            name: name.to_owned(),
            time: Nanos(units.iter().map(|unit| time(unit).0).sum()),
        };
        // A translated kernel source is translated anew at every visit.
        let mut steps = Step::summed(self.texts.iter().flat_map(|text| &text.made));
        steps.extend([step("WGSL module", |unit| unit.module), step("pipeline", |unit| unit.pipeline)]);
        steps
    }

    /// Returns the checks of a kernel source. A source from outside the program always has all checks.
    fn checks_of(&self, text: &KernelSource) -> Checks {
        if text.own { self.checks } else { Checks::ALL }
    }

    /// Returns the checks as lines for a record, the kernel sources with other checks, and the numbers of loops that are written out.
    fn options(&self) -> Vec<String> {
        let unrolled = self.texts.iter().filter(|text| text.unrolled > 0);
        let unrolled = unrolled.map(|text| format!("loops written out: {} in {}", text.unrolled, text.file));
        let others = self.texts.iter().filter(|text| self.checks_of(text) != self.checks);
        let line = |text: &KernelSource| format!("all checks: {}, which is not the program's own", text.file);
        self.checks.lines().into_iter().chain(others.map(line)).chain(unrolled).collect()
    }

    /// Returns the time of another compilation, which uses the caches of the driver and the browser.
    ///
    /// # Errors
    /// Those of [`ProgramSource::compile`].
    pub async fn compile_again(&self, gpu: &Gpu) -> Result<Nanos, BackendError> {
        let mut units = Vec::new();
        for unit in self.units() {
            units.push(unit.compile(gpu).await?);
        }
        Ok(total(&self.steps(&units)))
    }
}

/// A kernel source with the entry points that stages launch: one module and its pipelines.
#[derive(Clone)]
pub struct Unit {
    text: KernelSource,
    /// Name and layout of each entry point. Without a layout, the one derived from the kernel source.
    entries: Vec<(String, Option<wgpu::PipelineLayout>)>,
    checks: Checks,
    constants: Vec<(String, f64)>,
}

/// Identity of a unit: units with equal keys have equal pipelines.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UnitKey {
    wgsl: String,
    /// Names of the entry points, and whether each has the derived layout.
    entries: Vec<(String, bool)>,
    checks: Checks,
    /// Names and bits of the constants.
    constants: Vec<(String, u64)>,
}

#[cfg(test)]
impl UnitKey {
    /// Number of entry points.
    pub fn entries(&self) -> usize {
        self.entries.len()
    }
}

/// Pipelines of a unit.
#[derive(Debug, Clone)]
pub struct CompiledUnit {
    /// Name and pipeline of each entry point.
    pub pipelines: Vec<(String, wgpu::ComputePipeline)>,
    /// Time of the module.
    pub module: Nanos,
    /// Time of the pipelines. Beside others, it includes waits for a processor.
    pub pipeline: Nanos,
}

impl CompiledUnit {
    fn of_entry(&self, name: &str) -> Option<wgpu::ComputePipeline> {
        self.pipelines.iter().find(|(entry, _)| entry == name).map(|(_, pipeline)| pipeline.clone())
    }
}

impl Unit {
    /// Returns the identity.
    pub fn key(&self) -> UnitKey {
        let entries = self.entries.iter().map(|(name, layout)| (name.clone(), layout.is_none())).collect();
        let constants = self.constants.iter().map(|(name, value)| (name.clone(), value.to_bits())).collect();
        UnitKey { wgsl: self.text.wgsl.clone(), entries, checks: self.checks, constants }
    }

    /// Number of entry points.
    #[cfg(target_arch = "wasm32")]
    pub fn entries(&self) -> usize {
        self.entries.len()
    }

    /// Creates the module. The error scope around this call receives the errors.
    pub fn module(&self, device: &wgpu::Device) -> wgpu::ShaderModule {
        module(device, &self.text, self.checks)
    }

    /// Creates the pipeline of entry point `index`. The error scope around this call receives the errors.
    pub fn pipeline(
        &self,
        device: &wgpu::Device,
        module: &wgpu::ShaderModule,
        index: usize,
    ) -> Option<(String, wgpu::ComputePipeline)> {
        let (name, layout) = self.entries.get(index)?;
        let constants: Vec<(&str, f64)> = self.constants.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        Some((name.clone(), pipeline(device, module, name, layout.as_ref(), (self.checks, &constants))))
    }

    /// Creates the pipelines. The error scope around this call receives the errors.
    pub fn pipelines(
        &self,
        device: &wgpu::Device,
        module: &wgpu::ShaderModule,
    ) -> Vec<(String, wgpu::ComputePipeline)> {
        (0..self.entries.len()).filter_map(|index| self.pipeline(device, module, index)).collect()
    }

    /// Compiles once, and times the steps. A step includes the device's report of success. Browsers compile in another process, so
    /// a call that returns at once has not compiled yet.
    async fn compile(&self, gpu: &Gpu) -> Result<CompiledUnit, BackendError> {
        let began = gpu.now();
        let module = judged(gpu, &self.text, || self.module(&gpu.device)).await?;
        let parsed = gpu.now();
        let pipelines = judged(gpu, &self.text, || self.pipelines(&gpu.device, &module)).await?;
        Ok(CompiledUnit { pipelines, module: parsed - began, pipeline: gpu.now() - parsed })
    }

    /// Compiles once on any thread. `None` after an error, of which only this function knows.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn compile_quietly(&self, device: &wgpu::Device) -> Option<CompiledUnit> {
        let begun = Instant::now();
        let module = without_errors(device, || self.module(device))?;
        let parsed = Instant::now();
        let pipelines = without_errors(device, || self.pipelines(device, &module))?;
        let nanos = |time: Duration| Nanos(time.as_nanos() as f64);
        Some(CompiledUnit { pipelines, module: nanos(parsed - begun), pipeline: nanos(parsed.elapsed()) })
    }
}

/// Runs `make` in error scopes of this thread. `None` after an error.
#[cfg(not(target_arch = "wasm32"))]
fn without_errors<T>(device: &wgpu::Device, make: impl FnOnce() -> T) -> Option<T> {
    use wgpu::ErrorFilter as F;
    let scopes = [F::OutOfMemory, F::Validation, F::Internal].map(|filter| device.push_error_scope(filter));
    let made = make();
    let mut context = Context::from_waker(Waker::noop());
    let caught = scopes.into_iter().rev().any(|scope| {
        let answer = std::pin::pin!(scope.pop()).poll(&mut context);
        // Natively, the answer is known at once.
        !matches!(answer, Poll::Ready(None))
    });
    (!caught).then_some(made)
}

fn total(steps: &[Step]) -> Nanos {
    Nanos(steps.iter().map(|step| step.time.0).sum())
}

/// Runs `make` in an error scope. It is the only place that catches errors of kernel sources and pipelines.
async fn judged<T>(gpu: &Gpu, text: &KernelSource, make: impl FnOnce() -> T) -> Result<T, BackendError> {
    let scopes = Scopes::open(&gpu.device, &gpu.errors);
    let made = make();
    match scopes.close().await? {
        None => Ok(made),
        Some(error @ wgpu::Error::OutOfMemory { .. }) => Err(backend_error(error)),
        Some(error) => Err(BackendError::Compile { file: text.file.clone(), log: error.to_string() + &text.legend() }),
    }
}

fn module(device: &wgpu::Device, text: &KernelSource, checks: Checks) -> wgpu::ShaderModule {
    let descriptor = wgpu::ShaderModuleDescriptor {
        label: Some(&text.file),
        source: wgpu::ShaderSource::Wgsl(text.wgsl.as_str().into()),
    };
    if checks == Checks::ALL {
        return device.create_shader_module(descriptor);
    }
    let kept = wgpu::ShaderRuntimeChecks {
        bounds_checks: checks.bounds,
        force_loop_bounding: checks.loops,
        int_div_checks: checks.divisions,
        ..wgpu::ShaderRuntimeChecks::unchecked()
    };
    // SAFETY: the kernel source is the program's own, since others are compiled with all checks ([`ProgramSource::checks_of`]). The tests
    // compare every variant, with checks on, with the reference. Their shapes exercise every boundary.
    unsafe { device.create_shader_module_trusted(descriptor, kept) }
}

fn pipeline(
    device: &wgpu::Device,
    module: &wgpu::ShaderModule,
    entry: &str,
    layout: Option<&wgpu::PipelineLayout>,
    (checks, constants): (Checks, &[(&str, f64)]),
) -> wgpu::ComputePipeline {
    device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: Some(entry),
        layout,
        module,
        entry_point: Some(entry),
        compilation_options: wgpu::PipelineCompilationOptions {
            zero_initialize_workgroup_memory: checks.zeroing,
            constants,
        },
        cache: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Form, assemble_all, embedded};
    use crate::{WgpuOptions, open};
    use parallax_workloads::parse_case;
    use pollster::block_on;

    #[test]
    fn a_text_of_another_place_is_compiled_with_all_checks() {
        let wgpu = block_on(open(WgpuOptions::default())).expect("an adapter (llvmpipe will do)");
        let case = parse_case("attention/fwd/b1,h1,s5,d3/f32/flash").expect("valid");
        let program = case.program(&parallax_schema::testing::caps()).expect("a kernel variant");
        let line = "all checks: attention/flash.wgsl, which is not the program's own";
        // The kernel itself, and one of its imports.
        let imported = embedded().with_imports("attention/flash.wgsl", &|line| {
            let name = line.strip_prefix("#import ")?.split("//").next()?;
            Some(format!("{}.wgsl", name.trim()))
        });
        let imported = imported.expect("there").into_iter().map(|part| part.file).find(|file| file.starts_with("lib/"));
        for (place, asked, said) in [
            (None, Checks::NONE, false),
            (Some("attention/flash.wgsl".to_owned()), Checks::NONE, true),
            (Some("attention/flash.wgsl".to_owned()), Checks { loops: true, ..Checks::NONE }, true),
            (Some(imported.expect("an import")), Checks::NONE, true),
            (Some("attention/flash.wgsl".to_owned()), Checks::ALL, false),
        ] {
            let own = embedded();
            let theirs = place.clone();
            let lookup = move |file: &str| {
                let same = || Ok(own.find(file).map_err(|error| error.to_string())?.map(String::from));
                if Some(file) == theirs.as_deref() { same() } else { Ok(None) }
            };
            let texts = embedded().with_lookup(lookup);
            let (texts, places) = assemble_all(&texts, &program, case.problem.dtype, Form::HERE).expect("a text");
            let source = ProgramSource::new(&program, (texts, &places), |_| None, asked);
            let checks: Vec<Checks> = source.texts.iter().map(|text| source.checks_of(text)).collect();
            assert_eq!(checks, [if place.is_some() { Checks::ALL } else { asked }], "{place:?}");
            let (_, compiled) = block_on(source.compile(wgpu.gpu(), &wgpu.ahead)).expect("it compiles");
            assert_eq!(compiled.options.iter().any(|option| option == line), said, "{place:?}: {:?}", compiled.options);
            assert!(compiled.options.starts_with(&asked.lines()));
        }
    }

    #[test]
    fn rejected_text_and_missing_entries_are_compile_errors() {
        let wgpu = block_on(open(WgpuOptions::default())).expect("an adapter (llvmpipe will do)");
        let case = parse_case("attention/fwd/b1,h1,s5,d3/f32/flash").expect("valid");
        let program = case.program(&parallax_schema::testing::caps()).expect("a kernel variant");
        for (wgsl, said) in [("fn attention_flash( {", "expected"), ("const UNUSED: u32 = 1u;", "attention_flash")] {
            let lookup = |file: &str| Ok((file == "attention/flash.wgsl").then(|| wgsl.to_owned()));
            let (texts, places) =
                assemble_all(&embedded().with_lookup(lookup), &program, case.problem.dtype, Form::HERE)
                    .expect("a text");
            let source = ProgramSource::new(&program, (texts, &places), |_| None, Checks::ALL);
            let result = block_on(source.compile(wgpu.gpu(), &wgpu.ahead)).map(|_| ());
            let Err(BackendError::Compile { file, log }) = result else { panic!("{wgsl}: {result:?}") };
            assert_eq!(file, "attention/flash.wgsl");
            assert!(log.contains(said), "{log}");
        }
        assert_eq!(wgpu.gpu().incident(), Ok(()), "nothing is left over for the next case");
    }
}
