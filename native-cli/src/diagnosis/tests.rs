//! Tests of the diagnoses of machines with missing parts.

use parallax_cuda::Arch;

use super::*;

/// Machine without any problem.
fn healthy() -> Facts {
    let library = |name, needed| Library {
        name,
        serves: "nothing goes",
        package: "a-package",
        part_of: "the CUDA toolkit",
        needed,
        found: Ok("/lib/it.so".to_owned()),
    };
    Facts {
        cuda: Ok("a GPU, CUDA 13.0".to_owned()),
        compiles: Some(Ok(())),
        lacking: Vec::new(),
        libraries: vec![library("NVRTC", true), library("CUPTI", false)],
        boards: vec![GpuActivity { name: "a GPU".to_owned(), held: Vec::new(), processes: 0 }],
        counters_closed: Some(false),
        adapters: vec![("a GPU".to_owned(), DeviceKind::Discrete), ("llvmpipe".to_owned(), DeviceKind::Software)],
        wgpu: Ok("a GPU, Vulkan".to_owned()),
        vulkan_loader: Some(true),
        vulkan_drivers: Some(vec!["nvidia_icd.json".to_owned()]),
        gl_missing: Some(Vec::new()),
        closed_nodes: Vec::new(),
        page: Ok("dist".to_owned()),
        browser: Ok("/usr/bin/chromium".into()),
        browser_version: Some("Chromium 140.0.7339.80 built on Debian".to_owned()),
        browser_start: "--enable-unsafe-webgpu".to_owned(),
        browser_family: Family::Chromium,
        in_page: Some(Ok(("a GPU".to_owned(), DeviceKind::Unknown))),
        fonts: Some(true),
        cpu: Ok("a processor".to_owned()),
        governor: Some("performance".to_owned()),
        load: Some((0.1, 8)),
    }
}

#[test]
fn a_healthy_machine_has_nothing_to_mend() {
    let all = diagnose(&healthy());
    assert_eq!(all.iter().map(|d| d.target).collect::<Vec<_>>(), ["cuda", "wgpu", "browser", "cpu", "wasm"]);
    for diagnosis in &all {
        assert_eq!(diagnosis.state, State::Works, "{diagnosis:?}");
        assert!(diagnosis.findings.iter().all(|f| f.grade == Grade::Ok && f.remedy.is_none()), "{diagnosis:?}");
    }
    assert!(is_well(&all, &[]));
}

type Ail = fn(&mut Facts);

/// Driver that returns this code at its start.
fn answered(code: i32) -> Unavailable {
    Unavailable::Driver { doing: "starting", code: Some(code), message: format!("error {code}") }
}

