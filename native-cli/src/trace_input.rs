//! Trace files that the user names, compressed with gzip or not.

use std::fs::File;
use std::io::{BufReader, Error, ErrorKind, Read, Result};
use std::path::Path;

use anyhow::Context;
use parallax_analysis::trace::stages::{StageTimes, stage_times};
use parallax_schema::units::Bytes;

use crate::reading::unpacked;

/// Limit on the text of a trace, in bytes. Viewers fail beyond a tenth of it.
const LONGEST: u64 = 1 << 30;

/// Reads the times of a trace's stages.
///
/// # Errors
/// File that cannot be read, is no trace, or has more than a gibibyte of text.
pub fn read(path: &Path) -> anyhow::Result<StageTimes> {
    let cannot = || format!("cannot read {}", path.display());
    if path.is_dir() {
        anyhow::bail!("{} is a folder; name a trace file in it, as in run.trace.json", path.display());
    }
    let file = File::open(path).with_context(cannot)?;
    times_of(file, LONGEST).with_context(cannot)
}

fn times_of(file: impl Read, longest: u64) -> anyhow::Result<StageTimes> {
    let text = unpacked(file)?;
    Ok(stage_times(BufReader::new(Limited { text, left: longest, longest }))?)
}

/// Reader that fails beyond a number of bytes. A small compressed file may have much text.
struct Limited<R> {
    text: R,
    left: u64,
    longest: u64,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let length = self.text.read(buffer)?;
        match self.left.checked_sub(length as u64) {
            Some(left) => self.left = left,
            None => {
                let why = format!("it has more than {} of text, the limit for traces", Bytes(self.longest));
                return Err(Error::new(ErrorKind::FileTooLarge, why));
            }
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    const TRACE: &str = r#"{"traceEvents":[{"ph":"X","cat":"kernel","name":"a","dur":1}]}"#;

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes()).expect("memory");
        encoder.finish().expect("memory")
    }

    #[test]
    fn compressed_traces_are_those_inside() {
        let plain = times_of(TRACE.as_bytes(), LONGEST).expect("a trace");
        assert_eq!(plain.len(), 1);
        assert_eq!(times_of(&gzip(TRACE)[..], LONGEST).expect("a trace"), plain);
        let (begin, end) = TRACE.split_at(20);
        assert_eq!(times_of(&[gzip(begin), gzip(end)].concat()[..], LONGEST).expect("two members"), plain);
        assert_eq!(times_of(TRACE.as_bytes(), TRACE.len() as u64).expect("as long as the limit"), plain);
    }

    #[test]
    fn truncated_and_large_files_are_refused() {
        let packed = gzip(TRACE);
        let said = |bytes: &[u8], longest| format!("{:#}", times_of(bytes, longest).expect_err("no trace"));
        for cut in [0, 1, 2, 9, packed.len() - 9, packed.len() - 1] {
            assert_eq!(said(&packed[..cut], LONGEST).lines().count(), 1, "{cut}");
        }
        // A small file with much text inside.
        let bomb = gzip(&format!("{}{TRACE}", " ".repeat(100_000)));
        assert!(
            bomb.len() < 1000 && said(&bomb, 50_000).contains("more than 50.0 kB of text"),
            "{}",
            said(&bomb, 50_000)
        );
    }
}
