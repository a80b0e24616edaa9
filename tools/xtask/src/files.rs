//! The page's own files: index.html with hashed styles and scripts, its program, and a policy of allowed sources.
//!
//! A hashed name changes with the file's contents, so no cache mixes two versions. Files of [`COPIED`] keep their names, because
//! scripts, workers and other sites request them by name.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256, Sha384};

use crate::bind::bind;

/// Files that keep their names, from the root of the checkout.
const COPIED: [&str; 12] = [
    "core/report/src/site/mark.svg",
    "web/alive.js",
    "web/card.png",
    "web/manifest.webmanifest",
    "web/measuring.js",
    "web/offline.js",
    "web/open-trace.css",
    "web/open-trace.html",
    "web/open-trace.js",
    "web/reading.js",
    "web/src/perfetto.js",
    "web/worker.js",
];

/// Sources that the page may load: its own files. Browsers read this policy in the document, independent of its server.
const POLICY: &str = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data:; manifest-src 'self'; \
                      connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'";

const CHARSET: &str = "<meta charset=\"utf-8\">";
const STYLESHEET: &str = "<link rel=\"stylesheet\" href=\"";
const PROGRAM: &str = "<!-- program -->";

/// Writes the page of the checkout at `root` into `folder`, which is created anew.
///
/// # Errors
/// A missing file, or an index.html without one of the placeholders.
pub fn build(root: &Path, program: &Path, folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("clear {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    for file in COPIED {
        let name = Path::new(file).file_name().context("a file")?;
        let (from, to) = (root.join(file), folder.join(name));
        let copied = match file.ends_with(".js") {
            true => fs::read_to_string(from).and_then(|script| fs::write(to, without_comments(&script))),
            false => fs::copy(from, to).map(drop),
        };
        copied.with_context(|| format!("copy {file}"))?;
    }
    let markup = fs::read_to_string(root.join("index.html")).context("read index.html")?;
    let program = own_program(program, folder)?;
    let page = filled(&markup, &program, |file| {
        let bytes = fs::read(root.join(file)).with_context(|| format!("read {file}"))?;
        hashed(folder, file, &bytes)
    })?;
    fs::write(folder.join("index.html"), page).context("write index.html")
}

/// Writes a page of its own, `lab` or `models`, into a folder of this name below the folder of a page, with its worker's program.
/// `web/NAME/` has its index.html, `NAME.js` and `worker.js`.
///
/// # Errors
/// A missing file, or an index.html without one of the placeholders.
pub fn build_beside(root: &Path, name: &str, program: &Path, folder: &Path) -> Result<()> {
    let (from, to, own) = (root.join("web").join(name), folder.join(name), format!("{name}.js"));
    bind(program, &to)?;
    for script in [&own, "worker.js"] {
        let text = fs::read_to_string(from.join(script)).with_context(|| format!("read {script} of {name}"))?;
        fs::write(to.join(script), without_comments(&text)).with_context(|| format!("write {script} of {name}"))?;
    }
    let markup = fs::read_to_string(from.join("index.html")).with_context(|| format!("read web/{name}/index.html"))?;
    let program = format!("<script type=\"module\" src=\"./{own}\"></script>");
    let page = filled(&markup, &program, |file| {
        let bytes = fs::read(root.join(file)).with_context(|| format!("read {file}"))?;
        let Named { name, integrity } = hashed(folder, file, &bytes)?;
        Ok(Named { name: format!("../{name}"), integrity })
    })?;
    fs::write(to.join("index.html"), page).with_context(|| format!("write {name}/index.html"))
}

/// Returns a script without the lines that are comments; a visitor downloads each.
fn without_comments(script: &str) -> String {
    script.lines().filter(|line| !line.trim_start().starts_with("//")).flat_map(|line| [line, "\n"]).collect()
}

/// A file that the page names: its hashed name and the digest that browsers compare.
struct Named {
    name: String,
    integrity: String,
}

