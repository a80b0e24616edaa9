//! `marching`: threads that go over the slowest axis of the image and read each element once.
//!
//! A thread owns a few neighbouring columns (or, where channels are last, a few neighbouring channels of a few columns) of a
//! few rows, and a strip of the slowest axis. It reads the slices of its strip one after the other and adds each to the results
//! that it has a part in, so that what is kept in registers are results in the making and never the image. What neighbours
//! read as well, they get from the first cache.

use super::volume::Volume;
use crate::suite::Access::{Read, Write};
use crate::suite::{Allowed, Arg, Caps, Dialect, Problem, Stage, Tunable, spread, width};
use crate::units::gcd;

/// What is left open; the variants of all directions that march are called so.
pub(in crate::suite) const NAME: &str = "marching";
pub(in crate::suite) const TUNABLES: &[Tunable] = &[STRIP, ACROSS, DOWN, AHEAD];
/// The same in two dimensions, where a thread has one row.
pub(in crate::suite) const FLAT_TUNABLES: &[Tunable] = &[STRIP, ACROSS, AHEAD];

const STRIP: Tunable = Tunable {
    name: "STRIP",
    about: "most slices of the slowest axis that a thread goes over",
    allowed: Allowed::OneOf(&[8, 16, 32, 64, 128]),
    default: 64,
};
const ACROSS: Tunable = Tunable {
    name: "ACROSS",
    about: "most columns of a thread, where channels are last",
    allowed: Allowed::OneOf(&[1, 2, 4]),
    default: 2,
};
const DOWN: Tunable = Tunable {
    name: "DOWN",
    about: "most rows of a thread, in three dimensions",
    allowed: Allowed::OneOf(&[1, 2, 4]),
    default: 2,
};
const AHEAD: Tunable = Tunable {
    name: "AHEAD",
    about: "rows that are under way before they are needed, in CUDA",
    allowed: Allowed::OneOf(&[1, 2, 3, 4]),
    default: 2,
};

/// Threads of a workgroup.
pub(in crate::suite) const THREADS: u64 = 128;
/// Results in the making, and taps of all its channels, that a thread keeps in registers at most. WGSL, which has pieces of four
/// or of one only, keeps more taps before it gives up vectors.
const MOST_KEPT: u64 = 64;
const MOST_TAPS: u64 = 64;
const MOST_TAPS_WGSL: u64 = 112;
/// Bytes of taps that a workgroup keeps in its memory at most: what WebGPU promises.
const MOST_SHARED: u64 = 16_384;
/// Columns under a thread's taps that texts are unrolled for.
const MOST_COLUMNS: u64 = 40;
/// Threads that a multiprocessor is given before strips are made longer, and multiprocessors where their number is not known.
const THREADS_PER_UNIT: u64 = 1024;
const UNITS: u64 = 32;
/// Slices of a strip at least: each strip begins with some that the one before has read.
const LEAST_STRIP: u64 = 4;

/// How threads share a convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::suite) struct Share {
    /// Elements of a piece.
    pub width: u64,
    /// Columns and rows of a thread.
    pub along: u64,
    pub down: u64,
    /// Results in the making along the slowest axis.
    pub in_flight: u64,
    /// Slices of a strip.
    pub strip: u64,
    /// Threads that share an image of one example (of one channel, where channels are not last), in this order: pieces of
    /// channels, groups of columns, groups of rows, strips.
    pub channels: u64,
    pub units: u64,
    pub tiles: u64,
    pub strips: u64,
}

impl Share {
    /// How many results in the making a thread has at each place, whatever the device.
    fn in_flight(v: &Volume) -> u64 {
        v.dilation[0] * (v.kernel[0] - 1) / v.stride[0] + 1
    }

    /// Of a problem's convolution, where a thread keeps so many other sums of each channel.
    pub fn of(v: &Volume, p: &Problem, caps: &Caps, sums: u64) -> Share {
        let tuned = |tunable| u64::from(caps.tuned(p, NAME, tunable));
        let in_flight = Share::in_flight(v);
        // Pieces are never cut: their width divides rows on both sides.
        let width = match v.channels_last {
            // Each channel has taps of its own, which are kept.
            true => {
                let (widths, most) = match caps.dialect {
                    Dialect::Wgsl => ([4, 1, 1], MOST_TAPS_WGSL),
                    _ => ([4, 2, 1], MOST_TAPS),
                };
                let widest = width(v.c, p.dtype, caps);
                widths.into_iter().find(|wide| *wide <= widest && wide * v.taps() <= most).unwrap_or(1)
            }
            false => width(gcd(v.image[2], v.out[2]), p.dtype, caps),
        };
        let lanes = if v.channels_last { width } else { 1 };
        let room = (MOST_KEPT.saturating_sub(sums * lanes / 3) / (in_flight * width)).max(1);
        let fits = |wanted: u64, extent: u64, room: u64| {
            let wanted = wanted.min(extent.next_power_of_two()).min(room);
            1 << wanted.max(1).ilog2()
        };
        let across = if v.channels_last { fits(tuned(&ACROSS), v.out[2], room) } else { 1 };
        // In WGSL more than one row of pieces of columns only costs registers.
        let one = caps.dialect == Dialect::Wgsl && !v.channels_last && sums == 0;
        let down = if one { 1 } else { fits(tuned(&DOWN), v.out[1], room / across) };
        let along = if v.channels_last { across } else { width };
        let channels = if v.channels_last { v.c / width } else { 1 };
        let (units, tiles) = (v.out[2].div_ceil(along), v.out[1].div_ceil(down));
        let images = if v.channels_last { v.n } else { v.n * v.c };
        let threads = images * channels * units * tiles;
        let wanted = caps.units.map_or(UNITS, u64::from) * THREADS_PER_UNIT;
        let fill = wanted.div_ceil(threads).min(v.out[0].div_ceil(LEAST_STRIP));
        let strips = v.out[0].div_ceil(tuned(&STRIP)).max(fill);
        let strip = v.out[0].div_ceil(strips);
        let strips = v.out[0].div_ceil(strip);
        Share { width, along, down, in_flight, strip, channels, units, tiles, strips }
    }

