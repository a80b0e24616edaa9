//! The Rust form and the kernel texts say the same thing: names, bindings, access, workgroup sizes and memory.

use std::collections::BTreeSet;

use naga::valid::{Capabilities, GlobalUse, ValidationFlags, Validator};
use parallax_core::suite;
use parallax_core::suite::{Access, Caps, Case, Dialect, How, Stage};
use parallax_core::testing::mock::caps;
use parallax_shaders::text::{assemble, names};
use parallax_tests::{awkward_problems, kernel_cases};

/// A device with room for everything, so that no text escapes the test.
fn roomy() -> Caps {
    Caps { shared_bytes: 49_152, max_invocations: 1024, subgroup: Some((32, 32)), coop_matrix: true, ..caps() }
}

#[test]
fn every_wgsl_text_agrees_with_its_form() {
    let cases = kernel_cases(awkward_problems(&roomy()), &roomy());
    assert!(cases.len() > 50, "{}", cases.len());
    cases.iter().for_each(reflect);
}

fn reflect(case: &Case) {
    let program = case.program(&roomy()).expect("a kernel variant");
    let text = assemble(case, &program).unwrap_or_else(|| panic!("{case} has no WGSL text"));
    let module =
        naga::front::wgsl::parse_str(&text.wgsl).unwrap_or_else(|e| panic!("{case}: {}", e.emit_to_string(&text.wgsl)));
    let info = Validator::new(ValidationFlags::all(), Capabilities::all())
        .validate(&module)
        .unwrap_or_else(|e| panic!("{case}: {}", e.emit_to_string(&text.wgsl)));
    let entries: BTreeSet<&str> = module.entry_points.iter().map(|e| e.name.as_str()).collect();
    let stages: BTreeSet<&str> = program.stages.iter().map(|s| s.entry).collect();
    assert_eq!(entries, stages, "{case}: entry points of {} and stages of the form", text.file);
    for (i, entry) in module.entry_points.iter().enumerate() {
        let stage = program.stages.iter().find(|s| s.entry == entry.name).expect("just compared");
        let at = format!("{case}: {}", stage.entry);
        assert_eq!(entry.workgroup_size, stage.workgroup, "{at}: workgroup size");
        translates(&at, entry, &module, &info);
        bindings(&at, case, stage, &module, info.get_entry_point(i));
    }
}

/// The text must also survive the way to Vulkan, which not every device here can show: one kernel needs matrix units.
fn translates(at: &str, entry: &naga::EntryPoint, module: &naga::Module, info: &naga::valid::ModuleInfo) {
    use naga::back::spv;
    let options = spv::Options { lang_version: (1, 5), ..Default::default() };
    let pipeline = spv::PipelineOptions { shader_stage: entry.stage, entry_point: entry.name.clone() };
    let words = spv::write_vec(module, info, &options, Some(&pipeline)).unwrap_or_else(|e| panic!("{at}: {e}"));
    assert_eq!(words.first(), Some(&0x0723_0203), "{at}: SPIR-V begins with its magic number");
}

fn bindings(at: &str, case: &Case, stage: &Stage, module: &naga::Module, info: &naga::valid::FunctionInfo) {
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
                let position = buffers.iter().position(|b| b.name == name);
                assert_eq!(position, Some(binding.binding as usize), "{at}: `{name}` must have its buffer's position");
                assert_eq!(binding.group, 0, "{at}: `{name}`");
                let declared = stage.uses.iter().find(|(n, _)| *n == name);
                let (_, declared) = declared.unwrap_or_else(|| panic!("{at}: uses `{name}`, the form does not say so"));
                let writable = access.contains(naga::StorageAccess::STORE);
                assert_eq!(writable, *declared == Access::Write, "{at}: access of `{name}`");
                assert!(writable || !usage.contains(GlobalUse::WRITE), "{at}: writes `{name}`");
                used.insert(name);
            }
            other => panic!("{at}: `{name}` lies in {other:?}"),
        }
    }
    let declared: BTreeSet<&str> = stage.uses.iter().map(|(name, _)| *name).collect();
    assert_eq!(used, declared, "{at}: buffers used");
    assert_eq!(workgroup_bytes, stage.shared_bytes, "{at}: bytes of workgroup memory");
}

#[test]
fn every_workload_has_kernels_in_both_dialects() {
    for workload in suite::all() {
        assert!(!workload.about.is_empty() && !workload.forms.is_empty(), "{}", workload.name);
    }
    for (workload, form) in suite::all().iter().flat_map(|w| w.forms.iter().map(move |f| (w, f))) {
        let at = format!("{}/{}", workload.name, form.direction.name());
        let (dialects, why) = form.only.unwrap_or((&[Dialect::Wgsl, Dialect::Cuda], "all"));
        assert!(!dialects.is_empty() && !why.is_empty(), "{at}");
        for dialect in dialects {
            let has = |v: &suite::Variant| match v.how {
                How::Kernel { dialects, .. } => dialects.contains(dialect),
                How::Select(_) => false,
            };
            assert!(form.variants.iter().any(has), "{at} has no variant in {dialect:?}");
        }
        assert!(!form.awkward.is_empty(), "{at}");
        for variant in form.fallback {
            assert!(form.variant(variant).is_some(), "{at}: fallback {variant}");
        }
    }
}

#[test]
fn every_kernel_text_belongs_to_a_workload() {
    let cuda: Vec<&str> = parallax_cuda::text::names().collect();
    for name in names().chain(cuda) {
        let (stem, variant) = name.split_once('/').unwrap_or((name, "common"));
        let workload = suite::find(stem).unwrap_or_else(|| panic!("kernels/{name} belongs to no workload"));
        assert!(
            variant == "common" || workload.forms.iter().any(|f| f.variant(variant).is_some()),
            "kernels/{name} belongs to no variant"
        );
    }
}

#[test]
fn presets_are_canonical_and_full_of_legal_shapes() {
    use parallax_core::suite::{Preset, Problem};
    for (workload, form) in suite::all().iter().flat_map(|w| w.forms.iter().map(move |f| (w, f))) {
        for (_, preset) in Preset::ALL {
            for shape in form.preset(preset) {
                let problem = Problem::new(workload, form.direction, shape, workload.dtypes[0]);
                let problem = problem.unwrap_or_else(|e| panic!("{}: {e}", workload.name));
                // `nchw` and `unsorted` are defaults that print, so the text is what it was.
                assert_eq!(problem.shape.to_string(), *shape, "{}", workload.name);
            }
        }
    }
}
