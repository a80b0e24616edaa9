//! Variant by warpgroups (`flash_wgmma`): instructions and copies of compute capability 9.0 alone.

use parallax_ir::Access::{Read, Write};
use parallax_ir::{Arg, BufferSpec, CudaLaunch, Elem, Problem, Program, Stage, has_wgmma_on_tensor_maps, spread};
use parallax_schema::case::{Cost, DType};
use parallax_schema::device::Caps;

use super::head_layout::{COLUMNS, HeadLayout};
use super::masks::{Looks, looking};
use super::scores::{Computes, changing};
use super::{KEEPS_LSE, cost_of_one_stage, group, masks, scores, stage};

/// Query rows and threads of a warpgroup.
pub(super) const ROWS: u64 = 64;
pub(super) const THREADS: u64 = 128;
/// Keys of a step, and steps in shared memory.
const KEYS: u64 = 128;
const STAGES: u64 = 2;
/// Bytes of keys and values that blocks read at about the same time under a causal mask. The L2 cache holds them.
const SECTION: u64 = 32 << 20;
/// Alignment of tiles in bytes, and room for the barriers behind them.
pub(super) const ALIGNED: u64 = 1024;
pub(super) const BARRIERS: u64 = 256;
/// Multiprocessors of a large GPU, for a device that reports no number.
const UNITS: u64 = 128;
/// Buffer with the number of tiles that blocks have taken after their first.
pub(super) const DRAWN: &str = "drawn";

/// Numbers of columns. Products read zeros beyond 72 and 80.
const HEAD_DIMS: [u64; 4] = [64, 72, 80, 128];

/// Checks that the variant can compute a problem on a device.
///
/// # Errors
/// Reason against it.
pub(super) fn available(p: &Problem, caps: &Caps) -> Result<(), String> {
    if p.dtype == DType::F32 {
        return Err("flash_wgmma multiplies 16-bit floats: tensor cores would round f32 to TF32".to_owned());
    }
    has_wgmma_on_tensor_maps(caps)?;
    match p["d"] {
        d if !HEAD_DIMS.contains(&d) => {
            Err(format!("flash_wgmma has rows of one of {HEAD_DIMS:?} columns: head_dim {d}"))
        }
        _ if p.shape.has("biased") => Err("flash_wgmma adds no mask to scores".to_owned()),
        _ => Ok(()),
    }
}

/// Scratch of the variant.
pub(super) fn scratch() -> BufferSpec {
    BufferSpec::scratch(DRAWN, Elem::U32, &[1])
}

pub(super) fn units(caps: &Caps) -> u64 {
    caps.compute_units.map_or(UNITS, u64::from)
}

/// Number of tiles of this many warpgroups.
fn places(p: &Problem, warpgroups: u64) -> u64 {
    p["b"] * p["h"] * p["s"].div_ceil(warpgroups * ROWS)
}

/// Number of consuming warpgroups. Registers have room for two with more than 64 columns, and with a soft cap. With 64 columns,
/// three have the higher rate, but their last wave of tiles may be far from full. A tile of three takes about 1.3 times as long as
/// one of two.
fn warpgroups(p: &Problem, caps: &Caps) -> u64 {
    let time = |(warpgroups, each): &(u64, u64)| places(p, *warpgroups).div_ceil(units(caps)) * each;
    match p["d"] {
        64 if scores::cap(p).is_none() => [(3, 13), (2, 10)].into_iter().min_by_key(time).expect("two").0,
        _ => 2,
    }
}

/// Layouts of queries, keys and values, and of the result.
#[derive(Clone, Copy)]
pub(super) struct Layouts {
    pub(super) queries: HeadLayout,
    pub(super) keys: HeadLayout,
    pub(super) values: HeadLayout,
    pub(super) out: HeadLayout,
}

impl Layouts {
    /// A matrix for each head.
    pub(super) fn matrices(p: &Problem) -> Layouts {
        let queries = HeadLayout::matrices([p["b"], p["h"], p["s"], p["d"]]);
        let keys = HeadLayout::matrices([p["b"], p["kv"], p["t"], p["d"]]);
        Layouts { queries, keys, values: keys, out: queries }
    }

    /// Rows of a layer: those of all queries, keys and values in one buffer, and those of all results in another.
    pub(super) fn rows(p: &Problem) -> Layouts {
        let (h, extents) = (p["h"], [p["b"], p["h"], p["s"], p["d"]]);
        let [queries, keys, values] = [0, 1, 2].map(|which| HeadLayout::in_rows(extents, 3 * h, which * h));
        Layouts { queries, keys, values, out: HeadLayout::in_rows(extents, h, 0) }
    }