#[test]
fn each_ailment_is_told_with_its_remedy_and_hurts_its_target_only() {
    let cases: [(&str, State, Ail, &str, &str); 30] = [
        ("cuda", State::Missing, |f| f.cuda = Err(Unavailable::NoDriver), "libcuda.so.1", "--gpus all"),
        ("cuda", State::Missing, |f| f.cuda = Err(Unavailable::OldDriver(12, 4)), "CUDA 12.4", "570"),
        (
            "cuda",
            State::Missing,
            |f| f.cuda = Err(Unavailable::NoDevice { wanted: 0, count: 0 }),
            "shows 0 devices",
            "CUDA_VISIBLE_DEVICES",
        ),
        ("cuda", State::Missing, |f| f.cuda = Err(answered(999)), "failed while starting: error 999", "nvidia-smi"),
        ("cuda", State::Missing, |f| f.cuda = Err(Unavailable::Stub), "folder `stubs`", "LD_LIBRARY_PATH"),
        ("cuda", State::Missing, |f| f.cuda = Err(answered(802)), "error 802", "nvidia-fabricmanager"),
        ("cuda", State::Missing, |f| f.cuda = Err(answered(803)), "error 803", "different versions"),
        (
            "cuda",
            State::Missing,
            |f| f.cuda = Err(Unavailable::Lacks(vec!["cuMemAlloc_v2"])),
            "the NVIDIA driver lacks the call cuMemAlloc_v2",
            "reinstall",
        ),
        (
            "cuda",
            State::Missing,
            |f| {
                let (arch, found) = (Arch::new(7, 0), vec!["13.0 (libnvrtc.so.13) knows 7.5 to 12.1".to_owned()]);
                f.cuda = Err(NvrtcError::NoneFits { arch, found, remedy: "install that of CUDA 12" }.into());
            },
            "compute capability 7.0: 13.0 (libnvrtc.so.13) knows 7.5 to 12.1",
            "CUDA 12",
        ),
        (
            "cuda",
            State::Missing,
            |f| f.compiles = Some(Err("failed to open libnvrtc-builtins".to_owned())),
            "no kernel compiles: failed to open libnvrtc-builtins",
            "PARALLAX_NVRTC_DIR",
        ),
        ("cuda", State::Works, |f| f.lacking = vec!["cuGraphLaunch"], "lacks the call cuGraphLaunch", "reinstall"),
        (
            "cuda",
            State::Missing,
            |f| f.libraries[0].found = Err("no libnvrtc in /lib".to_owned()),
            "no NVRTC, without which nothing goes (no libnvrtc in /lib)",
            "pip install a-package",
        ),
        ("cuda", State::Works, |f| f.libraries[1].found = Err("gone".to_owned()), "no CUPTI", "pip install a-package"),
        ("cuda", State::Works, |f| f.counters_closed = Some(true), "counters", "NVreg_RestrictProfilingToAdminUsers=0"),
        (
            "cuda",
            State::Works,
            |f| f.boards[0].held = vec!["hw thermal slowdown".to_owned()],
            "throttled at this moment: hw thermal slowdown",
            "cooled",
        ),
        ("cuda", State::Works, |f| f.boards[0].processes = 2, "2 other process(es) compute on a GPU", "end them"),
        (
            "wgpu",
            State::Missing,
            |f| (f.adapters, f.wgpu, f.vulkan_loader) = (Vec::new(), Err("none".to_owned()), Some(false)),
            "no Vulkan loader",
            "libvulkan1",
        ),
        (
            "wgpu",
            State::Missing,
            |f| (f.adapters, f.wgpu, f.vulkan_drivers) = (Vec::new(), Err("none".to_owned()), Some(Vec::new())),
            "the Vulkan loader has no driver",
            "mesa-vulkan-drivers",
        ),
        (
            "wgpu",
            State::Missing,
            |f| (f.adapters, f.wgpu) = (Vec::new(), Err("no GPU adapter".to_owned())),
            "no GPU adapter",
            "Vulkan driver",
        ),
        ("wgpu", State::Missing, |f| f.wgpu = Err("no such adapter".to_owned()), "no such adapter", "--device"),
        (
            "wgpu",
            State::Works,
            |f| f.gl_missing = Some(vec!["libEGL.so.1", "libX11.so.6"]),
            "NVIDIA's Vulkan driver needs libEGL.so.1, libX11.so.6",
            "libegl1",
        ),
        ("wgpu", State::Emulated, |f| drop(f.adapters.remove(0)), "no adapter is a GPU", "Vulkan driver"),
        ("wgpu", State::Works, |f| f.closed_nodes = vec!["/dev/dri/renderD128".into()], "renderD128", "usermod"),
        ("page", State::Missing, |f| f.page = Err("no page in dist".to_owned()), "no page in dist", "./x page"),
        ("page", State::Missing, |f| f.browser = Err("no browser".to_owned()), "no browser", "--browser PATH"),
        (
            "browser",
            State::Missing,
            |f| f.browser_version = Some("Chromium 112.0.1 built on Debian 12".to_owned()),
            "Chromium 112.0.1 built on Debian 12; WebGPU came with 113",
            "update",
        ),
        (
            "browser",
            State::Missing,
            |f| f.in_page = Some(Err("it offers none".to_owned())),
            "no WebGPU in the page: it offers none",
            "chrome://gpu",
        ),
        (
            "browser",
            State::Emulated,
            |f| f.in_page = Some(Ok(("SwiftShader".to_owned(), DeviceKind::Software))),
            "emulates",
            "--enable-features=Vulkan",
        ),
        ("browser", State::Works, |f| f.fonts = Some(false), "no font", "fonts-dejavu-core"),
        ("cpu", State::Works, |f| f.governor = Some("powersave".to_owned()), "`powersave`", "cpupower"),
    ];
    for (target, state, ail, what, remedy) in cases {
        let mut facts = healthy();
        ail(&mut facts);
        for Diagnosis { target: of, state: got, findings } in diagnose(&facts) {
            let told: Vec<_> = findings.iter().filter(|f| f.grade != Grade::Ok).collect();
            // The page concerns two targets.
            if of != target && !(target == "page" && ["browser", "wasm"].contains(&of)) {
                assert!(told.is_empty(), "{what} told at {of}: {told:?}");
                continue;
            }
            assert_eq!(got, state, "{what}");
            assert_eq!(told.len(), 1, "{what}: {told:?}");
            assert!(told[0].what.contains(what), "{what}: {told:?}");
            assert!(told[0].remedy.as_deref().is_some_and(|said| said.contains(remedy)), "{remedy}: {told:?}");
        }
    }
}

#[test]
fn a_card_that_only_the_loader_misses_has_its_libraries_named() {
    let lacks = |missing: &[&'static str]| {
        let (adapters, wgpu) = (Vec::new(), Err("no GPU adapter".to_owned()));
        let facts = Facts { adapters, wgpu, gl_missing: Some(missing.to_vec()), ..healthy() };
        let Diagnosis { state, findings, .. } = diagnose(&facts).remove(1);
        assert_eq!(state, State::Missing);
        findings.last().and_then(|finding| finding.remedy.clone()).expect("a remedy")
    };
    assert!(lacks(&["libGL.so.1"]).contains("libgl1"));
    assert!(lacks(&NVIDIA_GL).contains("NVIDIA_DRIVER_CAPABILITIES=all"));
}

#[test]
fn a_busy_machine_is_told_against_its_processors() {
    let notes = |load| {
        let facts = Facts { load: Some((load, 8)), ..healthy() };
        diagnose(&facts)[3].findings.iter().filter(|f| f.grade == Grade::Note).count()
    };
    assert_eq!((notes(1.9), notes(2.1)), (0, 1));
}

#[test]
fn an_emulation_is_no_gpu_unless_it_was_asked_for() {
    let emulated = Facts {
        cuda: Err(Unavailable::NoDriver),
        adapters: vec![("llvmpipe".to_owned(), DeviceKind::Software)],
        in_page: Some(Ok(("SwiftShader".to_owned(), DeviceKind::Software))),
        ..healthy()
    };
    let all = diagnose(&emulated);
    let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert!(!is_well(&all, &[]));
    assert!(is_well(&all, &named(&["wgpu", "cpu"])));
    assert!(!is_well(&all, &named(&["wgpu", "cuda"])));
}
