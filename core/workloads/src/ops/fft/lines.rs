//! Stages of the variant `lines`: each transforms lines of a power of two, several of them in a workgroup.
//!
//! A line is a row, a column, or a part of either. A workgroup keeps its lines in registers and workgroup memory, and reads and writes
//! them once. A longer transform of N = N₁·N₂ elements has two stages (Bailey's four steps, without transposes): lines of every N₂-th
//! element, times `exp(−2πi·k₁·j₂/N)`; then lines of N₂ neighbours, written N₁ apart.

use parallax_ir::Access::{Read, Write};
use parallax_ir::{CudaLaunch, Problem, Program, Stage, by_pieces, spread};
use parallax_schema::case::Cost;
use parallax_schema::device::{Caps, Dialect};

use super::{complex, inverse, real};

/// Lines of a stage. Distances are in complex numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lines {
    /// Elements of a line.
    len: u64,
    /// Groups of lines, their distance in the input and in the output.
    outer: [u64; 3],
    /// Groups within those, likewise.
    middle: [u64; 3],
    /// Neighbouring lines.
    inner: u64,
    /// Distance of neighbours in a line, in the input and in the output.
    apart: [u64; 2],
    /// Length of the whole transform of which these are the first part, and neighbouring lines with the same factor.
    part_of: Option<[u64; 2]>,
    /// Whether the input is real, in pairs, and the result half of a spectrum.
    real: bool,
}

/// Shortest line: two threads, which change places once.
const SHORTEST: u64 = 16;
/// Longest line of the stages of a split transform, and of any in CUDA.
const MOST: u64 = 16_384;

/// Checks that lines of powers of two make the transform.
pub(super) fn available(p: &Problem, caps: &Caps) -> Result<(), String> {
    let line = if real(p) { p["n"] / 2 } else { p["n"] };
    let columns = (p["m"] > 1).then_some(p["m"]);
    for extent in std::iter::once(line).chain(columns) {
        if !extent.is_power_of_two() || extent < SHORTEST {
            return Err(format!("lines are powers of two from {SHORTEST} on, not {extent}"));
        }
        if extent > most(caps) && first_part(extent) > most(caps) {
            return Err(format!(
                "a workgroup keeps {} elements, and each of two stages takes at most as many",
                most(caps)
            ));
        }
    }
    if real(p) && !p["n"].is_multiple_of(2) {
        return Err("pairs of real numbers are complex ones: n is even".to_owned());
    }
    Ok(())
}

/// Length of the lines of the first part of a split transform.
fn first_part(len: u64) -> u64 {
    1 << len.ilog2().div_ceil(2)
}

/// Elements per thread.
fn each(len: u64, caps: &Caps) -> u64 {
    if caps.dialect == Dialect::Cuda && len >= 256 { 16 } else { 8 }
}

/// Elements that a workgroup keeps.
fn most(caps: &Caps) -> u64 {
    let fits = |elements: &u64| {
        let threads = elements / each(*elements, caps);
        let bytes = match caps.dialect {
            Dialect::Cuda => 8 * (elements + elements / 16 + 256),
            _ => 4 * (elements + elements / 8 + 64),
        };
        threads <= u64::from(caps.max_invocations.min(caps.max_workgroup[0])) && bytes <= shared_memory(caps)
    };
    (3..=MOST.ilog2()).rev().map(|power| 1 << power).find(fits).unwrap_or(SHORTEST)
}

fn shared_memory(caps: &Caps) -> u64 {
    caps.cuda
        .filter(|_| caps.dialect == Dialect::Cuda)
        .map_or(u64::from(caps.shared_bytes), |cuda| u64::from(cuda.max_block_shared_bytes))
}

impl Lines {
    /// Whether neighbouring threads access neighbours of a line, in the input and in the output. They access neighbouring lines
    /// otherwise.
    fn along(&self) -> [bool; 2] {
        self.apart.map(|apart| apart == 1)
    }

    fn count(&self) -> u64 {
        self.outer[0] * self.middle[0] * self.inner
    }

    /// Lines of a workgroup.
    fn at_once(&self, caps: &Caps) -> u64 {
        let (threads, most) = (self.len / each(self.len, caps), most(caps) / self.len);
        let (usual, half) = if caps.dialect == Dialect::Cuda { (256, MOST / 2) } else { (64, most * self.len) };
        let wanted = match self.along() {
            [true, true] => usual / threads.min(usual),
            // Eight neighbouring lines are 64 bytes; sixteen are better, unless a multiprocessor then had one block alone.
            _ => (half / self.len).clamp(8, 16).max(usual / 2 / threads.min(usual / 2)),
        };
        wanted.clamp(1, most.max(1))
    }