    /// Groups of threads, each of which goes over a strip of the same channels.
    pub fn walks(&self, n: u64) -> u64 {
        n * self.units * self.tiles * self.strips
    }

    /// What texts are told of it, beside the convolution itself.
    pub fn consts(&self, v: &Volume, p: &Problem, caps: &Caps) -> Vec<(&'static str, u32)> {
        let reach =
            |axis: usize, count: u64| (count - 1) * v.stride[axis] + (v.kernel[axis] - 1) * v.dilation[axis] + 1;
        let window = reach(2, self.along);
        // Rows are read from the last piece on that begins no later than the window.
        let (step, skip, loads, lead) = match v.channels_last {
            true => (self.along * v.stride[2], 0, window, v.pad[2]),
            false => {
                let width = self.width as i64;
                let lead = -(-v.pad[2]).div_euclid(width);
                let skip = (lead * width - v.pad[2]) as u64;
                (v.stride[2], skip, (skip + window).div_ceil(self.width), lead)
            }
        };
        let sizes = [
            ("WIDTH", self.width),
            ("ALONG", self.along),
            ("DOWN", self.down),
            ("IN_FLIGHT", self.in_flight),
            ("STRIP", self.strip),
            ("CHANNELS", self.channels),
            ("UNITS", self.units),
            ("TILES", self.tiles),
            ("STRIPS", self.strips),
            ("STEP", step),
            ("SKIP", skip),
            ("LOADS", loads),
            ("LEAD", lead as u64),
            ("WINDOW", window),
            ("WINDOW_ROWS", reach(1, self.down)),
            ("AHEAD", u64::from(caps.tuned(p, NAME, &AHEAD))),
            ("THREADS", THREADS),
        ];
        sizes.map(|(name, value)| (name, value as u32)).into_iter().chain(v.consts()).collect()
    }
}

/// Whether texts are written out for such a filter.
///
/// # Errors
/// With the reason why not.
pub(in crate::suite) fn available(v: &Volume) -> Result<(), String> {
    let in_flight = Share::in_flight(v);
    let columns = 3 * v.stride[2] + (v.kernel[2] - 1) * v.dilation[2] + 1;
    let rows = v.stride[1] + (v.kernel[1] - 1) * v.dilation[1] + 1;
    // A piece of eight is the widest.
    if in_flight * 8 > MOST_KEPT {
        return Err(format!(
            "results are kept in registers: a slice has a part in {in_flight}, and at most 8 are kept"
        ));
    }
    match v.taps() <= MOST_TAPS && columns.max(rows) <= MOST_COLUMNS && v.stride[0] <= 8 {
        true => Ok(()),
        false => Err(format!(
            "loops are written out: at most {MOST_TAPS} taps, within {MOST_COLUMNS} rows and columns of the image"
        )),
    }
}

/// What a result is given before it is written.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::suite) struct Finish {
    pub bias: bool,
    pub relu: bool,
    /// Whether taps are taken in reverse, along every axis.
    pub flip: bool,
}

/// The stage that computes `out` from `x` and the filters `w`.
pub(in crate::suite) fn stage(v: &Volume, p: &Problem, caps: &Caps, finish: Finish, names: [&'static str; 2]) -> Stage {
    let share = Share::of(v, p, caps, 0);
    let images = if v.channels_last { v.n } else { v.n * v.c };
    let threads = images * share.channels * share.units * share.tiles * share.strips;
    let [x, out] = names;
    let bias = finish.bias.then_some(("bias", "bias", Read));
    let args = [("x", x, Read), ("w", "w", Read), ("out", out, Write)].into_iter().chain(bias).map(Arg::from);
    // In WGSL taps of four channels lie in workgroup memory, where they are more than registers should hold.
    let of_taps = v.taps() * share.channels * share.width * 4;
    let many = v.channels_last && v.taps() * share.width > MOST_TAPS && of_taps <= MOST_SHARED;
    let taps_shared = caps.dialect == Dialect::Wgsl && many;
    Stage::kernel("depthwise_marching", text(&share, v, caps, TEXTS), "depthwise_marching")
        .consts(&share.consts(v, p, caps))
        .consts(&[
            ("CHANNELS_LAST", v.channels_last),
            ("BIASED", finish.bias),
            ("RELU", finish.relu),
            ("FLIP", finish.flip),
            ("TAPS_SHARED", taps_shared),
        ])
        .args(args)
        .threads([THREADS as u32, 1, 1])
        .grid(spread(threads.div_ceil(THREADS)))
        .shared(if taps_shared { of_taps as u32 } else { 0 })
}

/// CUDA's text, and WGSL's for single elements, for pieces of channels and for pieces of columns.
const TEXTS: [&str; 4] = [
    "depthwise_conv3d/marching",
    "depthwise_conv3d/marching_single",
    "depthwise_conv3d/marching_channels",
    "depthwise_conv3d/marching_columns",
];

/// Which of these a share asks for.
pub(in crate::suite) fn text(
    share: &Share,
    v: &Volume,
    caps: &Caps,
    [cuda, single, channels, columns]: [&'static str; 4],
) -> &'static str {
    match (caps.dialect, share.width, v.channels_last) {
        (Dialect::Wgsl, 1, _) => single,
        (Dialect::Wgsl, _, true) => channels,
        (Dialect::Wgsl, _, false) => columns,
        _ => cuda,
    }
}
