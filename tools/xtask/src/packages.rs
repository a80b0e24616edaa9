//! Packages as crates.io would get them.

use anyhow::Result;

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
    let line = "cargo package --locked --allow-dirty --workspace";
    let result = shell.with("CARGO_TARGET_DIR", folder.to_string_lossy()).run(&format!("{line}{excluded}"));
    // The builds take some GB, and no other command uses them.
    let _ = std::fs::remove_dir_all(&folder);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

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
