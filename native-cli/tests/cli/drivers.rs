//! Drivers as they are in the field: of another version, in pieces, beside a stub. The libraries are made of C by the compiler that links the
//! program, too.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::{WIDE, folder, parallax_with};

const DRIVER: &str = include_str!("drivers/driver.c");
const COMPILER: &str = include_str!("drivers/compiler.c");
/// As the toolkit has it for linkers.
const STUB: &str = "int cuInit(unsigned flags) { return 34; } int cuDriverGetVersion(int *v) { *v = 13000; return 0; }";

/// Architectures that NVRTC of a major version knows, in short.
const KNOWN: [(u32, &str); 2] = [(12, "50,70,80,90"), (13, "75,80,90,100")];

/// A machine with some of NVIDIA's libraries, each in a folder of its own.
struct Machine {
    root: tempfile::TempDir,
    path: Vec<PathBuf>,
}

impl Machine {
    fn new() -> Machine {
        Machine { root: folder(), path: Vec::new() }
    }

    /// A library behind the others on the loader's path.
    fn with(mut self, name: &str, text: &str, flags: &[&str]) -> Machine {
        let folder = self.root.path().join(format!("lib{}", self.path.len()));
        std::fs::create_dir(&folder).expect("writable");
        let (source, file) = (folder.join("text.c"), folder.join(name));
        std::fs::write(&source, text).expect("writable");
        let mut compiler = Command::new("cc");
        compiler.args(["-w", "-shared", "-fPIC"]).args(flags).arg("-o").args([&file, &source]);
        assert!(compiler.status().expect("a C compiler").success());
        self.path.push(folder);
        self
    }

    fn driver(self) -> Machine {
        self.with("libcuda.so.1", DRIVER, &[])
    }

    fn compiler(self, major: u32) -> Machine {
        let archs = KNOWN.iter().find(|(known, _)| *known == major).expect("one of the two").1;
        let flags = [format!("-DMAJOR={major}"), format!("-DARCHS={archs}")];
        self.with(&format!("libnvrtc.so.{major}"), COMPILER, &[&flags[0], &flags[1]])
    }

    /// The program on it, with the answers of the driver.
    fn run(&self, args: &[&str], answers: &[(&str, &str)]) -> Output {
        let path = std::env::join_paths(&self.path).expect("no colons");
        let path = path.into_string().expect("UTF-8");
        // No Vulkan driver, as an emulated GPU has no part in this, and no compiler but the machine's own.
        let usual = [
            WIDE,
            ("LD_LIBRARY_PATH", path.as_str()),
            ("PARALLAX_CACHE", ""),
            ("PARALLAX_NVRTC_DIR", ""),
            ("VK_DRIVER_FILES", "/dev/null"),
        ];
        parallax_with(self.root.path(), args, &[&usual, answers].concat())
    }

    /// Its output on both streams; it neither panicked nor died of a signal.
    fn says(&self, args: &[&str], answers: &[(&str, &str)]) -> String {
        let output = self.run(args, answers);
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).expect("UTF-8")).concat();
        assert!(matches!(output.status.code(), Some(0..=2)), "{args:?} {answers:?}: {:?}: {said}", output.status);
        said
    }

    /// The run that was written.
    fn written(&self) -> Value {
        let names =
            std::fs::read_dir(self.root.path().join("out")).expect("written").map(|entry| entry.expect("read").path());
        let file = names.into_iter().find(|path| is_run(path)).expect("a run");
        serde_json::from_slice(&std::fs::read(file).expect("readable")).expect("JSON")
    }
}

fn is_run(path: &Path) -> bool {
    let name = path.to_string_lossy();
    name.ends_with(".json") && !name.ends_with(".trace.json")
}

const COPY: [&str; 9] =
    ["run", "--target", "cuda", "--case", "copy/fwd/n65536/f32/scalar", "--ceilings", "off", "--out", "out"];

/// Each is named by its number, and the other targets go on.
#[test]
fn a_code_without_a_name_makes_the_target_unavailable() {
    let machine = Machine::new().driver().compiler(12);
    let starting = ["47", "227", "917", "919", "-3", "2147483647"].map(|code| ("DRIVER_START", code, "starting"));
    let later = [("DRIVER_OPEN", "919", "opening the device"), ("DRIVER_MEMORY", "919", "testing the clock")];
    for (answer, code, doing) in starting.into_iter().chain(later) {
        let said = machine.says(&["devices"], &[(answer, code)]);
        let named = said.contains(&format!("failed while {doing}")) && said.contains(&format!("error {code}"));
        assert!(named && said.contains("cpu"), "{answer}={code}: {said}");
    }
}

