//! Help texts, and options where they do something.

use std::collections::BTreeSet;
use std::path::Path;

use parallax::args::Cli;
use parallax::help::{ENVIRONMENT, EXIT_CODES};

use crate::{folder, parallax};

/// As many lines as a usual terminal shows at once.
const SCREEN: usize = 44;

#[test]
fn the_short_help_of_every_command_is_a_screenful() {
    let mut whole = Cli::whole().term_width(80);
    whole.build();
    let commands: Vec<clap::Command> = whole.get_subcommands().filter(|c| c.get_name() != "help").cloned().collect();
    assert!(commands.len() > 12, "{commands:?}");
    for mut command in commands.into_iter().chain([whole]) {
        let text = command.render_help().to_string();
        let name = command.get_name();
        assert!(text.lines().count() <= SCREEN, "{name} has {} lines:\n{text}", text.lines().count());
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{name}: {line}");
        }
    }
}

#[test]
fn the_help_shows_examples_defaults_exit_codes_and_variables() {
    let dir = folder();
    let said = |args: &[&str]| {
        let output = parallax(dir.path(), args);
        assert_eq!(output.status.code(), Some(0), "{args:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let short = said(&["-h"]);
    let examples: Vec<&str> = short.split_once("Examples:\n").expect("examples").1.lines().collect();
    assert_eq!(examples.iter().filter(|line| line.starts_with("  parallax")).count(), 3, "{short}");
    for part in ["[default: quick]", "[default: 45]", "[default: results]"] {
        assert!(short.contains(part), "{part} in {short}");
    }
    let long = said(&["--help"]);
    for name in EXIT_CODES.iter().chain(&ENVIRONMENT).map(|(name, _)| name) {
        assert!(long.lines().any(|line| line.trim() == *name), "{name} in {long}");
    }
    assert!(said(&["run", "--help"]).contains("One of quick, standard, full, awkward, huge."));
}

/// An option without effect misleads its user.
#[test]
fn options_that_a_command_does_not_use_are_refused() {
    let dir = folder();
    let timing = ["--budget=3", "--precision=0.1", "--cache=cold", "--ceilings=off", "--schedule=wait=1"];
    let writing = ["--with-stack", "--iterations=3", "--trace-gzip", "--out=results", "--a-a=2"];
    let choosing = ["--target=cpu", "--preset=quick", "--filter=copy", "--seed=1", "--set=DEPTH=8"];
    let browsers = ["--browser=x", "--browser-flag=x", "--features=stock", "--page=x"];
    let one = "matmul/fwd/m4,n4,k4/f32/tiled";
    for (command, unused) in [
        (&["verify"][..], &[&timing[..], &writing].concat()[..]),
        (&["list"], &[&timing[..], &writing, &["--seed=1"]].concat()),
        (&["devices"], &[&timing[..], &writing, &choosing].concat()),
        (&["profile", "matmul"], &["--a-a=2"]),
        (&["eval", one, "--output-dir=o"], &browsers),
        (&["kernel", one], &browsers),
        (&["dev", one], &browsers),
        (&["tune"], &browsers),
        (&["config"], &["--target=cpu", "--out=results"]),
        (&["schema"], &["--json"]),
    ] {
        for option in unused {
            let output = parallax(dir.path(), &[command, &[option]].concat());
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{command:?} {option}: {said}");
            let name = option.split('=').next().unwrap_or_default();
            assert!(said.contains(&format!("unexpected argument '{name}'")), "{command:?} {option}: {said}");
        }
    }
}

/// One settings file serves every command, also those that use only a part of it.
#[test]
fn a_settings_file_may_say_more_than_a_command_uses() {
    let dir = folder();
    std::fs::write(dir.path().join("parallax.toml"), "filter = 'copy'\nbudget = 3\nwith-stack = true\n")
        .expect("written");
    let output = parallax(dir.path(), &["list", "--target", "cpu"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("  copy/"), "{said}");
}

/// Names of environment variables of ours in the sources of a crate.
fn variables(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("readable") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            variables(&path, found);
        }
        if path.extension().is_none_or(|ending| ending != "rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("UTF-8");
        for part in text.split("\"PARALLAX_").skip(1) {
            let rest: String = part.chars().take_while(|c| c.is_ascii_uppercase() || *c == '_').collect();
            if part[rest.len()..].starts_with('"') {
                found.insert(format!("PARALLAX_{rest}"));
            }
        }
    }
}

#[test]
fn every_environment_variable_is_in_the_help() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let mut found = BTreeSet::new();
    for part in ["core", "cuda/src", "shaders/src", "native-cli/src"] {
        variables(&root.join(part), &mut found);
    }
    // Set by the build script, for the compiler.
    assert!(found.remove("PARALLAX_COMMIT") && found.len() >= 5, "{found:?}");
    for name in found {
        assert!(ENVIRONMENT.iter().any(|(known, _)| *known == name), "{name} is looked at, and not in the help");
    }
}

#[test]
fn every_shell_completes_commands_options_and_words() {
    let dir = folder();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let output = parallax(dir.path(), &["completions", shell]);
        let script = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && script.contains("fail-if-slower"), "{shell}: {script}");
        // Two of them offer no values of options.
        let offers_words = !["elvish", "powershell"].contains(&shell);
        assert!(!offers_words || script.contains("awkward"), "{shell}: {script}");
    }
}

#[test]
fn man_pages_tell_what_the_help_tells() {
    let dir = folder();
    let output = parallax(dir.path(), &["man", "pages"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = |name: &str| std::fs::read_to_string(dir.path().join("pages").join(name)).expect(name);
    for (name, parts) in [
        ("parallax.1", &["Exit codes:", "PARALLAX_BROWSER", "parallax\\-compare(1)"][..]),
        ("parallax-verify.1", &["\\-\\-preset", "f64 reference"]),
        ("parallax-baseline-save.1", &["newest in the folder"]),
    ] {
        let text = page(name);
        assert!(text.contains(".TH parallax"), "{name}: {text}");
        for part in parts {
            assert!(text.contains(part), "{part} in {name}: {text}");
        }
    }
}
