//! Fleets of cards in folders of run files.

use std::path::Path;

use parallax_schema::device::identity::Identity;
use parallax_schema::record::host;
use parallax_schema::testing;

use crate::{folder, mistake, parallax};

const CASES: [&str; 3] =
    ["matmul/fwd/m512,n512,k512/f16/tiled", "copy/fwd/n16777216/f32/vec4", "gelu/fwd/n16777216,tanh/f32/vector"];

/// Writes three runs of each of sixteen cards on two hosts. The card of this number is slower by 10 %.
pub fn fleet(folder: &Path, slow: Option<usize>) {
    for (card, round) in (0..16).flat_map(|card| (0..3).map(move |round| (card, round))) {
        let own = 1.0 + 0.002 * ((card * 7) % 5) as f64 + 0.001 * ((card + 2 * round) % 3) as f64;
        let factor = if slow == Some(card) { 1.1 } else { 1.0 };
        let cases: Vec<(&str, Vec<f64>)> = CASES
            .iter()
            .enumerate()
            .map(|(i, case)| (*case, testing::spread(1e5 * (i + 1) as f64 * own * factor, 0.004, 12)))
            .collect();
        let mut run = testing::run("cuda", "NVIDIA H200", &cases);
        run.started = 1_700_000_000 + 3600 * round as u64;
        let host_name = format!("node{}", card / 8);
        run.environment.insert(host::NAME.to_owned(), host_name.clone());
        run.devices[0].identity = Identity {
            pci: Some(format!("0000:{:02x}:00.0", card % 8)),
            uuid: Some(format!("GPU-{card}")),
            model: None,
        };
        let at = folder.join(host_name);
        std::fs::create_dir_all(&at).expect("a folder");
        std::fs::write(at.join(format!("{card}-{round}.json")), serde_json::to_string(&run).expect("JSON"))
            .expect("a file");
    }
}

#[test]
fn a_slow_card_of_a_fleet_is_named_in_each_format() {
    let dir = folder();
    fleet(&dir.path().join("runs"), Some(11));
    std::fs::write(dir.path().join("runs/broken.json"), "{").expect("a file");
    let output = |args: &[&str]| {
        let done = parallax(dir.path(), &[&["fleet", "runs"], args].concat());
        (done.status.code(), String::from_utf8_lossy(&done.stdout).into_owned())
    };
    let (code, said) = output(&[]);
    assert_eq!(code, Some(0), "{said}");
    for part in [
        "16 cards in 48 runs: 1 of them faulty",
        "node1 0000:03:00.0",
        "slow",
        "all cases",
        "not read: runs/broken.json",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(output(&["--fail-if-faulty"]).0, Some(1));
    assert_eq!(output(&["--fail-if-faulty", "--filter", "copy*"]).0, Some(1));
    assert_eq!(output(&["--fail-if-faulty", "--resolution", "20%"]).0, Some(0));
    for (format, part) in [
        ("markdown", "| node1 0000:03:00.0 | slow | all cases |"),
        ("csv", "NVIDIA H200,node1,0000:03:00.0,GPU-11,"),
        ("json", "\"fault\":\"slow\",\"group\":\"all\""),
        ("html", "<h2>Cards that differ</h2>"),
    ] {
        let (code, said) = output(&["--format", format]);
        assert_eq!(code, Some(0), "{format}: {said}");
        assert!(said.contains(part), "{format}: {said}");
    }
    let (code, _) = output(&["--format", "parquet", "--output", "fleet.parquet"]);
    assert_eq!(code, Some(0));
    assert!(std::fs::read(dir.path().join("fleet.parquet")).expect("a file").starts_with(b"PAR1"));
}

#[test]
fn a_fleet_without_a_fault_passes_its_gate() {
    let dir = folder();
    fleet(&dir.path().join("runs"), None);
    let done = parallax(dir.path(), &["fleet", "runs", "--fail-if-faulty"]);
    let said = String::from_utf8_lossy(&done.stdout);
    assert_eq!(done.status.code(), Some(0), "{said}");
    assert!(said.contains("16 cards in 48 runs: none differs for the worse"), "{said}");
}

#[test]
fn wrong_arguments_of_a_fleet_are_mistakes() {
    let dir = folder();
    std::fs::create_dir(dir.path().join("empty")).expect("a folder");
    for (args, parts) in [
        (&["none"][..], &["no such file or folder"][..]),
        (&["empty"], &["no run file in empty", "`parallax run` writes one"]),
        (&["empty", "--format", "junit"], &["has no fleet"]),
        (&["empty", "--resolution", "-1"], &["--resolution"]),
    ] {
        mistake(dir.path(), &[&["fleet"], args].concat(), parts);
    }
}