#[test]
fn a_code_without_a_name_is_an_error_of_the_case() {
    let machine = Machine::new().driver().compiler(12);
    let output = machine.run(&COPY, &[("DRIVER_LOAD", "919")]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let outcome = machine.written()["records"][0].to_string();
    assert!(outcome.contains("error 919, for which the driver has no name"), "{outcome}");
}

#[test]
fn the_calls_that_a_driver_lacks_are_named() {
    let machine = Machine::new().with("libcuda.so.1", DRIVER, &["-DWITHOUT_MEMORY"]).compiler(12);
    let said = machine.says(&["devices"], &[]);
    assert!(
        said.contains("the NVIDIA driver lacks the calls cuMemAlloc_v2, cuMemFree_v2") && said.contains("cpu"),
        "{said}"
    );
    let old = machine.says(&["devices"], &[("DRIVER_CUDA", "12040")]);
    assert!(old.contains("supports CUDA 12.4, at least 12.8 is needed"), "it lacks calls because it is old: {old}");
    let empty = Machine::new().with("libcuda.so.1", "int nothing;", &[]).says(&["devices"], &[("DRIVER_START", "804")]);
    assert!(empty.contains("the NVIDIA driver lacks the calls cuInit, "), "{empty}");
    // This one opens, and has no call that launches a kernel.
    let doctor = Machine::new().driver().compiler(12).says(&["doctor", "--target", "cuda"], &[]);
    assert!(
        doctor.contains("cuda: works") && doctor.contains("the driver lacks the calls cuMemAllocAsync, "),
        "{doctor}"
    );
}

#[test]
fn the_driver_is_taken_before_the_toolkits_stub() {
    for name in ["libcuda.so", "libcuda.so.1"] {
        let both = Machine::new().with(name, STUB, &[]).driver().compiler(12);
        let said = both.says(&["devices"], &[]);
        assert!(said.contains("Imaginary GPU") && !said.contains("error 34"), "{name}: {said}");
        if Path::new("/dev/nvidiactl").exists() {
            // The driver of this machine is found behind the stub.
            continue;
        }
        let stub = Machine::new().with(name, STUB, &[]);
        let said = stub.says(&["doctor", "--target", "cuda"], &[]);
        assert!(
            said.contains("stub (folder `stubs`)") && said.contains("remove the folder `stubs` from LD_LIBRARY_PATH"),
            "{name}: {said}"
        );
    }
}

#[test]
fn the_compiler_that_knows_the_card_is_chosen() {
    let machine = Machine::new().driver().compiler(13).compiler(12);
    for (capability, cuda, chosen) in
        [("70", "13000", "12.8"), ("80", "12080", "12.8"), ("80", "13080", "13.8"), ("100", "13080", "13.8")]
    {
        let answers = [("DRIVER_CAPABILITY", capability), ("DRIVER_CUDA", cuda)];
        let said = machine.says(&["doctor", "--target", "cuda"], &answers);
        assert!(said.contains("cuda: works") && said.contains(&format!("NVRTC {chosen}, ")), "{answers:?}: {said}");
    }
    // None serves: too old a card, too old a driver, too new a card.
    for (capability, cuda, why) in [
        ("70", "13080", "libnvrtc.so.13) knows 7.5 to 10.0"),
        ("80", "12080", "libnvrtc.so.13) is newer than the driver's CUDA 12.8"),
        ("121", "13080", "libnvrtc.so.13) knows 7.5 to 10.0"),
    ] {
        let answers = [("DRIVER_CAPABILITY", capability), ("DRIVER_CUDA", cuda)];
        let said = Machine::new().driver().compiler(13).says(&["doctor", "--target", "cuda"], &answers);
        assert!(said.contains("cuda: does not run") && said.contains(why), "{answers:?}: {said}");
    }
}

#[test]
fn a_line_and_the_run_say_why_no_gpu_was_measured() {
    let machine = Machine::new().driver().compiler(12);
    let args = ["run", "--case", "copy/fwd/n4096/f32/host", "--budget", "0.1", "--ceilings", "off", "--out", "out"];
    let said = machine.says(&args, &[("DRIVER_OPEN", "46")]);
    let reason = "cuda is there and does not open: the CUDA driver failed while opening the device: error 46";
    assert_eq!(said.matches(reason).count(), 1, "{said}");
    assert!(said.contains("; measuring cpu\n"), "{said}");
    let run = machine.written();
    assert_eq!(run["target"], "cpu");
    assert!(
        run["environment"]["passed_over"].as_str().is_some_and(|reason_there| reason_there.starts_with(reason)),
        "{run}"
    );
    // The processor by its name stands for nothing else.
    let machine = Machine::new().driver().compiler(12);
    let said = machine.says(&[&args[..], &["--target", "cpu"]].concat(), &[("DRIVER_OPEN", "46")]);
    assert!(!said.contains("is there") && machine.written()["environment"]["passed_over"].is_null(), "{said}");
}

#[test]
fn doctor_names_what_nvidias_vulkan_driver_stands_on() {
    if Path::new("/dev/nvidiactl").exists() {
        // A machine that has it.
        return;
    }
    let said = Machine::new().driver().compiler(12).says(&["doctor", "--target", "wgpu"], &[]);
    assert!(said.contains("NVIDIA's Vulkan driver needs libGLX_nvidia.so.0"), "{said}");
    assert!(said.contains("NVIDIA_DRIVER_CAPABILITIES=all"), "{said}");
}

#[test]
fn slices_of_a_card_are_devices_of_their_own() {
    let machine = Machine::new().driver().compiler(12);
    let answers = [("DRIVER_NAMES", "NVIDIA A100-SXM4-40GB MIG 1g.5gb;NVIDIA A100-SXM4-40GB MIG 2g.10gb")];
    let [first, second] = ["a0", "a1"].map(|byte| {
        let part = |count| byte.repeat(count);
        format!("MIG-{}-{}-{}-{}-{}", part(4), part(2), part(2), part(2), part(6))
    });
    let said = machine.says(&["devices"], &answers);
    assert!(said.contains(&format!("1g.5gb (GPU with its own memory, 0000:65:00.0, {first})")), "{said}");
    assert!(said.contains(&format!("2g.10gb (GPU with its own memory, 0000:65:00.0, {second})")), "{said}");
    machine.says(&[&COPY[..], &["--device", &second]].concat(), &answers);
    let run = machine.written();
    assert_eq!(run["devices"][0]["identity"]["uuid"], second.as_str(), "{run}");
    let said = machine.says(&[&COPY[..], &["--device", "0000:65:00.0"]].concat(), &answers);
    assert!(said.contains("several devices") && said.contains(&first) && said.contains(&second), "{said}");
}