    /// Distance of lines in workgroup memory. In WGSL a word in nine is unused, in CUDA a complex number in seventeen. The rest of the
    /// distance lets lines of neighbouring threads use different banks.
    fn pitch(&self, caps: &Caps) -> u64 {
        if caps.dialect != Dialect::Cuda {
            return (self.len + self.len / 8) | 1;
        }
        let padded = self.len + self.len / 16;
        let rest = match self.along() {
            [true, true] => (self.len / each(self.len, caps)) % 16,
            _ => (16 / self.at_once(caps)).max(1),
        };
        padded + (16 + rest - padded % 16) % 16
    }

    fn stage(&self, p: &Problem, caps: &Caps, label: &'static str, [from, to]: [&'static str; 2]) -> Stage {
        let (each, at_once, pitch) = (each(self.len, caps), self.at_once(caps), self.pitch(caps));
        let [load_along, store_along] = self.along();
        // The radix of the first pass; that of the others is the number of elements of a thread.
        let first = match self.len.ilog2() % each.ilog2() {
            0 => each,
            rest => 1 << rest,
        };
        let threads = at_once * self.len / each;
        let [total, alike] = self.part_of.unwrap_or([1, 1]);
        let outputs = self.len + u64::from(self.real);
        let consts = [
            ("LEN", self.len),
            ("EACH", each),
            ("FIRST", first),
            ("LINES", self.count()),
            ("AT_ONCE", at_once),
            ("PITCH", pitch),
            ("THREADS", threads),
            ("MIDDLE", self.middle[0]),
            ("INNER", self.inner),
            ("OUTER_IN", self.outer[1]),
            ("OUTER_OUT", self.outer[2]),
            ("MIDDLE_IN", self.middle[1]),
            ("MIDDLE_OUT", self.middle[2]),
            ("APART_IN", self.apart[0]),
            ("APART_OUT", self.apart[1]),
            ("TOTAL", total),
            ("ALIKE", alike),
        ];
        let flags = [
            ("LOAD_ALONG", load_along),
            ("STORE_ALONG", store_along),
            ("FIRST_PART", self.part_of.is_some()),
            ("HALF_SPECTRUM", self.real),
            ("INVERSE", inverse(p)),
        ];
        let (read, written) = (8 * self.count() * self.len, 8 * self.count() * outputs);
        let stage = Stage::kernel(label, "fft/lines", "fft_lines")
            .consts(&consts.map(|(name, value)| (name, value as u32)))
            .consts(&flags)
            .threads([threads as u32, 1, 1])
            .grid(spread(self.count().div_ceil(at_once)))
            .args([("x", from, Read), ("roots", "roots", Read), ("out", to, Write)])
            .cost(Cost::new(5 * self.count() * self.len * u64::from(self.len.ilog2()), read, written));
        match caps.dialect {
            Dialect::Cuda => {
                let bytes = (8 * at_once * pitch) as u32;
                stage.cuda(CudaLaunch { dynamic_shared_bytes: bytes, ..CudaLaunch::default() })
            }
            _ => stage.shared((4 * at_once * pitch) as u32),
        }
    }
}

/// Lines that transform `len` elements, `inner` apart, of each of `outer` arrays: one stage, or two.
fn of_extent(len: u64, outer: u64, inner: u64, caps: &Caps) -> Vec<(&'static str, Lines)> {
    let span = len * inner;
    let whole = Lines {
        len,
        outer: [outer, span, span],
        middle: [1, 0, 0],
        inner,
        apart: [inner, inner],
        part_of: None,
        real: false,
    };
    let name = if inner == 1 { "rows" } else { "columns" };
    // Columns are transformed at once only if a workgroup takes several neighbours.
    let least = if inner == 1 { 1 } else { least_columns(caps) };
    if len * least <= most(caps) || len < SHORTEST * SHORTEST {
        return vec![(name, whole)];
    }
    let (first, second) = (first_part(len), len / first_part(len));
    let apart = second * inner;
    let strided = Lines { len: first, inner: apart, apart: [apart; 2], part_of: Some([len, inner]), ..whole };
    let last = Lines { len: second, middle: [first, apart, inner], inner, apart: [inner, first * inner], ..whole };
    vec![("first part", strided), ("second part", last)]
}

/// Fewest neighbouring columns of a workgroup that transforms columns at once. In CUDA four are 32 bytes, a sector of the caches.
fn least_columns(caps: &Caps) -> u64 {
    if caps.dialect == Dialect::Cuda { 4 } else { 8 }
}

