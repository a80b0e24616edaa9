//! Packages as crates.io would get them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::shell::Shell;

/// Members that are not published: `publish = false` in their manifests.
const PRIVATE: [&str; 9] = [
    "parallax-lab-worker",
    "parallax-models-worker",
    "parallax-protocol",
    "parallax-reports",
    "parallax-testing",
    "parallax-tests",
    "parallax-web",
    "parallax-worker",
    "xtask",
];

/// Makes an archive of each publishable package, and builds each from its archive.
///
/// # Errors
/// A package that does not build outside the checkout.
pub fn package(shell: &mut Shell) -> Result<()> {
    shell.need(&["rust"])?;
    let folder = shell.target().join("packaged");
    let excluded: String = PRIVATE.iter().map(|name| format!(" --exclude {name}")).collect();
    forget_unpacked(&cargo_home(shell))?;
    let line = "cargo package --locked --allow-dirty --workspace";
    let result = shell.with("CARGO_TARGET_DIR", folder.to_string_lossy()).run(&format!("{line}{excluded}"));
    // The builds take some GB, and no other command uses them.
    let _ = std::fs::remove_dir_all(&folder);
    result
}

fn cargo_home(shell: &Shell) -> PathBuf {
    match shell.variable("CARGO_HOME") {
        folder if folder.is_empty() => PathBuf::from(shell.variable("HOME")).join(".cargo"),
        folder => PathBuf::from(folder),
    }
}

/// Removes the packages that an interrupted build unpacked. Cargo takes them for new ones of the same version.
///
/// # Errors
/// Folder that cannot be removed.
fn forget_unpacked(cargo_home: &Path) -> Result<()> {
    let inside = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let begins =
        |path: &Path, text: &str| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(text));
    // A registry in a folder has no host before the dash of its name.
    let registries = inside(&cargo_home.join("registry/src")).filter(|path| begins(path, "-"));
    for package in registries.flat_map(|registry| inside(&registry)).filter(|path| begins(path, "parallax-gpu")) {
        std::fs::remove_dir_all(&package).with_context(|| format!("cannot remove {}", package.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpacked_packages_of_an_interrupted_build_are_removed_and_no_others() {
        let home = tempfile::tempdir().expect("a folder");
        let at = |path: &str| home.path().join("registry/src").join(path);
        let kept = ["-0a/serde-1.0.0", "index.crates.io-1b/parallax-gpu-ir-0.1.0"];
        for folder in ["-0a/parallax-gpu-ir-0.1.0/src", "-0a/parallax-gpu-0.1.0", kept[0], kept[1]] {
            std::fs::create_dir_all(at(folder)).expect("a folder");
        }
        forget_unpacked(home.path()).expect("removed");
        forget_unpacked(&home.path().join("none")).expect("nothing to remove");
        assert!(kept.iter().all(|folder| at(folder).is_dir()));
        assert!(!at("-0a/parallax-gpu-ir-0.1.0").exists() && !at("-0a/parallax-gpu-0.1.0").exists());
    }

    #[test]
    fn private_packages_are_those_whose_manifests_say_so() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let read = |path: &str| std::fs::read_to_string(root.join(path).join("Cargo.toml")).expect("readable");
        let members = read(".");
        let members = members.lines().find_map(|line| line.strip_prefix("members = ")).expect("a list");
        let manifests = members.split('"').skip(1).step_by(2).map(read);
        let mut private: Vec<String> = manifests
            .filter(|manifest| manifest.contains("\npublish = false\n"))
            .map(|manifest| manifest.split('"').nth(1).expect("a name").to_owned())
            .collect();
        private.sort();
        assert_eq!(private, PRIVATE);
    }
}