/// Returns the markup with hashed stylesheets, the program's elements and the policy in their places.
fn filled(markup: &str, program: &str, mut stylesheet: impl FnMut(&str) -> Result<Named>) -> Result<String> {
    for place in [CHARSET, STYLESHEET, PROGRAM] {
        ensure!(markup.contains(place), "index.html lacks `{place}`");
    }
    let mut page = String::new();
    for line in markup.lines() {
        match line.strip_prefix(STYLESHEET).and_then(|rest| rest.strip_suffix("\">")) {
            Some(file) => {
                let Named { name, integrity } = stylesheet(file)?;
                page += &format!("{STYLESHEET}./{name}\" integrity=\"{integrity}\">");
            }
            None => page += line,
        }
        page.push('\n');
    }
    let policy = format!("{CHARSET}\n<meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">");
    Ok(page.replacen(CHARSET, &policy, 1).replacen(PROGRAM, program, 1))
}

/// Returns the elements that fetch and start the page's program, and writes its files to `folder`.
fn own_program(program: &Path, folder: &Path) -> Result<String> {
    let stem = bind(program, folder)?;
    let take = |file: String| -> Result<Vec<u8>> {
        let path = folder.join(file);
        let bytes = fs::read(&path)?;
        fs::remove_file(path)?;
        Ok(bytes)
    };
    let glue = hashed(folder, &format!("{stem}.js"), &take(format!("{stem}.js"))?)?;
    let wasm = hashed(folder, &format!("{stem}_bg.wasm"), &take(format!("{stem}_bg.wasm"))?)?;
    let text =
        format!("import start from \"./{}\";\nawait start({{ module_or_path: \"./{}\" }});\n", glue.name, wasm.name);
    let script = hashed(folder, "start.js", text.as_bytes())?;
    Ok(format!(
        "<link rel=\"modulepreload\" href=\"./{}\" integrity=\"{}\">\n\
         <link rel=\"preload\" href=\"./{}\" as=\"fetch\" type=\"application/wasm\" crossorigin integrity=\"{}\">\n\
         <script type=\"module\" src=\"./{}\" integrity=\"{}\"></script>",
        glue.name, glue.integrity, wasm.name, wasm.integrity, script.name, script.integrity
    ))
}

/// Writes a file under a name with the hash of its contents: `style-0123456789abcdef.css`, `web-…_bg.wasm`.
fn hashed(folder: &Path, file: &str, bytes: &[u8]) -> Result<Named> {
    let file = Path::new(file).file_name().and_then(|name| name.to_str()).context("a file name")?;
    let (stem, extension) = file.rsplit_once('.').context("a name with an extension")?;
    let (stem, part) = stem.strip_suffix("_bg").map_or((stem, ""), |stem| (stem, "_bg"));
    let hash: String = Sha256::digest(bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let name = format!("{stem}-{hash}{part}.{extension}");
    fs::write(folder.join(&name), bytes).with_context(|| format!("write {name}"))?;
    Ok(Named { name, integrity: format!("sha384-{}", BASE64_STANDARD.encode(Sha384::digest(bytes))) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_comments_are_left_out_of_scripts() {
        let script = "// One.\nconst a = \"//b\"; // kept\n  // two\n\nf();\n";
        assert_eq!(without_comments(script), "const a = \"//b\"; // kept\n\nf();\n");
    }

    #[test]
    fn files_are_named_by_their_contents() {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let name = |file, bytes: &[u8]| hashed(folder.path(), file, bytes).expect("writable").name;
        assert_eq!(name("a/style.css", b""), "style-e3b0c44298fc1c14.css");
        assert_eq!(name("web_bg.wasm", b""), "web-e3b0c44298fc1c14_bg.wasm");
        assert_ne!(name("style.css", b"x"), name("style.css", b"y"));
        assert_eq!(fs::read(folder.path().join("web-e3b0c44298fc1c14_bg.wasm")).expect("written"), b"");
    }

    #[test]
    fn markup_gets_styles_program_and_policy() {
        let markup = format!("<head>\n{CHARSET}\n{STYLESHEET}web/style.css\">\n{PROGRAM}\n</head>\n");
        let named = |file: &str| {
            assert_eq!(file, "web/style.css");
            Ok(Named { name: "style-1.css".to_owned(), integrity: "sha384-x".to_owned() })
        };
        let page = filled(&markup, "<script></script>", named).expect("all places are there");
        let lines: Vec<&str> = page.lines().collect();
        assert_eq!(lines[1], CHARSET);
        assert!(
            lines[2].contains("Content-Security-Policy") && lines[2].contains("script-src 'self' 'wasm-unsafe-eval'")
        );
        assert_eq!(lines[3], format!("{STYLESHEET}./style-1.css\" integrity=\"sha384-x\">"));
        assert_eq!(lines[4], "<script></script>");
        let error = filled("<head></head>", "", |_| unreachable!()).expect_err("no place for the policy");
        assert!(error.to_string().contains(CHARSET), "{error}");
    }
}