pub(super) fn program(p: &Problem, caps: &Caps) -> Program {
    let (b, m, n) = (p["b"], p["m"], p["n"]);
    let half = n / 2;
    let mut parts = match real(p) {
        true => of_extent(half, b, 1, caps),
        false => of_extent(n, b * m, 1, caps),
    };
    if m > 1 {
        parts.extend(of_extent(m, b, n, caps));
    }
    let at_once = real(p) && parts.len() == 1;
    if at_once {
        parts[0].1 = Lines { real: true, outer: [b, half, half + 1], ..parts[0].1 };
    }
    // Results of a stage are the input of the next; the last writes the output.
    let stages = parts.len() + usize::from(real(p) && !at_once);
    let written = |stage: usize| if (stages - stage) % 2 == 1 { "out" } else { "between" };
    let read = |stage: usize| if stage == 0 { "x" } else { written(stage - 1) };
    let lines = parts.iter().enumerate();
    let mut all: Vec<Stage> =
        lines.map(|(at, (label, lines))| lines.stage(p, caps, label, [read(at), written(at)])).collect();
    if all.len() < stages {
        let at = all.len();
        let count = b * (half + 1);
        let spectrum = by_pieces(count, 1, "fft/half_spectrum", "fft_half_spectrum")
            .consts(&[("HALF", half as u32)])
            .args([("z", read(at), Read), ("roots", "roots", Read), ("out", written(at), Write)])
            .cost(Cost::new(10 * count, 8 * complex(p), 8 * count));
        all.push(spectrum);
    }
    Program { stages: all }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;
    use parallax_schema::testing::{caps, hopper};

    /// Place of an element of a line, in the input (0) or the output (1).
    fn place(lines: &Lines, line: u64, at: u64, side: usize) -> u64 {
        let (inner, middle) = (line % lines.inner, line / lines.inner % lines.middle[0]);
        let outer = line / lines.inner / lines.middle[0];
        outer * lines.outer[1 + side] + middle * lines.middle[1 + side] + inner + at * lines.apart[side]
    }

    #[test]
    fn lines_have_every_element_once_and_fit_their_workgroups() {
        for (len, outer, inner) in
            [(16, 3, 1), (2048, 2, 1), (1 << 17, 2, 1), (512, 2, 16), (4096, 1, 16), (8192, 1, 16)]
        {
            for caps in [caps(), hopper()] {
                for (label, lines) in of_extent(len, outer, inner, &caps) {
                    for side in [0, 1] {
                        let of_line = |line| (0..lines.len).map(move |at| place(&lines, line, at, side));
                        let mut places: Vec<u64> = (0..lines.count()).flat_map(of_line).collect();
                        places.sort_unstable();
                        assert!(places.iter().copied().eq(0..len * outer * inner), "{label} of {len} {inner} {side}");
                    }
                    let threads = lines.at_once(&caps) * lines.len / each(lines.len, &caps);
                    assert!(threads <= u64::from(caps.max_invocations), "{lines:?}");
                    let number = if caps.dialect == Dialect::Cuda { 8 } else { 4 };
                    assert!(lines.at_once(&caps) * lines.pitch(&caps) * number <= shared_memory(&caps), "{lines:?}");
                }
            }
        }
    }

    #[test]
    fn stages_begin_at_the_input_and_end_at_the_output() {
        for (shape, stages) in [
            ("b3,n2048,c2c", [1, 1]),
            ("b1,n4096,c2c", [2, 1]),
            ("b1,n1048576,c2c", [2, 2]),
            ("b1,n4096,r2c", [1, 1]),
            ("b1,n65536,r2c", [3, 3]),
            ("b1,n256,m256,c2c", [2, 2]),
            ("b1,n4096,m4096,c2c", [4, 2]),
        ] {
            for (caps, count) in [caps(), hopper()].iter().zip(stages) {
                let case = parse_case(&format!("fft/fwd/{shape}/f32/lines")).expect("valid");
                let all = case.program(caps).expect("kernels").stages;
                assert_eq!(all.len(), count, "{shape}");
                assert_eq!((all[0].args[0].buffer, all[count - 1].args[2].buffer), ("x", "out"), "{shape}");
                for pair in all.windows(2) {
                    assert_eq!(pair[0].args[2].buffer, pair[1].args[0].buffer, "{shape}");
                    assert_ne!(pair[1].args[0].buffer, pair[1].args[2].buffer, "{shape}");
                }
            }
        }
    }
}
