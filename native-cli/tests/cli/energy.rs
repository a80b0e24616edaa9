//! Energy beside times, with a powercap folder of the test.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parallax_schema::record::Run;

use crate::comparing::run_in;
use crate::{TINY, WIDE, folder, parallax, parallax_with};

/// A run with energy of a tiny case on the processor.
const ENERGY: [&str; 10] =
    ["run", "--target", "cpu", "--case", TINY, "--budget", "0.5", "--ceilings", "off", "--energy"];

/// Writes a file in one step, as the kernel's files change.
fn write(file: &Path, text: &str) {
    let new = file.with_extension("new");
    std::fs::write(&new, text).expect("written");
    std::fs::rename(new, file).expect("renamed");
}

/// Makes a package of a powercap folder, and returns the file of its counter.
fn package(folder: &Path) -> std::path::PathBuf {
    let zone = folder.join("intel-rapl:0");
    std::fs::create_dir_all(&zone).expect("made");
    write(&zone.join("name"), "package-0\n");
    write(&zone.join("max_energy_range_uj"), "1000000000\n");
    write(&zone.join("energy_uj"), "999000000\n");
    zone.join("energy_uj")
}

#[test]
fn energy_without_a_readable_counter_is_a_reason() {
    let dir = folder();
    let powercap = dir.path().join("powercap");
    let variables = [WIDE, ("PARALLAX_POWERCAP", powercap.to_str().expect("UTF-8"))];
    let run = || {
        let output = parallax_with(dir.path(), &ENERGY, &variables);
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        text
    };
    let text = run();
    assert!(text.contains("no package of RAPL") && text.contains("1 pass"), "{text}");
    // A counter that stands still.
    package(&powercap);
    let text = run();
    assert!(text.contains("the energy counter stood still") && text.contains("1 pass"), "{text}");
    let plain: Vec<&str> = ENERGY[..9].to_vec();
    let text = String::from_utf8(parallax(dir.path(), &plain).stdout).expect("UTF-8");
    assert!(!text.contains("energy"), "{text}");
}

#[test]
fn energy_follows_a_counter_of_the_processor() {
    let dir = folder();
    let powercap = dir.path().join("powercap");
    let counter = package(&powercap);
    let over = AtomicBool::new(false);
    let variables = [WIDE, ("PARALLAX_POWERCAP", powercap.to_str().expect("UTF-8"))];
    let output = std::thread::scope(|scope| {
        // 100 W, across the end of the counter's range.
        scope.spawn(|| {
            let began = Instant::now();
            while !over.load(Ordering::Relaxed) {
                let spent = (began.elapsed().as_secs_f64() * 100e6) as u64;
                write(&counter, &format!("{}\n", (999_000_000 + spent) % 1_000_000_000));
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let output = parallax_with(dir.path(), &[&ENERGY[..], &["--out", "out"]].concat(), &variables);
        over.store(true, Ordering::Relaxed);
        output
    });
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    for part in ["per joule", "energy: RAPL in steps of 1.00 ms"] {
        assert!(text.contains(part), "{text} lacks {part}");
    }
    let file = &run_in(&dir.path().join("out"))[..];
    let run = Run::parse(&std::fs::read_to_string(file).expect("a file")).expect("a run");
    let figure = run.records[0].energy().expect("a figure");
    // A busy machine delays the counter's updates, by some share of a stretch.
    let near = |watts: f64| (70.0..130.0).contains(&watts);
    assert!(near(figure.watts) && near(figure.idle_watts), "{figure:?}");
    assert!(figure.low <= figure.joules && figure.joules <= figure.high && figure.stretches.len() == 6, "{figure:?}");
    let sheet = parallax(dir.path(), &["report", file, "--format", "csv"]);
    let sheet = String::from_utf8(sheet.stdout).expect("UTF-8");
    for part in ["energy_j", "flops_per_j", "J/execution", "GFLOP/J", "rapl"] {
        assert!(sheet.contains(part), "{sheet} lacks {part}");
    }
    let compared = parallax(dir.path(), &["compare", file, file]);
    let compared = String::from_utf8(compared.stdout).expect("UTF-8");
    assert!(compared.contains("J/execution"), "{compared}");
}
