//! The Rust form and the kernel sources agree: names, bindings, access, workgroup sizes and memory.

use std::collections::BTreeSet;

use naga::valid::{Capabilities, GlobalUse, ValidationFlags, Validator};
use parallax_ir::device::{BackendError, settle};
use parallax_ir::{
    Access, Authoring, Case, Kernel, KernelSources, Problem, Role, Stage, TextError, VariantKind, lines_for,
};
use parallax_schema::case::{DType, Preset, Storage};
use parallax_schema::device::{Caps, Dialect, MatrixShape};

#[cfg(feature = "cube")]
use parallax_schema::case::of_cubecl;
#[cfg(feature = "cube")]
use parallax_schema::device::CudaCaps;
use parallax_schema::testing::{HOPPER, caps, hopper};
use parallax_shaders::source::{Form, KernelSource, WrittenLoops, assemble, assemble_all};
use parallax_tests::{awkward_problems, kernel_cases, tuned_cases, wgsl_texts};

/// A device with room for everything, so that no kernel source escapes the test.
fn roomy() -> Caps {
    Caps {
        shared_bytes: 49_152,
        max_invocations: 1024,
        subgroup: Some((32, 32)),
        matrices: vec![MatrixShape::F16_IN_F32],
        ..caps()
    }
}

#[test]
fn every_wgsl_text_agrees_with_its_form() {
    let cases = kernel_cases(awkward_problems(&roomy()), &roomy());
    assert!(cases.len() > 50, "{}", cases.len());
    cases.iter().for_each(|case| reflect(case, &roomy()));
}

/// Checks the sources that CubeCL makes in the same way: bindings, access, workgroup sizes and memory.
#[cfg(feature = "cube")]
#[test]
fn every_text_of_cubecl_agrees_with_its_form() {
    let caps = Caps { cube: true, ..roomy() };
    let mut cases = kernel_cases(awkward_problems(&caps), &caps);
    cases.retain(|case| of_cubecl(case.variant));
    assert!(cases.len() > 100, "{}", cases.len());
    cases.iter().for_each(|case| reflect(case, &caps));
}

/// NVRTC compiles them too. Without the toolkit's headers, only those of f32, which include none.
#[cfg(feature = "cube")]
#[test]
fn every_text_of_cubecl_compiles_for_cuda() {
    let nvrtc = parallax_cuda::nvrtc::get().expect("NVRTC, which needs no GPU");
    let half_headers = nvrtc.headers().is_some();
    let caps = Caps { cube: true, cuda: Some(CudaCaps { half_headers, ..HOPPER }), ..hopper() };
    let texts = parallax_cuda::source::embedded().translated_by(parallax_cube::translator());
    let mut compiled = 0;
    for case in kernel_cases(awkward_problems(&caps), &caps).iter().filter(|case| of_cubecl(case.variant)) {
        let program = case.program(&caps).expect("a kernel variant");
        let settled = settle(&texts, program, case.problem.dtype, Dialect::Cuda);
        let (program, _) = settled.unwrap_or_else(|e| panic!("{case}: {e}"));
        let assembled = parallax_cuda::source::assemble_all(&texts, &program, case.problem.dtype);
        let (texts, _) = assembled.unwrap_or_else(|e| panic!("{case}: {e}"));
        for text in texts {
            let result = parallax_cuda::check_source(&text, parallax_cuda::Arch::new(9, 0));
            assert!(result.is_ok(), "{case}: {:?}\n{}", result.err(), text.source);
            let parameters =
                format!("void __launch_bounds__({})", program.stages[0].kernel_launch().map_or(0, threads));
            assert!(program.stages.len() > 1 || text.source.contains(&parameters), "{case}: {}", text.source);
            compiled += 1;
        }
    }
    assert!(compiled > 50, "{compiled}");
}

#[cfg(feature = "cube")]
fn threads(kernel: &Kernel) -> u32 {
    kernel.workgroup.iter().product()
}

#[test]
fn every_value_of_what_is_left_open_agrees_with_its_form() {
    let mut cases = tuned_cases(&roomy(), DType::F32);
    // Matrix units take f16 alone.
    let on_matrix_units = |(_, case): &(Caps, Case)| case.variant.ends_with("coopmat");
    cases.extend(tuned_cases(&roomy(), DType::F16).into_iter().filter(on_matrix_units));
    assert!(cases.len() > 200, "{}", cases.len());
    cases.iter().for_each(|(caps, case)| reflect(case, caps));
}

