//! Programs of commits: git gives the sources, and cargo or a command of the user builds them.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use crate::files::{NoTemporary, temporary_folder};

/// Folder of the built programs of commits, in the folder of cargo's outputs. Commits share their dependencies there.
const FOLDER: &str = "target/bisect";
/// Variable with cargo's output folder.
const TARGET_DIR: &str = "CARGO_TARGET_DIR";

/// Reason for a commit without a program.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The folder belongs to no checkout.
    #[error("{} is in no checkout of git; name a program instead", .0.display())]
    NoCheckout(PathBuf),
    /// No such commit.
    #[error("`{0}` is neither a program nor a commit")]
    NoCommit(String),
    /// A command that does not start.
    #[error("cannot start {command}: {source}")]
    NoStart {
        /// Name of the command.
        command: String,
        /// Error of the system.
        source: std::io::Error,
    },
    /// A command that fails.
    #[error("{command} ended with {status}")]
    Failed {
        /// Name of the command.
        command: String,
        /// Its exit status.
        status: ExitStatus,
    },
    /// A build without its program.
    #[error("the build left no program at {}: --build takes a command that writes it there", .0.display())]
    NoProgram(PathBuf),
    /// A file that cannot be copied or removed.
    #[error("cannot copy {}: {source}", .path.display())]
    Copy {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
    /// No temporary folder.
    #[error(transparent)]
    NoTemporary(#[from] NoTemporary),
}

/// A checkout of git.
pub struct Checkout {
    top: PathBuf,
}

impl Checkout {
    /// Returns the checkout around a folder.
    ///
    /// # Errors
    /// No git, or no checkout.
    pub fn of(folder: &Path) -> Result<Checkout, BuildError> {
        let top = answer(git(folder).args(["rev-parse", "--show-toplevel"]))?;
        top.map(|top| Checkout { top: top.into() }).ok_or_else(|| BuildError::NoCheckout(folder.to_owned()))
    }

    /// Returns the hash of a commit.
    ///
    /// # Errors
    /// No such commit.
    pub fn commit(&self, name: &str) -> Result<String, BuildError> {
        let name_of_commit = format!("{name}^{{commit}}");
        let mut git = git(&self.top);
        let found = answer(git.args(["rev-parse", "--verify", "--quiet", "--end-of-options", &name_of_commit]))?;
        found.ok_or_else(|| BuildError::NoCommit(name.to_owned()))
    }

    /// Builds a commit in a worktree of its own, and copies its program.
    ///
    /// # Errors
    /// Failed command, or a build without a program.
    pub fn build_commit(&self, commit: &str, command: Option<&str>, program: &Path) -> Result<(), BuildError> {
        let folder = temporary_folder("parallax-bisect-")?;
        let source = folder.path().join("source");
        let worktree = Worktree { top: &self.top, source };
        let mut add = git(&self.top);
        add.args(["worktree", "add", "--quiet", "--detach"]).arg(&worktree.source).arg(commit);
        run(&mut add, "git worktree add")?;
        self.build(&worktree.source, command, program)
    }

    /// Builds the sources of the checkout as they are, and copies their program.
    ///
    /// # Errors
    /// Failed command, or a build without a program.
    pub fn build_here(&self, command: Option<&str>, program: &Path) -> Result<(), BuildError> {
        self.build(&self.top, command, program)
    }

    fn build(&self, source: &Path, command: Option<&str>, program: &Path) -> Result<(), BuildError> {
        let target = self.top.join(FOLDER);
        let built = target.join("release").join(format!("parallax{}", std::env::consts::EXE_SUFFIX));
        // The program of an earlier build must not pass for this one.
        if let Err(error) = std::fs::remove_file(&built)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            return Err(BuildError::Copy { path: built, source: error });
        }
        let (mut build, name) = match command {
            Some(command) => (shell(command), format!("`{command}`")),
            None => {
                let mut cargo = Command::new("cargo");
                cargo.args(["build", "--release", "--locked", "--package", "parallax-gpu"]);
                (cargo, "cargo build".to_owned())
            }
        };
        run(build.current_dir(source).env(TARGET_DIR, &target), &name)?;
        if !built.is_file() {
            return Err(BuildError::NoProgram(built));
        }
        std::fs::copy(&built, program).map(drop).map_err(|source| BuildError::Copy { path: built, source })
    }
}

/// A worktree, which is removed when it is dropped.
struct Worktree<'a> {
    top: &'a Path,
    source: PathBuf,
}

impl Drop for Worktree<'_> {
    fn drop(&mut self) {
        let mut remove = git(self.top);
        remove.args(["worktree", "remove", "--force"]).arg(&self.source);
        if let Err(error) = run(&mut remove, "git worktree remove") {
            log::warn!("{} stays: {error}", self.source.display());
        }
    }
}

fn git(folder: &Path) -> Command {
    let mut git = Command::new("git");
    git.arg("-C").arg(folder);
    git
}

/// Returns the command of a shell.
fn shell(command: &str) -> Command {
    let (shell, option) = if cfg!(windows) { ("cmd", "/C") } else { ("sh", "-c") };
    let mut shell = Command::new(shell);
    shell.arg(option).arg(command);
    shell
}

/// Runs a command whose output goes to standard error.
fn run(command: &mut Command, name: &str) -> Result<(), BuildError> {
    let no_start = |source| BuildError::NoStart { command: name.to_owned(), source };
    let status = command.stdin(Stdio::null()).stdout(std::io::stderr()).status().map_err(no_start)?;
    if status.success() { Ok(()) } else { Err(BuildError::Failed { command: name.to_owned(), status }) }
}

/// Returns the line that a command prints; `None` if it fails.
fn answer(command: &mut Command) -> Result<Option<String>, BuildError> {
    let no_start = |source| BuildError::NoStart { command: "git".to_owned(), source };
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().map_err(no_start)?;
    let line = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(Some(line).filter(|line| output.status.success() && !line.is_empty()))
}