    /// Constants with the numbers of the first heads of keys and values.
    pub(super) fn firsts(self) -> [(&'static str, u32); 2] {
        [("FIRST_KEYS", self.keys.first as u32), ("FIRST_VALUES", self.values.first as u32)]
    }
}

pub(super) fn flash_wgmma(p: &Problem, caps: &Caps) -> Program {
    program(p, caps, Layouts::matrices(p))
}

/// Program on rows of a layer: `q`, `k` and `v` are one buffer `[b, s, 3·h·d]`, and `out` is `[b, s, h·d]`.
pub(crate) fn flash_wgmma_on_rows(p: &Problem, caps: &Caps) -> Program {
    program(p, caps, Layouts::rows(p))
}

fn program(p: &Problem, caps: &Caps, layouts: Layouts) -> Program {
    let (b, kv, t, d) = (p["b"], p["kv"], p["t"], p["d"]);
    let warpgroups = warpgroups(p, caps);
    let places = places(p, warpgroups);
    let blocks = places.min(units(caps));
    // Tiles of unequal length: a block takes the next one when it has ended one.
    let drawn = blocks < places && (p.shape.has("causal") || masks::listed(&p.shape));
    let section = (SECTION / (4 * t * d)).clamp(1, b * kv) * group(p);
    let tiles = 2 * d.next_multiple_of(COLUMNS) * (2 * warpgroups * ROWS + 2 * STAGES * KEYS);
    let numbers = [("WARPGROUPS", warpgroups), ("KEYS", KEYS), ("STAGES", STAGES), ("SECTION", section)];
    let flash = stage(p, "attention/flash_wgmma", "attention_flash_wgmma")
        .consts(&numbers.map(|(name, value)| (name, value as u32)))
        .consts(&layouts.firsts())
        .consts(&[(KEEPS_LSE, false), ("DRAWN", drawn)])
        .args([
            Arg::from(("q", Read)).mapped(layouts.queries.tensor(ROWS)),
            Arg::from(("k", Read)).mapped(layouts.keys.tensor(KEYS)),
            Arg::from(("v", Read)).mapped(layouts.values.tensor(KEYS)),
            Arg::from(("out", Write)).mapped(layouts.out.tensor(ROWS)),
        ])
        .threads([((warpgroups + 1) * THREADS) as u32, 1, 1])
        .grid(spread(blocks))
        .cuda(CudaLaunch { dynamic_shared_bytes: (tiles + ALIGNED + BARRIERS) as u32, ..CudaLaunch::default() })
        .cost(cost_of_one_stage(p));
    let mut flash = looking(p, Looks::Both, changing(p, Computes::Both, flash));
    if !drawn {
        return flash.into();
    }
    flash.args.push((DRAWN, Write).into());
    let none = Stage::fill("attention_none_drawn", DRAWN, 0).cost(Cost::new(0, 0, 4));
    Program { stages: vec![none, flash] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;
    use parallax_schema::testing::hopper;

    fn problem(shape: &str) -> Problem {
        parse_case(&format!("attention/fwd/{shape}/bf16/flash_wgmma")).expect("valid").problem
    }

    fn caps() -> Caps {
        Caps { compute_units: Some(132), ..hopper() }
    }

    #[test]
    fn tiles_leave_few_multiprocessors_without_work() {
        // 176 tiles of 192 rows are two waves of 132, as are 256 of 128.
        for (shape, expected) in
            [("b8,h16,s4096,d64", 3), ("b8,h16,s4096,d64,cap50", 2), ("b1,h16,s2048,d64", 2), ("b8,h16,s4096,d128", 2)]
        {
            assert_eq!(warpgroups(&problem(shape), &caps()), expected, "{shape}");
        }
    }

    #[test]
    fn blocks_take_further_tiles_where_their_lengths_differ() {
        for (shape, stages) in [
            ("b8,h16,s4096,d128", 1),
            ("b8,h16,s4096,d128,causal", 2),
            ("b8,h16,s4096,d128,padded", 2),
            ("b1,h2,s256,d128,causal", 1),
        ] {
            assert_eq!(flash_wgmma(&problem(shape), &caps()).stages.len(), stages, "{shape}");
        }
    }

    #[test]
    fn refusals_have_a_reason() {
        let without = Caps { cuda: None, ..hopper() };
        for (shape, caps, part) in [
            ("b1,h1,s8,d96", &hopper(), "head_dim 96"),
            ("b1,h1,s8,d64,biased", &hopper(), "no mask"),
            ("b1,h1,s8,d64", &without, "compute capability 9.0"),
        ] {
            assert!(available(&problem(shape), caps).is_err_and(|why| why.contains(part)), "{shape}");
        }
        for shape in ["b1,h1,s8,d64,causal,padded", "b1,h1,s8,d72"] {
            assert_eq!(available(&problem(shape), &hopper()), Ok(()), "{shape}");
        }
    }
}
