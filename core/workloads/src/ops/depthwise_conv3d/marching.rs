//! Variant `marching`: threads traverse the slowest axis of the image and read each element once.
//!
//! A thread owns a few neighbouring columns of a few rows, and a strip of the slowest axis. With channels last it owns a few
//! neighbouring channels of a few columns. It reads the slices of its strip in order and adds each to the results that depend on
//! it. So registers hold partial results and never the image. Elements that neighbours also read come from the first-level cache.
//! In CUDA, in three dimensions with channels last, they come from shared memory. A workgroup copies each slice there once.

use parallax_ir::Access::{Read, Write};
use parallax_ir::{Arg, CudaLaunch, Elem, Problem, Stage, Tunable, spread, width};
use parallax_schema::case::{Allowed, DType};
use parallax_schema::device::{Caps, Dialect};
use parallax_schema::units::gcd;

use super::volume::Volume;

/// Name of the variants in all directions, and their tunables.
pub(crate) const NAME: &str = "marching";
pub(crate) const TUNABLES: &[Tunable] = &[STRIP, ACROSS, DOWN, AHEAD, SLICES];
/// Tunables in two dimensions, with one row per thread.
pub(crate) const FLAT_TUNABLES: &[Tunable] = &[STRIP, ACROSS, AHEAD];

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
const SLICES: Tunable = Tunable {
    name: "SLICES",
    about: "slices of the image that a workgroup holds in its memory, in CUDA, in three dimensions, where channels are last",
    allowed: Allowed::OneOf(&[2, 3, 4, 5, 6]),
    default: 4,
};

/// Threads of a workgroup.
pub(crate) const THREADS: u64 = 128;
/// Largest numbers of partial results, and of taps of all channels, in a thread's registers. WGSL has pieces of only four elements
/// or one. It keeps more taps before it falls back to single elements.
const MOST_KEPT: u64 = 64;
const MOST_TAPS: u64 = 64;
const MOST_TAPS_WGSL: u64 = 112;
/// Largest number of image elements of a slice under a thread's results, if it has more than one row of them.
const MOST_UNDER: u64 = 64;
/// Largest number of bytes of taps in workgroup memory: WebGPU's guaranteed limit.
const MOST_SHARED: u64 = 16_384;
/// Columns under a thread's taps that kernel sources unroll.
const MOST_COLUMNS: u64 = 40;
/// Threads per multiprocessor before strips become longer, and multiprocessors of a device that reports no number.
const THREADS_PER_UNIT: u64 = 1024;
const UNITS: u64 = 32;
/// Fewest slices of a strip: each strip starts with slices that the previous one also reads.
const LEAST_STRIP: u64 = 4;

/// Partition of a convolution among threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    /// Threads of a workgroup.
    threads: u64,
    /// Elements of a piece.
    pub width: u64,
    /// Columns and rows of a thread.
    pub along: u64,
    pub down: u64,
    /// Partial results along the slowest axis.
    pub in_flight: u64,
    /// Slices of a strip.
    pub strip: u64,
    /// Factors of the number of threads that share an image of one example, in this order: pieces of channels, groups of columns,
    /// groups of rows, strips. For channels-first layouts the image is that of one channel.
    pub channels: u64,
    pub units: u64,
    pub tiles: u64,
    pub strips: u64,
}

impl Share {
    /// Partial results of a thread at each position, on any device.
    fn in_flight(v: &Volume) -> u64 {
        v.dilation[0] * (v.kernel[0] - 1) / v.stride[0] + 1
    }

