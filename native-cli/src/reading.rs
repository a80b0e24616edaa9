//! Run files that the user names, in all forms that tools produce: compressed with gzip, in UTF-16, or a trace beside
//! its run.

use std::io::{BufReader, Cursor, ErrorKind, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use flate2::read::MultiGzDecoder;
use parallax_report::Peers;
use parallax_schema::record::{HEAD, Run, decoded, is_gzip, is_trace};
use parallax_schema::units::Bytes;
use serde_json::Value;

use crate::console::noteln;

/// Limit on the text of a run, in bytes, and on an object of a store. A run of every case of every preset takes a twentieth of it.
pub const LONGEST: u64 = 256 << 20;

/// File name that stands for standard input.
const STDIN: &str = "-";

/// Returns the runs of the files, each with its file. Among several files, the program's other outputs are skipped with
/// a note: traces, tables of `run --a-a`, figures of other libraries, and folders.
///
/// # Errors
/// File that cannot be read or is no run; no run among the files.
pub fn runs(files: &[PathBuf]) -> anyhow::Result<Vec<(&Path, Run)>> {
    if files.iter().filter(|path| *path == Path::new(STDIN)).count() > 1 {
        bail!("standard input (`{STDIN}`) can be read only once");
    }
    let mut runs = Vec::new();
    let mut others = Vec::new();
    for path in files {
        match contents(path)? {
            Contents::Runs(these) => runs.extend(these.into_iter().map(|run| (path.as_path(), run))),
            Contents::Other(what) => others.push((path, what)),
        }
    }
    match &others[..] {
        [(path, what), ..] if runs.is_empty() => bail!("{}: {}", path.display(), what.alone(path)),
        [] => {}
        _ => {
            let names: Vec<String> = others.iter().map(|(path, what)| what.beside(path, files)).collect();
            noteln!("passed over: {}", names.join(", "));
        }
    }
    Ok(runs)
}

/// Returns the runs of one file; `None` for the program's other outputs.
///
/// # Errors
/// File that cannot be read or is no run.
pub fn one(path: &Path) -> anyhow::Result<Option<Vec<Run>>> {
    Ok(match contents(path)? {
        Contents::Runs(runs) => Some(runs),
        Contents::Other(_) => None,
    })
}

/// Returns the runs of an object of this name; `None` for the program's other outputs.
///
/// # Errors
/// Bytes that are no run.
pub fn object(name: &str, mut bytes: &[u8]) -> anyhow::Result<Option<Vec<Run>>> {
    let text = text(&mut bytes, true).with_context(|| format!("cannot read {name}"))?;
    Ok(match contents_of(Path::new(name), text)? {
        Contents::Runs(runs) => Some(runs),
        Contents::Other(_) => None,
    })
}

/// Returns whether a file is compressed. No line can be appended to such a file.
pub fn is_compressed(path: &Path) -> bool {
    let mut head = [0; 2];
    std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok() && is_gzip(&head)
}

/// Contents of a file.
enum Contents {
    Runs(Vec<Run>),
    Other(Other),
}

/// Files that are no runs, but lie beside runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Other {
    Trace,
    Table,
    Peers,
    Folder,
}

impl Other {
    /// Returns the advice for a user with no other file.
    fn alone(self, path: &Path) -> String {
        match (self, run_of(path)) {
            (Other::Trace, Some(run)) if run.is_file() => {
                format!("this is the trace of {}; name that file", run.display())
            }
            (Other::Trace, Some(run)) => format!("this is the trace of {}, which is not there", run.display()),
            (Other::Trace, None) => "this is a trace and no run; name the file of its run".to_owned(),
            (Other::Table, _) => "this is a table of `run --a-a`; name the files of its runs".to_owned(),
            (Other::Peers, _) => {
                "these are figures of other libraries and no run; `site --peers` shows them".to_owned()
            }
            (Other::Folder, _) => "this is a folder; name the run files in it".to_owned(),
        }
    }

