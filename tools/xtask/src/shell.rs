//! Commands of the checkout: their variables, their exit codes, and the needs that `.ci/setup` installs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

/// Failed command and its exit code.
#[derive(Debug)]
pub struct Failure {
    /// The command's exit code; 1 where a signal ended it.
    pub code: u8,
    command: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` failed with exit code {}", self.command, self.code)
    }
}

impl std::error::Error for Failure {}

/// Root of the checkout, and variables that each command gets.
#[derive(Clone, Debug)]
pub struct Shell {
    root: PathBuf,
    variables: BTreeMap<String, String>,
}

impl Shell {
    /// Returns a shell in the current folder, which is the checkout's root.
    ///
    /// # Errors
    /// A current folder without `.ci/setup`.
    pub fn new() -> Result<Shell> {
        let root = std::env::current_dir().context("the current folder")?;
        anyhow::ensure!(root.join(".ci/setup").is_file(), "{} is not the root of a checkout", root.display());
        Ok(Shell { root, variables: BTreeMap::new() })
    }

    /// Absolute path of a file of the checkout.
    pub fn path(&self, file: &str) -> PathBuf {
        self.root.join(file)
    }

    /// Returns the shell with one more variable.
    pub fn with(&self, name: &str, value: impl Into<String>) -> Shell {
        let mut shell = self.clone();
        shell.variables.insert(name.to_owned(), value.into());
        shell
    }

    /// Value of a variable, empty where it is not set.
    pub fn variable(&self, name: &str) -> String {
        self.variables.get(name).cloned().or_else(|| std::env::var(name).ok()).unwrap_or_default()
    }

    /// Target folder of cargo.
    pub fn target(&self) -> PathBuf {
        match self.variable("CARGO_TARGET_DIR") {
            folder if folder.is_empty() => self.path("target"),
            folder => self.path(&folder),
        }
    }

    /// Installs needs, and keeps the variables that they set.
    ///
    /// # Errors
    /// A need that cannot be installed.
    pub fn need(&mut self, needs: &[&str]) -> Result<()> {
        let set = self.output(&self.path(".ci/setup").to_string_lossy(), needs)?;
        for line in set.lines() {
            let (name, value) =
                line.strip_prefix("export ").and_then(|line| line.split_once('=')).context("a variable")?;
            // A path in bash's quotes.
            self.variables.insert(name.to_owned(), value.replace('\\', ""));
        }
        Ok(())
    }

    /// Runs a line of words without spaces in them: `cargo test --workspace`.
    ///
    /// # Errors
    /// A program that is missing or fails.
    pub fn run(&self, line: &str) -> Result<()> {
        let words: Vec<&str> = line.split_whitespace().collect();
        self.run_words(words[0], &words[1..], &self.root)
    }

    /// Runs a program in a folder.
    ///
    /// # Errors
    /// A program that is missing or fails.
    pub fn run_words(&self, program: &str, args: &[&str], folder: &Path) -> Result<()> {
        let status = self.command(program, args).current_dir(folder).status().with_context(|| program.to_owned())?;
        self.checked(program, args, status)
    }

    /// Returns the standard output of a program.
    ///
    /// # Errors
    /// A program that is missing or fails.
    pub fn output(&self, program: &str, args: &[&str]) -> Result<String> {
        let output =
            self.command(program, args).stderr(Stdio::inherit()).output().with_context(|| program.to_owned())?;
        self.checked(program, args, output.status)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Returns whether a program without output succeeds.
    pub fn succeeds(&self, line: &str) -> bool {
        let words: Vec<&str> = line.split_whitespace().collect();
        let status = self.command(words[0], &words[1..]).stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    }

    fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(&self.root).envs(&self.variables);
        command
    }

    fn checked(&self, program: &str, args: &[&str], status: std::process::ExitStatus) -> Result<()> {
        if status.success() {
            return Ok(());
        }
        let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
        Err(Failure { code, command: format!("{program} {}", args.join(" ")) }.into())
    }
}

/// Prints the time and a message.
pub fn say(message: &str) {
    let time = Command::new("date").arg("+%T").output().map(|output| output.stdout).unwrap_or_default();
    eprintln!("\x1b[1m· {} {message}\x1b[0m", String::from_utf8_lossy(&time).trim());
}

/// Returns the compiler that a manifest promises to support: its `rust-version`.
///
/// # Errors
/// A manifest that cannot be read or lacks the field.
pub fn oldest_compiler(manifest: &Path) -> Result<String> {
    let text = std::fs::read_to_string(manifest).with_context(|| manifest.display().to_string())?;
    let version = text.lines().find_map(|line| line.strip_prefix("rust-version = \"")?.strip_suffix('"'));
    Ok(version.with_context(|| format!("no rust-version in {}", manifest.display()))?.to_owned())
}

/// Numbers of a version: `1.95.0`.
pub fn numbers(version: &str) -> Vec<u32> {
    version.split(['.', '-']).map_while(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_get_variables_and_return_exit_codes() {
        let shell = Shell { root: PathBuf::from("."), variables: BTreeMap::new() }.with("PARALLAX_XTASK", "yes");
        assert_eq!(shell.output("sh", &["-c", "echo $PARALLAX_XTASK"]).expect("runs"), "yes\n");
        let error = shell.run_words("sh", &["-c", "exit 7"], Path::new(".")).expect_err("fails");
        assert_eq!(error.downcast_ref::<Failure>().map(|failure| failure.code), Some(7));
        assert!(shell.run("no-such-program").is_err());
    }

    #[test]
    fn versions_compare_by_number() {
        assert!(numbers("1.95.0") >= numbers("1.88") && numbers("1.100.0-nightly") > numbers("1.95.1"));
        assert_eq!(numbers("1.88"), [1, 88]);
    }
}
