//! Compilation of WGSL to pipelines, with its times.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use parallax_ir::device::BackendError;
use parallax_ir::{Program, Stage};
use parallax_schema::device::{Compiled, Step};
use parallax_schema::units::Nanos;

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
        ProgramSource { texts, stages, checks }
    }

    /// Returns the source of one kernel from outside the program, which is compiled with all checks.
    pub fn foreign(text: KernelSource, entry: &str, layout: wgpu::PipelineLayout) -> ProgramSource {
        let entry = Entry { text: 0, name: entry.to_owned().into(), layout: Some(layout) };
        ProgramSource { texts: vec![text], stages: vec![Some(entry)], checks: Checks::ALL }
    }

    /// Compiles one pipeline per kernel, and returns them with the record. Stages with the same kernel source share its module.
    /// Stages with the same entry point also share the pipeline.
    ///
    /// # Errors
    /// [`BackendError::Compile`] with the compiler's message.
    pub async fn compile(&self, gpu: &Gpu) -> Result<(Pipelines, Compiled), BackendError> {
        let (pipelines, steps) = self.once(gpu).await?;
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
        Ok(total(&self.once(gpu).await?.1))
    }

    /// Compiles once, and times the steps. A step includes the device's report of success. Browsers compile in another process, so
    /// a call that returns at once has not compiled yet.
    async fn once(&self, gpu: &Gpu) -> Result<(Pipelines, Vec<Step>), BackendError> {
        let ProgramSource { texts, stages, .. } = self;
        let began = gpu.now();
        let mut modules = Vec::new();
        for text in texts {
            modules.push(judged(gpu, text, || module(&gpu.device, text, self.checks_of(text))).await?);
        }
        let parsed = gpu.now();
        let mut made = HashMap::new();
        for (i, text) in texts.iter().enumerate() {
            let mut entries = BTreeMap::new();
            for entry in stages.iter().flatten().filter(|entry| entry.text == i) {
                entries.entry(&*entry.name).or_insert(entry);
            }
            let checks = self.checks_of(text);
            let device = &gpu.device;
            let one = |name: &str, entry: &Entry| pipeline(device, &modules[i], name, entry.layout.as_ref(), checks);
            let make = || entries.into_iter().map(|(name, entry)| ((i, name), one(name, entry))).collect::<Vec<_>>();
            // All pipelines of a source at once: a browser compiles them in parallel.
            made.extend(judged(gpu, text, make).await?);
        }
        let of_stage = |entry: &Option<Entry>| entry.as_ref().map(|entry| made[&(entry.text, &*entry.name)].clone());
        let pipelines = stages.iter().map(of_stage).collect();
        let done = gpu.now();
        let step = |name: &str, time| Step { name: name.to_owned(), time };
        // A translated kernel source is translated anew at every visit.
        let mut steps = Step::summed(texts.iter().flat_map(|text| &text.made));
        steps.extend([step("WGSL module", parsed - began), step("pipeline", done - parsed)]);
        Ok((pipelines, steps))
    }
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
    checks: Checks,
) -> wgpu::ComputePipeline {
    device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: Some(entry),
        layout,
        module,
        entry_point: Some(entry),
        compilation_options: wgpu::PipelineCompilationOptions {
            zero_initialize_workgroup_memory: checks.zeroing,
            ..Default::default()
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
            line.strip_prefix("#import ").map(|name| format!("{}.wgsl", name.trim()))
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
            let (_, compiled) = block_on(source.compile(wgpu.gpu())).expect("it compiles");
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
            let result = block_on(source.compile(wgpu.gpu())).map(|_| ());
            let Err(BackendError::Compile { file, log }) = result else { panic!("{wgsl}: {result:?}") };
            assert_eq!(file, "attention/flash.wgsl");
            assert!(log.contains(said), "{log}");
        }
        assert_eq!(wgpu.gpu().incident(), Ok(()), "nothing is left over for the next case");
    }
}
