//! Trace of a run, written during the run. The file is complete after every record. Its closing follows the last event,
//! and the next record's events overwrite it.
//!
//! A compressed file is a sequence of gzip members (RFC 1952, section 2.2), one for each record and one for the
//! closing.

use parallax_workloads::Registry;
use std::fs::File;
use std::io::{BufWriter, Result, Seek, SeekFrom, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use parallax_analysis::trace;
use parallax_analysis::trace::{Event, Layout};
use parallax_schema::record::{Record, Run};
use parallax_schema::units::Bytes;

/// Limit in bytes for a warning. Viewers in browsers hold a whole trace in memory, at many times its size. Beyond this
/// limit they become slow or fail.
const LARGE: u64 = 100_000_000;
/// Size of the writes to the disk, in bytes.
const PIECE: usize = 1 << 16;

/// Destination of a trace.
pub trait Medium: Write + Seek {
    /// Truncates the destination to this length.
    fn cut(&mut self, length: u64) -> Result<()>;
}

impl Medium for File {
    fn cut(&mut self, length: u64) -> Result<()> {
        self.set_len(length)
    }
}

/// Open trace.
pub struct TraceFile<M> {
    medium: M,
    gzip: bool,
    layout: Layout,
    /// Offset of the end of the events and the start of the closing.
    end: u64,
    /// Bytes of text so far, uncompressed and without the closing.
    text: u64,
    records: usize,
    told: bool,
}

impl<M: Medium> TraceFile<M> {
    /// Creates a file without events, of a run without records.
    pub fn begin(medium: M, gzip: bool, run: &Run) -> Result<TraceFile<M>> {
        let layout = Layout::of(run);
        let mut file = TraceFile { medium, gzip, layout, end: 0, text: 0, records: 0, told: false };
        file.append(run, |_, write| write(&trace::opening(run)))?;
        Ok(file)
    }

    /// Writes a record's events. Passes a warning to `tell` before the write if the file will be too large for viewers.
    pub fn push(&mut self, run: &Run, record: &Record, tell: &mut dyn FnMut(&str)) -> Result<()> {
        let left = run.planned.len().saturating_sub(self.records).max(1) as u64;
        let expected = self.text + trace::estimate(record) * left;
        if expected > LARGE && !self.told {
            self.told = true;
            tell(&too_large(expected, self.gzip));
        }
        self.records += 1;
        self.append(run, |layout, write| {
            layout.record(record, &Registry, &mut |event: Event| write(&trace::line(&event)))
        })
    }

    /// Writes the events that need the whole run. Returns the size of the file.
    pub fn finish(mut self, run: &Run) -> Result<Bytes> {
        self.append(run, |layout, write| layout.end(run, &mut |event: Event| write(&trace::line(&event))))?;
        self.medium.flush()?;
        Ok(Bytes(self.medium.seek(SeekFrom::End(0))?))
    }

    /// Writes text over the closing, then the closing.
    fn append(
        &mut self,
        run: &Run,
        events: impl FnOnce(&mut Layout, &mut dyn FnMut(&str) -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        self.medium.seek(SeekFrom::Start(self.end))?;
        let (layout, written) = (&mut self.layout, &mut self.text);
        part(&mut self.medium, self.gzip, |out| {
            events(layout, &mut |text| {
                *written += text.len() as u64;
                out.write_all(text.as_bytes())
            })
        })?;
        self.end = self.medium.stream_position()?;
        let closing = self.layout.closing(run);
        part(&mut self.medium, self.gzip, |out| out.write_all(closing.as_bytes()))?;
        let length = self.medium.stream_position()?;
        self.medium.cut(length)
    }
}

/// Writes a part, compressed or not, in writes of limited size.
fn part<M: Medium>(medium: &mut M, gzip: bool, fill: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let mut medium = BufWriter::with_capacity(PIECE, medium);
    if gzip {
        let mut encoder = GzEncoder::new(&mut medium, Compression::default());
        fill(&mut encoder)?;
        encoder.finish()?;
    } else {
        fill(&mut medium)?;
    }
    medium.flush()
}

fn too_large(expected: u64, gzip: bool) -> String {
    let remedy = if gzip { "a shorter --schedule" } else { "--trace-gzip or a shorter --schedule" };
    format!("the trace will have about {} of text; viewers fail beyond {}: use {remedy}", Bytes(expected), Bytes(LARGE))
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Read};

    use super::*;
    use flate2::read::MultiGzDecoder;
    use parallax_engine::plan::Plan;
    use parallax_schema::device::{Compiled, MemoryStats, Span, SpanKind, Trace, TraceSource, Track};
    use parallax_schema::record::{Measured, Outcome, Phase, Suite};
    use parallax_schema::spec::Spec;
    use parallax_schema::testing::exact;
    use parallax_schema::units::Nanos;
    use parallax_testing::mock::{Fault, Mock};
    use parallax_workloads::parse_case;
    use serde_json::Value;

    /// Memory that records the size of its largest write.
    #[derive(Default)]
    struct Counting {
        memory: Cursor<Vec<u8>>,
        largest: usize,
    }

    impl Write for Counting {
        fn write(&mut self, bytes: &[u8]) -> Result<usize> {
            self.largest = self.largest.max(bytes.len());
            self.memory.write(bytes)
        }
        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
    }

    impl Seek for Counting {
        fn seek(&mut self, to: SeekFrom) -> Result<u64> {
            self.memory.seek(to)
        }
    }

    impl Medium for &mut Counting {
        fn cut(&mut self, length: u64) -> Result<()> {
            self.memory.get_mut().truncate(length as usize);
            Ok(())
        }
    }

    const CASE: &str = "attention/fwd/b1,h1,s3,d2/f32/flash";

    fn run() -> Run {
        let suite = Suite { version: "0.0.0".to_owned(), commit: "0000000".to_owned() };
        let mut run = Plan::default().begin("mock", suite, &Mock::new(|_| 1.0, Fault::None), &Spec::default());
        run.planned = vec![CASE.to_owned(); 3];
        run
    }

    /// The `nth` record, with this number of executions of three spans and their annotation.
    fn record(nth: usize, executions: usize) -> Record {
        let begin = 1e9 * nth as f64;
        let span = |name: &str, kind, track, start: f64, end: f64| Span {
            name: name.to_owned(),
            kind,
            track,
            start: Nanos(start),
            end: Nanos(end),
            correlation: Some(1),
            ..Span::default()
        };
        let execution = |i: usize| {
            let at = begin + 1000.0 * i as f64;
            [
                span(&format!("ProfilerStep#{i}"), SpanKind::Annotation, Track::Host, at, at + 900.0),
                span("cuLaunchKernel", SpanKind::Runtime, Track::Host, at, at + 100.0),
                span("cuStreamSynchronize", SpanKind::Wait, Track::Host, at + 100.0, at + 900.0),
                span("flash", SpanKind::Kernel, Track::Gpu, at + 200.0, at + 850.0),
            ]
        };
        let case = parse_case(CASE).expect("a case");
        let end = begin + 1000.0 * executions as f64;
        let measured = Measured {
            compiled: Compiled::default(),
            check: exact(),
            timing: None,
            call: None,
            energy: None,
            counters: None,
            scores: Vec::new(),
            memory: MemoryStats::default(),
            launches: Vec::new(),
            analysis: None,
            trace: Some(Trace {
                spans: (0..executions).flat_map(execution).collect(),
                alignment_error: None,
                source: Some(TraceSource::Cupti),
            }),
            phases: vec![Phase { name: "trace".to_owned(), start: Nanos(begin), end: Nanos(end) }],
        };
        Record {
            case: CASE.to_owned(),
            parts: case.parts(),
            actual: None,
            device: 0,
            cost: case.problem.cost(),
            items: None,
            outcome: Outcome::Pass(Box::new(measured)),
        }
    }

    fn kernels(file: &[u8], gzip: bool) -> usize {
        let trace: Value = if gzip {
            serde_json::from_reader(std::io::BufReader::new(MultiGzDecoder::new(file))).expect("JSON")
        } else {
            serde_json::from_slice(file).expect("JSON")
        };
        trace["traceEvents"].as_array().expect("events").iter().filter(|e| e["cat"] == "kernel").count()
    }

    fn silent(line: &str) {
        panic!("nothing to say: {line}");
    }

    #[test]
    fn the_file_is_whole_after_every_record() {
        for gzip in [false, true] {
            let (mut medium, mut run) = (Counting::default(), run());
            let mut file = TraceFile::begin(&mut medium, gzip, &run).expect("memory");
            assert_eq!(kernels(file.medium.memory.get_ref(), gzip), 0);
            for nth in 0..3 {
                file.push(&run, &record(nth, 4), &mut silent).expect("memory");
                assert_eq!(kernels(file.medium.memory.get_ref(), gzip), 4 * (nth + 1));
            }
            run.interrupted = Some("stopped on request".to_owned());
            let size = file.finish(&run).expect("memory");
            assert_eq!(size.0 as usize, medium.memory.get_ref().len());
            assert_eq!(kernels(medium.memory.get_ref(), gzip), 12);
        }
    }

    /// The text equals that of a single write, which other tests check against the rules of viewers.
    #[test]
    fn a_file_written_in_parts_is_the_file_written_at_once() {
        let (mut medium, mut run) = (Counting::default(), run());
        let mut file = TraceFile::begin(&mut medium, true, &run).expect("memory");
        for nth in 0..2 {
            file.push(&run, &record(nth, 5), &mut silent).expect("memory");
            run.records.push(record(nth, 5));
        }
        file.finish(&run).expect("memory");
        let mut text = String::new();
        MultiGzDecoder::new(&medium.memory.get_ref()[..]).read_to_string(&mut text).expect("whole members");
        assert!(text == trace::text(&run, &Registry));
    }

    #[test]
    fn a_hundred_thousand_spans_go_through_a_small_buffer() {
        for gzip in [false, true] {
            let (mut medium, mut run) = (Counting::default(), run());
            run.planned.resize(10, CASE.to_owned());
            let mut file = TraceFile::begin(&mut medium, gzip, &run).expect("memory");
            let mut told = Vec::new();
            file.push(&run, &record(0, 25_000), &mut |line| told.push(line.to_owned())).expect("memory");
            assert!(file.text > 20_000_000, "{} bytes of text", file.text);
            file.finish(&run).expect("memory");
            assert!(medium.largest <= PIECE, "{} bytes at once", medium.largest);
            assert_eq!(kernels(medium.memory.get_ref(), gzip), 25_000);
            let remedy = if gzip { "use a shorter --schedule" } else { "use --trace-gzip or a shorter" };
            assert!(matches!(&told[..], [line] if line.contains(remedy)), "ten such cases are too large: {told:?}");
        }
    }
}