fn reflect(case: &Case, caps: &Caps) {
    let (program, first) = case.whole_program(caps).expect("a kernel variant");
    let texts = wgsl_texts();
    let program = match settle(&texts, program, case.problem.dtype, Dialect::Wgsl) {
        Ok((program, _)) => program,
        // A launcher may have no kernel.
        Err(BackendError::Refused(_)) => return,
        Err(error) => panic!("{case}: {error}"),
    };
    let (setup, execution) = program.stages.split_at(first);
    [setup, execution].iter().for_each(|stages| scratch_is_written_first(case, stages));
    // The sources of both types have the same loops.
    let all = [WrittenLoops::None, WrittenLoops::Short, WrittenLoops::Long];
    let forms = if case.problem.dtype == DType::F32 { &all[..] } else { &all[..1] };
    for loops in forms.iter().copied() {
        let form = Form { loops, ..Form::HERE };
        let assembled = assemble_all(&texts, &program, case.problem.dtype, form);
        let (texts, places) = assembled.unwrap_or_else(|e| panic!("{case}: {e}"));
        for (i, text) in texts.iter().enumerate() {
            let of_text = program.stages.iter().zip(&places).filter(|(_, place)| **place == Some(i));
            reflect_text(case, text, &of_text.map(|(stage, _)| stage).collect::<Vec<_>>());
        }
    }
}

/// Scratch shares memory with buffers needed earlier or later, so it carries no data between executions.
fn scratch_is_written_first(case: &Case, stages: &[Stage]) {
    for spec in case.problem.buffers().iter().filter(|spec| matches!(spec.role, Role::Scratch)) {
        let first = stages.iter().find_map(|stage| stage.args.iter().find(|arg| arg.buffer == spec.name));
        assert!(
            first.is_none_or(|arg| arg.access == Access::Write),
            "{case}: `{}` is read before it is written",
            spec.name
        );
    }
}

/// Compares a source with the stages whose kernels come from it.
fn reflect_text(case: &Case, text: &KernelSource, stages: &[&Stage]) {
    let module =
        naga::front::wgsl::parse_str(&text.wgsl).unwrap_or_else(|e| panic!("{case}: {}", e.emit_to_string(&text.wgsl)));
    let info = Validator::new(ValidationFlags::all(), Capabilities::all())
        .validate(&module)
        .unwrap_or_else(|e| panic!("{case}: {}", e.emit_to_string(&text.wgsl)));
    for stage in stages {
        let kernel = stage.kernel_launch().expect("it has a text");
        let at = format!("{case}: {} ({} of {})", stage.label, kernel.entry, text.file);
        let entry = module.entry_points.iter().position(|e| e.name == kernel.entry);
        let i = entry.unwrap_or_else(|| panic!("{at}: no such entry point"));
        let entry = &module.entry_points[i];
        assert_eq!(entry.workgroup_size, kernel.workgroup, "{at}: workgroup size");
        translates(&at, entry, &module, &info);
        bindings(&at, case, stage, &module, info.get_entry_point(i));
    }
}

/// Checks the translation to Vulkan, which not every device here can show: one kernel needs matrix units.
fn translates(at: &str, entry: &naga::EntryPoint, module: &naga::Module, info: &naga::valid::ModuleInfo) {
    use naga::back::spv;
    let options = spv::Options { lang_version: (1, 5), ..Default::default() };
    let pipeline = spv::PipelineOptions { shader_stage: entry.stage, entry_point: entry.name.clone() };
    let words = spv::write_vec(module, info, &options, Some(&pipeline)).unwrap_or_else(|e| panic!("{at}: {e}"));
    assert_eq!(words.first(), Some(&0x0723_0203), "{at}: SPIR-V begins with its magic number");
}

