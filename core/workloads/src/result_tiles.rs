//! Tiles of the results of GEMMs, and their number beside that of multiprocessors.

use parallax_ir::{Problem, Tunable};
use parallax_schema::case::Allowed;
use parallax_schema::device::Caps;

/// Multiprocessors of a large GPU, for a device that reports no number.
const UNITS: u64 = 128;

/// Number of multiprocessors of a device.
pub fn multiprocessors(caps: &Caps) -> u64 {
    caps.compute_units.map_or(UNITS, u64::from)
}

/// Number of tiles of all results.
pub fn tiles(p: &Problem, rows: u64, columns: u64) -> u64 {
    p["m"].div_ceil(rows) * p["n"].div_ceil(columns)
}

/// Whether tiles are enough, in per cent of the multiprocessors.
pub fn enough(tiles: u64, caps: &Caps, percent: u32) -> bool {
    tiles * 100 >= multiprocessors(caps) * u64::from(percent)
}

/// Shares of the multiprocessors, in per cent: all tiles, and none.
const SHARES: Allowed = Allowed::OneOf(&[0, 25, 50, 100, 200, 400, 100_000_000]);

/// Tunable of tiles with 16 or 64 sums a thread.
pub const LARGE_FROM: Tunable = Tunable {
    name: "LARGE_FROM",
    about: "number of tiles from which a thread has 64 sums, not 16, in per cent of the multiprocessors",
    allowed: SHARES,
    default: 100,
};

/// Tunable of tiles with 128 or 256 columns.
pub const WIDE_FROM: Tunable = Tunable {
    name: "WIDE_FROM",
    about: "number of tiles from which their width is 256 columns, not 128, in per cent of the multiprocessors",
    allowed: SHARES,
    default: 100,
};
