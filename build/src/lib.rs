//! Helpers of the build scripts: tables of folders, and the commit.

#![forbid(unsafe_code)]

/// Every entry of `folder` that is a file with extension `ext`, or a folder, as (stem, absolute path). Sorted by stem, so that the
/// result does not depend on the file system.
pub fn list_folder(folder: &std::path::Path, ext: &str) -> Vec<(String, std::path::PathBuf)> {
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("cannot list {}: {e}", folder.display()));
    let mut found: Vec<_> = entries
        .map(|entry| entry.expect("readable folder entry").path())
        .filter(|path| path.is_dir() || path.extension().is_some_and(|x| x == ext))
        .map(|path| {
            let stem = path.file_stem().expect("named").to_string_lossy().into_owned();
            (stem, path.canonicalize().expect("existing path"))
        })
        .collect();
    found.sort();
    found
}

/// Writes `text` to `name` in the build script's output folder.
pub fn write_out(name: &str, text: &str) {
    let dir = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    std::fs::write(std::path::Path::new(&dir).join(name), text).expect("writable OUT_DIR");
}

/// Writes `kernels.rs` with `FILES`: name and text of each file with one of these extensions below `kernels/`, as in
/// `matmul/tiled.cu`.
pub fn embed_kernels(extensions: &[&str]) {
    let root = std::path::PathBuf::from(std::env::var("CARGO_MANIFEST_DIR").expect("set by cargo")).join("kernels");
    let mut files = Vec::new();
    for extension in extensions {
        for (folder, path) in list_folder(&root, extension) {
            let found = match path.is_dir() {
                true => {
                    list_folder(&path, extension).into_iter().map(|(n, file)| (format!("{folder}/{n}"), file)).collect()
                }
                false => vec![(folder, path)],
            };
            files.extend(found.into_iter().map(|(name, file)| (format!("{name}.{extension}"), file)));
        }
    }
    files.sort();
    let mut table = String::from("static FILES: &[(&str, &str)] = &[\n");
    for (name, file) in files {
        table += &format!("    ({name:?}, include_str!({file:?})),\n");
    }
    table += "];\n";
    write_out("kernels.rs", &table);
}

/// Sets `PARALLAX_COMMIT` for the crate: short hash, `-dirty.` with a digest of the changes when tracked files among `sources` differ,
/// empty outside a checkout.
/// `sources` are the files and folders of the program, relative to the checkout.
pub fn emit_commit(sources: &[&str]) {
    let git = |args: &[&str]| {
        let output = std::process::Command::new("git").args(args).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    println!("cargo::rerun-if-changed=build.rs");
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_default();
    let mut dirty = String::new();
    if let Some((checkout, dir)) = git(&["rev-parse", "--show-toplevel"]).zip(git(&["rev-parse", "--absolute-git-dir"]))
    {
        let sources: Vec<String> = sources.iter().map(|source| format!("{checkout}/{source}")).collect();
        let paths = sources.iter().map(String::as_str);
        let changes: Vec<&str> = ["diff", "--binary", "HEAD", "--"].into_iter().chain(paths).collect();
        if let Some(changes) = git(&changes).filter(|changes| !changes.is_empty()) {
            dirty = format!("-dirty.{:08x}", digest(changes.as_bytes()));
        }
        // A change makes a commit's program another one. Every commit and checkout writes HEAD's log.
        sources.iter().for_each(|source| println!("cargo::rerun-if-changed={source}"));
        println!("cargo::rerun-if-changed={dir}/logs/HEAD");
    }
    println!("cargo::rustc-env=PARALLAX_COMMIT={commit}{dirty}");
}

/// Returns the 32-bit FNV-1a digest of bytes.
fn digest(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |digest, byte| (digest ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}