    /// Partition of a problem's convolution for threads with `sums` other sums per channel.
    pub fn new(v: &Volume, p: &Problem, caps: &Caps, sums: u64) -> Share {
        let tuned = |tunable| u64::from(p.tuned(caps, NAME, tunable));
        let in_flight = Share::in_flight(v);
        let one_channel = sums == 0 && one_channel(v, p, caps);
        // Pieces are never cut: their width divides rows on both sides.
        let width = match v.channels_last {
            // Each channel has its own taps, which are kept.
            true if one_channel => 1,
            // Each channel has its own sums: four times as many do not fit in registers. With channels last a filter gradient took
            // 1.36 ms on an H100 by four, natively, and takes 0.15 (2×32×32×128², 27 taps, f32).
            true if sums > 0 && caps.dialect == Dialect::Wgsl => 1,
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
        let more = if one_channel { 2 } else { 1 };
        let across = if v.channels_last { fits(tuned(&ACROSS) * more, v.out[2], room) } else { 1 };
        // In WGSL more than one row of column pieces only costs registers. The gradient of a filter of 27 taps takes 0.17 ms by one
        // row, 0.33 by two and 0.38 by four (natively on an H100, 2×32×32×128², f32).
        let one = caps.dialect == Dialect::Wgsl && !v.channels_last;
        let along = if v.channels_last { across } else { width };
        let mut down = if one { 1 } else { fits(tuned(&DOWN) * more, v.out[1], room / across) };
        // WGSL's kernel source has all of them in registers at once.
        let under = |down| reach(v, 2, along) * reach(v, 1, down) * lanes;
        while caps.dialect == Dialect::Wgsl && down > 1 && under(down) > MOST_UNDER {
            down /= 2;
        }
        let channels = if v.channels_last { v.c / width } else { 1 };
        let (units, tiles) = (v.out[2].div_ceil(along), v.out[1].div_ceil(down));
        let images = if v.channels_last { v.n } else { v.n * v.c };
        let threads = images * channels * units * tiles;
        let wanted = caps.compute_units.map_or(UNITS, u64::from) * THREADS_PER_UNIT;
        let fill = wanted.div_ceil(threads).min(v.out[0].div_ceil(LEAST_STRIP));
        let strip = strip(v, p, caps, fill);
        let strips = v.out[0].div_ceil(strip);
        Share { threads: THREADS, width, along, down, in_flight, strip, channels, units, tiles, strips }
    }

    /// Number of thread groups that traverse a strip of the same channels.
    pub fn walks(&self, n: u64) -> u64 {
        n * self.units * self.tiles * self.strips
    }

    /// Kernel constants of the partition, without those of the convolution.
    pub fn consts(&self, v: &Volume, p: &Problem, caps: &Caps) -> Vec<(&'static str, u32)> {
        let window = reach(v, 2, self.along);
        // Rows are read from the last piece that begins no later than the window.
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
            ("WINDOW_ROWS", reach(v, 1, self.down)),
            ("AHEAD", u64::from(p.tuned(caps, NAME, &AHEAD))),
            ("THREADS", self.threads),
        ];
        sizes.map(|(name, value)| (name, value as u32)).into_iter().chain(v.consts()).collect()
    }
}

/// Partition of a convolution among blocks that copy the image to shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Blocks {
    share: Share,
    /// Pieces of channels, groups of columns and groups of rows of a block.
    beside: u64,
    units: u64,
    tiles: u64,
    slices: u64,
    /// Bytes of all slices.
    room: u64,
    count: u64,
}

impl Blocks {
    const THREADS: u64 = 256;
    /// Columns and rows of a thread, and groups of columns of a block.
    const ALONG: u64 = 2;
    const DOWN: u64 = 2;
    const UNITS: u64 = 8;
    /// Largest number of bytes of all slices, so that a multiprocessor has two blocks.
    const MOST_ROOM: u64 = 96 << 10;