fn bindings(at: &str, case: &Case, stage: &Stage, module: &naga::Module, info: &naga::valid::FunctionInfo) {
    let kernel = stage.kernel_launch().expect("it has a text");
    let buffers = case.problem.buffers();
    let mut used = BTreeSet::new();
    let mut workgroup_bytes = 0;
    for (handle, global) in module.global_variables.iter() {
        let usage = info[handle];
        if usage.is_empty() {
            continue;
        }
        let name = global.name.as_deref().expect("globals have names");
        match global.space {
            naga::AddressSpace::WorkGroup => workgroup_bytes += module.types[global.ty].inner.size(module.to_ctx()),
            naga::AddressSpace::Storage { access } => {
                let binding = global.binding.expect("storage is bound");
                assert_eq!(binding.group, 0, "{at}: `{name}`");
                let position = match kernel.authoring {
                    Authoring::Handwritten => stage.args.iter().position(|arg| arg.parameter == name),
                    // CubeCL gives buffers names of its own.
                    Authoring::CubeCl | Authoring::CubeK => {
                        Some(binding.binding as usize).filter(|at| *at < stage.args.len())
                    }
                };
                let position = position.unwrap_or_else(|| panic!("{at}: uses `{name}`, the form does not say so"));
                assert_eq!(position, binding.binding as usize, "{at}: `{name}` must have its argument's position");
                let arg = &stage.args[position];
                let name = arg.parameter;
                let writable = access.contains(naga::StorageAccess::STORE);
                assert_eq!(writable, arg.access == Access::Write, "{at}: access of `{name}`");
                let spec = buffers.iter().find(|b| b.name == arg.buffer);
                let spec = spec.unwrap_or_else(|| panic!("{at}: `{}` is no buffer of the workload", arg.buffer));
                let scalar = scalar(&module.types[global.ty].inner, module);
                // Kernels may read any elements as 32-bit words, and numbers by their bits.
                let words = scalar == (naga::ScalarKind::Uint, 4);
                let storage = spec.elem.storage(case.problem.dtype);
                assert!(words || scalar == told(storage), "{at}: `{name}` holds {storage:?}, the text says {scalar:?}");
                assert!(writable || !usage.contains(GlobalUse::WRITE), "{at}: writes `{name}`");
                used.insert(name);
            }
            // Private to a thread, without a binding.
            naga::AddressSpace::Private => {}
            other => panic!("{at}: `{name}` lies in {other:?}"),
        }
    }
    let declared: BTreeSet<&str> = stage.args.iter().map(|arg| arg.parameter).collect();
    assert_eq!(used, declared, "{at}: buffers used");
    assert_eq!(workgroup_bytes, kernel.shared_bytes, "{at}: bytes of workgroup memory");
}

/// Kind and width of the scalars of an array, or of a vector or structure in it.
fn scalar(inner: &naga::TypeInner, module: &naga::Module) -> (naga::ScalarKind, u8) {
    match inner {
        naga::TypeInner::Array { base, .. } => scalar(&module.types[*base].inner, module),
        naga::TypeInner::Scalar(s) | naga::TypeInner::Vector { scalar: s, .. } | naga::TypeInner::Atomic(s) => {
            (s.kind, s.width)
        }
        // Vectors of one kind, side by side.
        naga::TypeInner::Struct { members, .. } => {
            let of: Vec<_> = members.iter().map(|member| scalar(&module.types[member.ty].inner, module)).collect();
            assert!(of.iter().all(|one| *one == of[0]), "storage of {of:?}");
            of[0]
        }
        other => panic!("storage of {other:?}"),
    }
}

/// Kind and width of a buffer's elements.
fn told(storage: Storage) -> (naga::ScalarKind, u8) {
    let kind = if storage == Storage::U32 { naga::ScalarKind::Uint } else { naga::ScalarKind::Float };
    (kind, storage.bytes() as u8)
}

#[test]
fn every_workload_has_kernels_in_both_dialects() {
    for workload in parallax_workloads::all() {
        assert!(!workload.about.is_empty() && !workload.forms.is_empty(), "{}", workload.name);
    }
    for (workload, form) in parallax_workloads::all().iter().flat_map(|w| w.forms.iter().map(move |f| (w, f))) {
        let at = format!("{}/{}", workload.name, form.direction.name());
        let (dialects, why) = form.only.unwrap_or((&[Dialect::Wgsl, Dialect::Cuda], "all"));
        assert!(!dialects.is_empty() && !why.is_empty(), "{at}");
        for dialect in dialects {
            let has = |v: &parallax_ir::Variant| match v.how {
                VariantKind::Kernel { dialects, .. } => dialects.contains(dialect),
                VariantKind::Select(_) => false,
            };
            assert!(form.variants.iter().any(has), "{at} has no variant in {dialect:?}");
        }
        assert!(!form.awkward.is_empty(), "{at}");
        for variant in form.fallback {
            assert!(form.variant(variant).is_some(), "{at}: fallback {variant}");
        }
    }
}

