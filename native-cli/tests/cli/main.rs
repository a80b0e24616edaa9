//! The program from outside: its output, and its messages.

#[cfg(unix)]
mod bisecting;
mod collectives;
mod comparing;
mod doctor;
mod drawing;
#[cfg(target_os = "linux")]
mod drivers;
mod energy;
mod entities;
mod escaping;
mod eval;
mod exits;
mod fleet;
mod formats;
mod given;
mod help;
mod history;
mod images;
#[cfg(unix)]
mod interrupting;
mod lab;
mod learning;
#[cfg(unix)]
mod limits;
mod measuring;
mod mistakes;
mod models;
#[cfg(target_os = "linux")]
mod recipes;
#[cfg(unix)]
mod results;
mod scripts;
mod settings;
mod site;
mod stores;
mod summaries;
mod tables;
mod telling;
mod texts;
mod tracing;
#[cfg(unix)]
mod writing;

use std::path::Path;
use std::process::{Command, Output};

use npyz::WriterBuilder;

/// The program on so wide a terminal that nothing is broken.
fn parallax(folder: &Path, args: &[&str]) -> Output {
    parallax_with(folder, args, &[WIDE])
}

const WIDE: (&str, &str) = ("COLUMNS", "200");

/// The program with these variables and no others that change how it looks.
fn parallax_with(folder: &Path, args: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_parallax"));
    for usual in ["COLUMNS", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
        command.env_remove(usual);
    }
    command.args(args).envs(variables.iter().copied()).current_dir(folder).output().expect("the program starts")
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder for temporary files")
}

/// A mistake gives exit code 2 and one line that names the thing and the remedy.
fn mistake(folder: &Path, args: &[&str], parts: &[&str]) {
    let output = parallax(folder, args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 1, "{args:?}: {said}");
    for part in parts {
        assert!(lines[0].contains(part), "{args:?}: {said} lacks {part}");
    }
}

const TINY: &str = "attention/fwd/b1,h1,s3,d2/f32/host";

fn save(path: &Path, shape: &[u64], values: &[f32]) {
    let file = std::fs::File::create(path).expect("writable");
    let mut writer = npyz::WriteOptions::new().default_dtype().shape(shape).writer(file).begin_nd().expect("header");
    writer.extend(values.iter().copied()).expect("values");
    writer.finish().expect("whole");
}