    /// Partition derived from that of independent threads, if the image can be copied in parts of 16 bytes.
    fn new(v: &Volume, p: &Problem, caps: &Caps, share: Share) -> Option<Blocks> {
        let asynchronous = caps.dialect == Dialect::Cuda && caps.compute_capability >= Some((8, 0));
        let neighbours = v.stride == [1; 3] && v.dilation == [1; 3];
        // A filter of one row shares nothing with adjacent rows.
        if !asynchronous || !neighbours || !v.channels_last || v.kernel[1] == 1 {
            return None;
        }
        let beside = 1 << share.channels.trailing_zeros().min(4);
        let (along, down, units, tiles) =
            (Self::ALONG, Self::DOWN, Self::UNITS, Self::THREADS / (beside * Self::UNITS));
        let pixel = beside * share.width * Elem::Real.storage(p.dtype).bytes();
        let slice = (units * along + v.kernel[2] - 1) * (tiles * down + v.kernel[1] - 1) * pixel;
        let slices = u64::from(p.tuned(caps, NAME, &SLICES));
        // A thread has a bit for each part that it copies, and counts elements of an image slice in 32 bits.
        let counted =
            slice <= 16 * u64::from(u32::BITS) * Self::THREADS && u32::try_from(v.image[1] * v.image[2] * v.c).is_ok();
        if !pixel.is_multiple_of(16) || slices * slice > Self::MOST_ROOM || !counted {
            return None;
        }
        let flat = v.n * (share.channels / beside) * v.out[2].div_ceil(units * along) * v.out[1].div_ceil(tiles * down);
        let fill = (2 * caps.compute_units.map_or(UNITS, u64::from)).div_ceil(flat).min(v.out[0].div_ceil(LEAST_STRIP));
        let strip = strip(v, p, caps, fill);
        let strips = v.out[0].div_ceil(strip);
        let share = Share {
            threads: Self::THREADS,
            along,
            down,
            strip,
            units: v.out[2].div_ceil(along),
            tiles: v.out[1].div_ceil(down),
            strips,
            ..share
        };
        Some(Blocks { share, beside, units, tiles, slices, room: slices * slice, count: flat * strips })
    }