    /// Returns a short note for a list of files.
    fn beside(self, path: &Path, files: &[PathBuf]) -> String {
        let path_shown = path.display();
        match (self, run_of(path)) {
            (Other::Trace, Some(run)) if !files.contains(&run) => {
                format!("{path_shown} (the trace of {}, which was not named)", run.display())
            }
            (Other::Trace, _) => format!("{path_shown} (a trace)"),
            (Other::Table, _) => format!("{path_shown} (a table)"),
            (Other::Peers, _) => format!("{path_shown} (figures of other libraries)"),
            (Other::Folder, _) => format!("{path_shown} (a folder)"),
        }
    }
}

/// Returns the run file of a trace, by the names that `run` gives traces; `None` for other names.
fn run_of(trace: &Path) -> Option<PathBuf> {
    let name = trace.file_name()?.to_str()?;
    let stem = name.strip_suffix(".gz").unwrap_or(name).strip_suffix(".trace.json")?;
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let resumed = stem.rsplit_once(".resumed-").filter(|(_, after)| number(after));
    let stem = resumed.map_or(stem, |(before, _)| before);
    Some(trace.with_file_name(format!("{stem}.json")))
}

fn contents(path: &Path) -> anyhow::Result<Contents> {
    let unreadable = || format!("cannot read {}", path.display());
    let text = if path == Path::new(STDIN) {
        text(&mut std::io::stdin().lock(), true).with_context(unreadable)?
    } else if path.is_dir() {
        return Ok(Contents::Other(Other::Folder));
    } else {
        text(&mut std::fs::File::open(path).with_context(unreadable)?, true).with_context(unreadable)?
    };
    contents_of(path, text)
}

/// Returns the contents of a text under a name; no text is that of a trace.
fn contents_of(path: &Path, text: Option<String>) -> anyhow::Result<Contents> {
    let Some(text) = text else { return Ok(Contents::Other(Other::Trace)) };
    let table =
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("a-a-")) && text.starts_with('|');
    if table {
        return Ok(Contents::Other(Other::Table));
    }
    match parsed(&text) {
        Ok(runs) => Ok(Contents::Runs(runs)),
        Err(_) if Peers::parse(&text).is_ok() => Ok(Contents::Other(Other::Peers)),
        Err(error) => Err(error.context(path.display().to_string())),
    }
}

/// Returns the contents of a file, unpacked if gzip compressed it.
///
/// # Errors
/// Errors of the system; while it is read, those of the decompressor.
pub fn unpacked<'r>(mut file: impl Read + 'r) -> std::io::Result<Box<dyn Read + 'r>> {
    let mut head = Vec::new();
    file.by_ref().take(2).read_to_end(&mut head)?;
    let is_packed = is_gzip(&head);
    let whole = Cursor::new(head).chain(file);
    Ok(if is_packed { Box::new(MultiGzDecoder::new(BufReader::new(whole))) } else { Box::new(whole) })
}

/// Returns the text of a file; `None` for a trace, of which only the beginning is read.
///
/// # Errors
/// Errors of the system or the decompressor; text beyond [`LONGEST`].
fn text(from: &mut dyn Read, unpack: bool) -> std::io::Result<Option<String>> {
    let mut head = Vec::new();
    from.take(HEAD as u64).read_to_end(&mut head)?;
    if is_gzip(&head) {
        let mut unpacked = MultiGzDecoder::new(Cursor::new(head).chain(from));
        return match unpack {
            true => text(&mut unpacked, false),
            false => Err(std::io::Error::new(ErrorKind::InvalidData, "it is compressed with gzip twice; unpack it")),
        };
    }
    if is_trace(&decoded(&head)) {
        return Ok(None);
    }
    let mut bytes = head;
    match from.take(LONGEST + 1).read_to_end(&mut bytes) {
        // A truncated compressed file still has its beginning, as any other truncated file.
        Err(error) if error.kind() != ErrorKind::UnexpectedEof => Err(error),
        _ if bytes.len() as u64 > LONGEST => {
            let why = format!("it has more than {} of text, the limit for runs", Bytes(LONGEST));
            Err(std::io::Error::new(ErrorKind::FileTooLarge, why))
        }
        _ => Ok(Some(decoded(&bytes).into_owned())),
    }
}