/// The WGSL reflection checks the same of WGSL kernels. Composites of whole layers have heads for warpgroups in presets alone.
#[test]
fn every_argument_for_cuda_is_a_buffer_of_its_workload() {
    let caps = hopper();
    let mut problems = awkward_problems(&caps);
    for (workload, form) in parallax_workloads::all().iter().flat_map(|w| w.forms.iter().map(move |f| (w, f))) {
        for (shape, dtype) in form.preset(Preset::Full).iter().flat_map(|s| workload.dtypes.iter().map(move |d| (s, d)))
        {
            problems.push(Problem::new(workload, form.direction, shape, *dtype).expect("shapes of presets are legal"));
        }
    }
    let cases = kernel_cases(problems, &caps);
    assert!(cases.iter().any(|case| case.to_string().starts_with("encoder_layer/fwd+bwd") && case.variant == "wgmma"));
    for case in cases {
        let Some((program, _)) = case.whole_program(&caps) else { continue };
        let buffers = case.problem.buffers();
        for (stage, arg) in program.stages.iter().flat_map(|stage| stage.args.iter().map(move |arg| (stage, arg))) {
            let known = buffers.iter().any(|buffer| buffer.name == arg.buffer);
            assert!(known, "{case}: {} uses `{}`", stage.label, arg.buffer);
        }
    }
}

/// Files that the kernels of a target's cases consist of, at awkward shapes.
fn used(caps: &Caps, files: impl Fn(&Kernel, DType) -> BTreeSet<String>) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for case in kernel_cases(awkward_problems(caps), caps) {
        let Some((program, _)) = case.whole_program(caps) else { continue };
        all.extend(program.kernels().flat_map(|kernel| files(kernel, case.problem.dtype)));
    }
    all
}

#[test]
fn every_kernel_text_is_used() {
    // naga has no matrices of bytes. Sources that multiply them are compiled with imitated matrices.
    let both = vec![MatrixShape::F16_IN_F32, MatrixShape::I8_IN_I32];
    let texts = parallax_shaders::source::embedded();
    let wgsl = used(&Caps { matrices: both, ..roomy() }, |kernel, dtype| {
        let text = assemble(&texts, kernel, dtype, Form::HERE);
        let text = text.unwrap_or_else(|e| panic!("{}: {e}", kernel.text));
        text.imports.into_iter().map(|(_, file)| file).chain([text.file]).collect()
    });
    let cuda = Caps {
        dialect: Dialect::Cuda,
        dtypes: parallax_schema::case::DType::ALL.map(|(_, dtype)| dtype).to_vec(),
        compute_capability: Some((9, 0)),
        cuda: Some(HOPPER),
        ..roomy()
    };
    let texts = parallax_cuda::source::embedded();
    let cuda = used(&cuda, |kernel, _| includes(&texts, kernel));
    // Sources of operations that WebGPU has no command for.
    let of_the_backend = ["lib/fill.wgsl", "lib/copy.wgsl"];
    let names = parallax_shaders::source::embedded().names().chain(parallax_cuda::source::embedded().names());
    for name in names.filter(|name| !of_the_backend.contains(name)) {
        assert!(wgsl.contains(name) || cuda.contains(name), "no stage of any workload uses kernels/{name}");
    }
}

/// A kernel's file of CUDA C++ and all of its includes.
fn includes(texts: &KernelSources, kernel: &Kernel) -> BTreeSet<String> {
    let include =
        |line: &str| line.strip_prefix("#include \"").map(|name| name.trim_end_matches('"').trim().to_owned());
    let lines = |_: &str, text| Ok::<_, TextError>(lines_for(text, &kernel.consts));
    let parts = texts.with_imports_of(&format!("{}.cu", kernel.text), &lines, &include);
    let parts = parts.unwrap_or_else(|e| panic!("{e}"));
    parts.into_iter().map(|part| part.file).collect()
}

#[test]
fn presets_are_canonical_and_full_of_legal_shapes() {
    for (workload, form) in parallax_workloads::all().iter().flat_map(|w| w.forms.iter().map(move |f| (w, f))) {
        for (_, preset) in Preset::ALL {
            for shape in form.preset(preset) {
                let problem = Problem::new(workload, form.direction, shape, workload.dtypes[0]);
                let problem = problem.unwrap_or_else(|e| panic!("{}: {e}", workload.name));
                // `nchw` and `unsorted` are printed defaults, so the string is unchanged.
                assert_eq!(problem.shape.to_string(), *shape, "{}", workload.name);
            }
        }
    }
}