    fn consts(&self) -> [(&'static str, u32); 4] {
        [
            ("BESIDE", self.beside as u32),
            ("BLOCK_UNITS", self.units as u32),
            ("BLOCK_TILES", self.tiles as u32),
            ("SLICES", self.slices as u32),
        ]
    }
}

/// Image elements along an axis under `results` neighbouring results.
fn reach(v: &Volume, axis: usize, results: u64) -> u64 {
    (results - 1) * v.stride[axis] + (v.kernel[axis] - 1) * v.dilation[axis] + 1
}

/// Slices of a strip, for at least `wanted` strips.
fn strip(v: &Volume, p: &Problem, caps: &Caps, wanted: u64) -> u64 {
    v.out[0].div_ceil(v.out[0].div_ceil(u64::from(p.tuned(caps, NAME, &STRIP))).max(wanted))
}

/// Checks that kernel sources are unrolled for such a filter.
///
/// # Errors
/// Reason why they are not.
pub(crate) fn available(v: &Volume) -> Result<(), String> {
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

/// Whether a thread has one channel instead of four, and stores results late. Taps of four channels are in workgroup memory, and
/// drivers read them in sequence under the memory model of browsers. Taps of one channel are in registers. These have room for
/// twice as many results along both axes. Times of one channel and of four, for 2×32×32×128², three taps along each axis, f32:
///
/// - H200 in Chromium: 104 µs and 110 µs.
/// - H100, before late stores: 116 µs and 136 µs.
fn one_channel(v: &Volume, p: &Problem, caps: &Caps) -> bool {
    let in_volumes = v.channels_last && v.out[1] > 1 && v.taps() * 4 > MOST_TAPS;
    caps.in_a_browser && in_volumes && p.dtype == DType::F32
}

/// Epilogue of a result.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Finish {
    pub bias: bool,
    pub relu: bool,
    /// Whether taps are reversed along every axis.
    pub flip: bool,
}

/// Stage that computes `out` from `x` and the filters `w`.
pub(crate) fn stage(v: &Volume, p: &Problem, caps: &Caps, finish: Finish, names: [&'static str; 2]) -> Stage {
    let share = Share::new(v, p, caps, 0);
    let [x, out] = names;
    let bias = finish.bias.then_some(("bias", "bias", Read));
    let args = [("x", x, Read), ("w", "w", Read), ("out", out, Write)].into_iter().chain(bias).map(Arg::from);
    let told = |text, entry, share: &Share, blocks: u64| {
        Stage::kernel("depthwise_marching", text, entry)
            .consts(&share.consts(v, p, caps))
            .consts(&[
                ("CHANNELS_LAST", v.channels_last),
                ("BIASED", finish.bias),
                ("RELU", finish.relu),
                ("FLIP", finish.flip),
                ("LATE", one_channel(v, p, caps)),
            ])
            .args(args)
            .threads([share.threads as u32, 1, 1])
            .grid(spread(blocks))
    };
    if let Some(blocks) = Blocks::new(v, p, caps, share) {
        return told("depthwise_conv3d/staged", "depthwise_staged", &blocks.share, blocks.count)
            .consts(&blocks.consts())
            .cuda(CudaLaunch { dynamic_shared_bytes: blocks.room as u32, ..CudaLaunch::default() });
    }
    let images = if v.channels_last { v.n } else { v.n * v.c };
    let threads = images * share.channels * share.units * share.tiles * share.strips;
    // In WGSL taps of four channels are in workgroup memory if they are too many for registers.
    let of_taps = v.taps() * share.channels * share.width * 4;
    let many = v.channels_last && v.taps() * share.width > MOST_TAPS && of_taps <= MOST_SHARED;
    let taps_shared = caps.dialect == Dialect::Wgsl && many;
    told(text(&share, v, caps, TEXTS), "depthwise_marching", &share, threads.div_ceil(THREADS))
        .consts(&[("TAPS_SHARED", taps_shared)])
        .shared(if taps_shared { of_taps as u32 } else { 0 })
}

/// Kernel sources: CUDA's, and WGSL's for single elements, for pieces of channels and for pieces of columns.
const TEXTS: [&str; 4] = [
    "depthwise_conv3d/marching",
    "depthwise_conv3d/marching_single",
    "depthwise_conv3d/marching_channels",
    "depthwise_conv3d/marching_columns",
];

/// Kernel source for a partition.
pub(crate) fn text(
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

#[cfg(test)]
mod tests {
    use crate::parse_case;
    use parallax_ir::Value;
    use parallax_schema::device::Caps;
    use parallax_schema::testing::caps;

    #[test]
    fn in_browsers_taps_of_many_channels_stay_in_registers() {
        let browser = Caps { in_a_browser: true, ..caps() };
        for (shape, dtype, caps, text, told) in [
            ("k3,p1,ndhwc", "f32", &caps(), "marching_channels", [2, 2, 1, 0]),
            ("k3,p1,ndhwc", "f32", &browser, "marching_single", [4, 4, 0, 1]),
            ("k3,p1,ndhwc", "f16", &browser, "marching_channels", [2, 2, 1, 0]),
            ("k2,ndhwc", "f32", &browser, "marching_channels", [2, 2, 0, 0]),
            ("k3,p1,ncdhw", "f32", &browser, "marching_columns", [4, 1, 0, 0]),
        ] {
            let case = format!("depthwise_conv3d/fwd/n2,c32,d32,h128,{shape}/{dtype}/marching");
            let program = parse_case(&case).expect("valid").program(caps).expect("a kernel variant");
            let kernel = program.kernels().next().expect("one");
            let of = |name| match kernel.consts.iter().find(|(known, _)| *known == name) {
                Some((_, Value::U32(value))) => *value,
                Some((_, Value::Bool(value))) => u32::from(*value),
                other => panic!("{name}: {other:?}"),
            };
            assert_eq!(kernel.text, format!("depthwise_conv3d/{text}"), "{case}");
            assert_eq!(["ALONG", "DOWN", "TAPS_SHARED", "LATE"].map(of), told, "{case}");
        }
    }
}
