//! Backward passes of norms with the next rows under way in shared memory: blocks of teams of threads, a team per row.

use parallax_ir::{CudaLaunch, Elem, MOST_PARTS, Problem, Rows2d, Stage, has_async_copies, spread, sum_of_parts};
use parallax_schema::case::DType;
use parallax_schema::device::{Caps, CudaCaps};

/// Bytes of an asynchronous copy.
const PIECE: u64 = 16;
/// Threads of a warp.
const WARP: u64 = 32;
/// Threads of a team at most: those of a block.
const MOST_LANES: u64 = 1024;
/// Teams of a block at most: each has a barrier of its own.
const MOST_TEAMS: u64 = 15;
/// Blocks, one per multiprocessor, where their number is unknown.
const BLOCKS: u64 = 128;
/// Bytes of rows under way at most in four stages.
const ROOM: u64 = 200 << 10;

/// Division of a matrix: a thread of a team has one piece of each row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Teams {
    of: Rows2d,
    width: u64,
    lanes: u64,
    teams: u64,
    at_once: u64,
    stages: u64,
    /// Sums over columns, and sums over a row.
    sums: u64,
    /// Matrices with rows under way.
    matrices: u64,
}

impl Teams {
    /// Returns the division for `sums` sums over columns, with rows of this many matrices under way.
    ///
    /// # Errors
    /// Reason why the device or the length of rows excludes it.
    pub(crate) fn new(p: &Problem, caps: &Caps, sums: u64, matrices: u64) -> Result<Teams, String> {
        has_async_copies(caps)?;
        let (of, width) = (Rows2d { rows: p["r"], columns: p["c"] }, PIECE / Elem::Real.storage(p.dtype).bytes());
        if !of.columns.is_multiple_of(width) {
            return Err(format!("rows are copied 16 bytes at a time: {} is not a multiple of {width}", of.columns));
        }
        let lanes = (of.columns / width).next_multiple_of(WARP);
        if lanes > MOST_LANES {
            return Err(format!("a thread has one piece of a row: {lanes} threads exceed {MOST_LANES}"));
        }
        // Measured on an H200 with rows of 256 to 8192: threads with the most registers that do not spill.
        let threads = if 512u64.is_multiple_of(lanes) { 512 } else { 640 };
        let teams = (threads / lanes).clamp(1, MOST_TEAMS);
        let at_once = match teams * lanes {
            ..=512 if p.dtype != DType::F32 && lanes > WARP && matrices == 2 => 4,
            ..=640 => 2,
            _ => 1,
        };
        let stages = if 4 * matrices * at_once * teams * lanes * PIECE > ROOM { 3 } else { 4 };
        let teams = Teams { of, width, lanes, teams, at_once, stages, sums, matrices };
        let (needed, room) =
            (teams.staged() + teams.exchanged(), caps.cuda.unwrap_or(CudaCaps::NONE).max_block_shared_bytes);
        match needed <= u64::from(room) {
            true => Ok(teams),
            false => Err(format!("rows under way take {needed} bytes of shared memory, and a block has {room}")),
        }
    }

    fn threads(&self) -> u64 {
        self.teams * self.lanes
    }

    /// Bytes of the rows under way.
    fn staged(&self) -> u64 {
        self.stages * self.matrices * self.at_once * self.threads() * PIECE
    }

    /// Bytes of the sums of warps.
    fn exchanged(&self) -> u64 {
        2 * self.sums * self.at_once * self.threads() / WARP * 4
    }

    /// Number of blocks. Each leaves a part of the sums over columns.
    fn parts(&self, caps: &Caps) -> u64 {
        let blocks = caps.compute_units.map_or(BLOCKS, u64::from).min(MOST_PARTS);
        self.of.rows.div_ceil(self.teams * self.at_once).min(blocks)
    }

    /// Returns the stage of the blocks.
    pub(crate) fn stage(&self, caps: &Caps, text: &'static str, entry: &'static str) -> Stage {
        let consts = [
            ("ROWS", self.of.rows),
            ("COLUMNS", self.of.columns),
            ("WIDTH", self.width),
            ("LANES", self.lanes),
            ("TEAMS", self.teams),
            ("AT_ONCE", self.at_once),
            ("STAGES", self.stages),
            ("PARTS", self.parts(caps)),
            ("THREADS", self.threads()),
        ];
        Stage::kernel(entry, text, entry)
            .consts(&consts.map(|(name, value)| (name, value as u32)))
            .threads([self.threads() as u32, 1, 1])
            .grid(spread(self.parts(caps)))
            .shared(self.exchanged() as u32)
            .cuda(CudaLaunch { dynamic_shared_bytes: self.staged() as u32, ..CudaLaunch::default() })
    }

    /// Returns the stage that adds the parts.
    pub(crate) fn sum_of_parts(&self, caps: &Caps, text: &'static str, entry: &'static str) -> Stage {
        let columns = self.of.columns;
        sum_of_parts(self.parts(caps), self.sums * columns, caps, text, entry).consts(&[("COLUMNS", columns as u32)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;
    use parallax_schema::testing::{caps, hopper};

    fn teams(shape: &str, dtype: &str, caps: &Caps, matrices: u64) -> Result<Teams, String> {
        let case = parse_case(&format!("layernorm/bwd/{shape}/{dtype}/staged")).expect("valid");
        Teams::new(&case.problem, caps, 2, matrices)
    }

    #[test]
    fn teams_cover_rows_and_fit_into_a_block() {
        let columns = (8..4097).step_by(8).flat_map(|columns| [2, 3].map(|matrices| (columns, matrices)));
        for (dtype, (columns, matrices)) in
            ["f32", "bf16"].into_iter().flat_map(|d| columns.clone().map(move |c| (d, c)))
        {
            let t = teams(&format!("r70000,c{columns}"), dtype, &hopper(), matrices).expect("fits");
            assert!(t.lanes * t.width >= columns && (t.lanes - WARP) * t.width < columns, "{t:?}");
            assert!(t.threads() <= 1024 && t.lanes.is_multiple_of(WARP) && t.teams <= MOST_TEAMS, "{t:?}");
            assert!(t.staged() + t.exchanged() <= 232_448 && t.at_once.is_power_of_two(), "{t:?}");
            assert!(t.parts(&hopper()) <= MOST_PARTS, "{t:?}");
        }
    }

    #[test]
    fn other_devices_and_odd_rows_are_refused() {
        assert!(teams("r7,c8", "f16", &caps(), 2).is_err());
        assert!(teams("r7,c12", "bf16", &hopper(), 2).is_err() && teams("r7,c12", "f32", &hopper(), 2).is_ok());
        assert!(teams("r7,c8192", "bf16", &hopper(), 2).is_ok() && teams("r7,c8192", "f32", &hopper(), 2).is_err());
    }
}
