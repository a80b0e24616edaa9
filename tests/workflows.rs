//! Workflows and the action: their commands exist in the program's interface, and their actions are pinned.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use parallax::args::Cli;
use serde_json::Value;

use crate::tidy::root;

/// Names of the program in scripts.
const PROGRAMS: [&str; 2] = ["\"$program\" ", "\"$PARALLAX_BIN\" "];

pub(crate) fn yaml(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_norway::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The action and every workflow.
fn files() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join(".github/workflows")).expect("workflows");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    files.push(root().join("action.yml"));
    files.sort();
    files
}

/// Every value of a key, at any depth.
pub(crate) fn values<'v>(value: &'v Value, key: &str, found: &mut Vec<&'v Value>) {
    match value {
        Value::Object(map) => {
            found.extend(map.get(key));
            map.values().for_each(|inner| values(inner, key, found));
        }
        Value::Array(list) => list.iter().for_each(|inner| values(inner, key, found)),
        _ => {}
    }
}

fn strings(value: &Value, key: &str) -> Vec<String> {
    let mut found = Vec::new();
    values(value, key, &mut found);
    found.into_iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Arguments of each call of a program in a shell script, by the program's names. Arrays of arguments are left out, and so are copies of
/// the program.
pub(crate) fn calls(script: &str, names: &[&str]) -> Vec<Vec<String>> {
    let script = script.replace("\\\n", " ");
    let lines = script.lines().filter(|line| !line.trim_start().starts_with('#'));
    let call = |line: &str| {
        let (before, rest) = names.iter().find_map(|name| line.split_once(name))?;
        if before.trim() == "cp" {
            return None;
        }
        let end = ["|", " &", ";", ">", "<", ") "].iter().filter_map(|stop| rest.find(stop)).min();
        let words = rest[..end.unwrap_or(rest.len())].split_whitespace();
        let words = words.filter(|word| !word.contains("[@]") && *word != "\"$@\"");
        Some(words.map(|word| word.trim_end_matches(')').trim_matches('"').to_owned()).collect())
    };
    lines.filter_map(call).collect()
}

/// Words of a line, with quotes as in a shell.
pub(crate) fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (number, part) in line.split('\'').enumerate() {
        match number % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

/// Whether the program accepts arguments.
pub(crate) fn accepted(arguments: &[String]) -> Result<(), String> {
    let all = std::iter::once("parallax").chain(arguments.iter().map(String::as_str));
    match Cli::whole().try_get_matches_from(all) {
        Err(error) if !matches!(error.kind(), ErrorKind::DisplayVersion | ErrorKind::DisplayHelp) => {
            Err(format!("{arguments:?}: {error}"))
        }
        _ => Ok(()),
    }
}

#[test]
fn commands_of_scripts_are_commands_of_the_program() {
    let mut scripts: Vec<String> = files().iter().flat_map(|file| strings(&yaml(file), "run")).collect();
    for entry in std::fs::read_dir(root().join(".ci")).expect("scripts") {
        scripts.push(std::fs::read_to_string(entry.expect("readable").path()).expect("UTF-8"));
    }
    let calls: Vec<Vec<String>> = scripts.iter().flat_map(|script| calls(script, &PROGRAMS)).collect();
    let commands: BTreeSet<&str> = calls.iter().filter_map(|call| call.first()).map(String::as_str).collect();
    for command in ["run", "compare", "verify", "doctor", "completions", "man", "--version"] {
        assert!(commands.contains(command), "{command} among {commands:?}");
    }
    for call in &calls {
        accepted(call).unwrap_or_else(|error| panic!("{error}"));
    }
    let wrong = "\"$program\" compare a b --no-such-option";
    assert!(accepted(&self::calls(wrong, &PROGRAMS)[0]).is_err_and(|error| error.contains("--no-such-option")));
    assert!(accepted(&self::calls("\"$program\" no-such-command x", &PROGRAMS)[0]).is_err());
}

#[test]
fn inputs_of_the_action_are_used_and_have_arguments_of_the_program() {
    let action = yaml(&root().join("action.yml"));
    assert_eq!(action["runs"]["using"], "composite");
    let text = std::fs::read_to_string(root().join("action.yml")).expect("UTF-8");
    let inputs = action["inputs"].as_object().expect("inputs");
    for (name, input) in inputs {
        assert!(text.contains(&format!("inputs.{name} ")), "{name} is used nowhere");
        assert!(input["description"].is_string() && !input["default"].is_null(), "{name}");
    }
    let used = text.split("inputs.").skip(1).map(|rest| rest.split([' ', '\n']).next().unwrap_or_default());
    used.for_each(|name| assert!(inputs.contains_key(name), "no input {name}"));
    let default = |name: &str| words(inputs[name]["default"].as_str().expect("a string"));
    for (command, input) in [(&["run"][..], "arguments"), (&["compare", "a.json", "b.json"], "gate")] {
        let call: Vec<String> = command.iter().map(|&word| word.to_owned()).chain(default(input)).collect();
        accepted(&call).unwrap_or_else(|error| panic!("{error}"));
    }
    for step in action["runs"]["steps"].as_array().expect("steps") {
        let Some(script) = step["run"].as_str() else { continue };
        assert_eq!(step["shell"], "bash", "{step}");
        assert!(!script.contains("${{"), "a value that is pasted into a script can be a command: {script}");
        for path in script.split("$ACTION/").skip(1) {
            let path = path.split('"').next().unwrap_or_default();
            assert!(root().join(path).is_file(), "{path} is no file");
        }
    }
}

#[test]
fn actions_are_pinned_by_their_commit() {
    let mut pinned = 0;
    for file in files() {
        let text = std::fs::read_to_string(&file).expect("UTF-8");
        for uses in strings(&yaml(&file), "uses") {
            let Some((_, commit)) = uses.split_once('@') else {
                assert!(uses.starts_with("./"), "{}: {uses}", file.display());
                continue;
            };
            let is_hash = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
            let line = text.lines().find(|line| line.contains(&uses)).expect("the line");
            assert!(is_hash && line.contains(" # v"), "{}: {uses} has no commit or no version", file.display());
            pinned += 1;
        }
    }
    assert!(pinned > 10, "{pinned}");
}

/// A measurement at night, or of a pull request, blocks nothing.
#[test]
fn the_gpu_workflow_compares_at_night_and_never_blocks() {
    let workflow = yaml(&root().join(".github/workflows/gpu.yml"));
    let cron = workflow["on"]["schedule"][0]["cron"].as_str().expect("a time");
    assert_eq!(cron.split(' ').count(), 5, "{cron}");
    let job = &workflow["jobs"]["gpu"];
    assert_eq!(job["continue-on-error"], true);
    let steps = job["steps"].as_array().expect("steps");
    let position = |part: &str| {
        let of = |step: &Value| step.to_string().contains(part);
        steps.iter().position(of).unwrap_or_else(|| panic!("no step has {part}"))
    };
    assert!(position("./x gpu") < position(".ci/compare"), "measured first");
    assert!(position(".ci/compare") < position("\"name\":\"gpu-night\""), "compared before it is the next baseline");
    assert_eq!(steps[position(".ci/compare")]["continue-on-error"], true);
}

/// An image needs a registry; its build runs at night. Its files, versions and commands are checked here.
#[test]
fn the_image_is_of_files_versions_and_commands_that_exist() {
    let read =
        |path: &str| std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let (image, setup) = (read("Dockerfile"), read(".ci/setup"));
    let nvrtc = setup.lines().find_map(|line| line.strip_prefix("nvrtc_version=")).expect("a version");
    assert!(image.contains(&format!("nvidia-cuda-nvrtc=={nvrtc} ")), "the compiler of the tests, {nvrtc}");
    let built = "cargo build --locked --profile dist --features page -p parallax-gpu";
    let release = read(".github/workflows/release.yml");
    assert!(image.contains(built) && release.contains(built), "built as a release");
    assert!(image.contains("/parallax/target/dist/parallax ") && read("Cargo.toml").contains("[profile.dist]"));
    let ignored = read(".dockerignore");
    for line in read(".gitignore").lines().filter(|line| line.starts_with('/') && !line.ends_with("-*")) {
        let stem = line.trim_end_matches("-test");
        assert!(
            ignored.lines().any(|own| own == line || own == format!("{stem}*")) || line.contains("tools"),
            "{line}"
        );
    }
    let nightly = read(".github/workflows/nightly.yml");
    let calls: Vec<&str> =
        nightly.lines().filter_map(|line| line.split_once("docker run --rm parallax ")).map(|(_, call)| call).collect();
    assert_eq!(calls.len(), 2, "{calls:?}");
    calls.into_iter().for_each(|call| accepted(&words(call)).unwrap_or_else(|error| panic!("{error}")));
}