/// Parses the runs of a text: one run, or a list in the format of `run --json`.
///
/// # Errors
/// Text that is no run, or has invalid values.
pub fn parsed(text: &str) -> anyhow::Result<Vec<Run>> {
    if text.trim_start().starts_with('[')
        && let Ok(several) = serde_json::from_str::<Vec<Value>>(text)
        && !several.is_empty()
    {
        let run = |(number, one): (usize, Value)| {
            Run::parse(&one.to_string()).with_context(|| format!("run {number} of the list"))
        };
        return (1..).zip(several).map(run).collect();
    }
    Ok(vec![Run::parse(text)?])
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use parallax_schema::testing;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).expect("memory");
        encoder.finish().expect("memory")
    }

    /// Reader of endless text that counts the requested bytes.
    struct Endless {
        begins: Cursor<Vec<u8>>,
        read: u64,
    }

    impl Read for Endless {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let n = self.begins.read(into)?;
            into[n..].fill(b' ');
            self.read += into.len() as u64;
            Ok(into.len())
        }
    }

    #[test]
    fn a_trace_of_any_length_is_known_by_its_beginning() {
        let trace = parallax_analysis::trace::text(&testing::run("cuda", "X", &[]), &parallax_workloads::Registry);
        let utf16: Vec<u8> = trace.encode_utf16().flat_map(u16::to_le_bytes).collect();
        for begins in [trace.clone().into_bytes(), [&[0xff, 0xfe], &utf16[..]].concat(), gzip(trace.as_bytes())] {
            let mut endless = Endless { begins: Cursor::new(begins), read: 0 };
            assert_eq!(text(&mut endless, true).expect("readable"), None);
            assert!(endless.read <= 1 << 16, "{} bytes", endless.read);
        }
    }

    #[test]
    fn compressed_runs_are_read_in_parts_cut_off_and_bounded() {
        let run = serde_json::to_string(&testing::run("cuda", "X", &[])).expect("JSON");
        let (a, b) = run.split_at(run.len() / 2);
        let members = [gzip(a.as_bytes()), gzip(b.as_bytes())].concat();
        let read = |bytes: &[u8]| text(&mut &bytes[..], true);
        assert_eq!(read(&members).expect("two members").as_deref(), Some(run.as_str()));
        let cut = read(&members[..members.len() - 4]).expect("cut off").expect("no trace");
        assert!(run.starts_with(&cut) && cut.len() > a.len() / 2, "{cut}");
        let twice = read(&gzip(&gzip(run.as_bytes()))).expect_err("packed twice").to_string();
        assert!(twice.contains("gzip twice"), "{twice}");
        let mut bomb = GzEncoder::new(Vec::new(), Compression::fast());
        for _ in 0..=LONGEST >> 20 {
            bomb.write_all(&[b' '; 1 << 20]).expect("memory");
        }
        let bomb = bomb.finish().expect("memory");
        let said = read(&bomb).expect_err("a bomb").to_string();
        assert!(bomb.len() < 4 << 20 && said.contains("268 MB of text"), "{said}");
    }

    #[test]
    fn figures_of_other_libraries_are_passed_over_beside_runs() {
        let folder = tempfile::tempdir().expect("a folder");
        let [run, peers] = ["run.json", "peers.json"].map(|name| folder.path().join(name));
        std::fs::write(&run, serde_json::to_string(&testing::run("cuda", "X", &[])).expect("JSON")).expect("a file");
        let text = r#"{"schema":"parallax-peers","device":"X","figures":[]}"#;
        std::fs::write(&peers, text).expect("a file");
        assert!(matches!(one(&peers), Ok(None)));
        assert_eq!(runs(&[run, peers.clone()]).expect("one run").len(), 1);
        let alone = runs(&[peers]).expect_err("no run").to_string();
        assert!(alone.contains("figures of other libraries and no run"), "{alone}");
    }

    #[test]
    fn a_trace_names_the_file_of_its_run() {
        for (trace, run) in [
            ("r/cuda-1.trace.json", Some("r/cuda-1.json")),
            ("cuda-1.trace.json.gz", Some("cuda-1.json")),
            ("r/a.resumed-2.trace.json", Some("r/a.json")),
            ("r/a.resumed-x.trace.json", Some("r/a.resumed-x.json")),
            ("renamed.json", None),
            ("-", None),
        ] {
            assert_eq!(run_of(Path::new(trace)), run.map(PathBuf::from), "{trace}");
        }
    }
}
