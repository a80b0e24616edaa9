//! Variant on matrix units through WGSL's cooperative matrices.

use parallax_ir::{Access, Gemm, Problem, Program, Stage, Tunable, spread};
use parallax_schema::case::{Allowed, Cost};
use parallax_schema::device::Caps;

use super::super::coopmat::{MAX_DIM, PADDING, squares_and_columns, there, width};
use super::super::masks::{Looks, looking, without_starts};
use super::super::scores::without_changes;
use super::super::{gemm_flops, sizes, stage};
use super::delta;
use super::flash::{OF_KEYS, OF_QUERIES, operands};

/// Number of rows that a workgroup owns, with four subgroups per 32 rows. With fewer rows, fewer subgroups share a barrier; with
/// more, more read a tile together.
pub const OWN: Tunable = Tunable {
    name: "OWN",
    about: "keys, or queries, that a workgroup owns",
    allowed: Allowed::OneOf(&[32, 64]),
    default: 64,
};
/// Rows of a tile of the other side: two matrices.
const TILE: u64 = 32;
/// Columns of own rows that are staged at a time.
const OWN_COLUMNS: u64 = 32;
/// Names of the constants that enable an 8-element vector of a tile of the given number per thread.
const FETCHES: [&str; 4] = ["", "FETCH1", "FETCH2", "FETCH3"];

pub fn available(p: &Problem, caps: &Caps) -> Result<(), String> {
    Gemm::coopmat_available(p.dtype, caps)?;
    without_starts(p, "flash_coopmat")?;
    without_changes(p, "flash_coopmat")?;
    match p["d"] {
        d if d <= MAX_DIM => Ok(()),
        d => Err(format!("flash_coopmat keeps sums over rows in registers: head_dim {d} > {MAX_DIM}")),
    }
}

/// Bytes of workgroup memory. It holds tiles of the other side and of their values, or columns of own rows and values. It also
/// holds scores, slopes and score gradients. With owned keys, it adds probabilities and two numbers per query.
fn shared(own: u64, width: u64, of_keys: bool) -> u64 {
    let staged = (2 * TILE * (width + PADDING)).max(2 * own * (OWN_COLUMNS + PADDING));
    let squares = own * (TILE + PADDING);
    staged * 2 + squares * (2 * 4 + 2) + if of_keys { squares * 2 + TILE * 8 } else { 0 }
}

/// Stage with workgroups that own rows; `rows` counts per head, `heads` per batch item.
fn by_own_rows<'a>(
    p: &Problem,
    caps: &Caps,
    label: &'static str,
    [heads, rows]: [u64; 2],
    args: impl IntoIterator<Item = &'a (&'static str, &'static str, Access)>,
    of_keys: bool,
) -> Stage {
    let (s, t, d) = (p["s"], p["t"], p["d"]);
    let (own, width) = (u64::from(p.tuned(caps, "flash_coopmat", &OWN)), width(d));
    let threads = 4 * own;
    let whole = width == d && [s, t].iter().all(|rows| rows.is_multiple_of(own));
    let fetches = there(FETCHES, TILE * width / 8, threads);
    let stage = stage(p, "attention/flash_coopmat_backward", "attention_flash_coopmat_backward")
        .consts(
            &[("OWN", own), ("TILE", TILE), ("WIDTH", width), ("THREADS", threads)]
                .map(|(name, value)| (name, value as u32)),
        )
        .consts(&[("OF_KEYS", of_keys), ("PACKED", d.is_multiple_of(8)), ("WHOLE", whole)])
        .consts(&squares_and_columns(d).chain(fetches).collect::<Vec<_>>())
        .args(args.into_iter().copied())
        .threads([threads as u32, 1, 1])
        .grid(spread(p["b"] * heads * rows.div_ceil(own)))
        .shared(shared(own, width, of_keys) as u32);
    Stage { label: label.into(), ..stage }
}

pub fn program(p: &Problem, caps: &Caps) -> Program {
    let (queries, keys, _) = sizes(p);
    let dkdv = by_own_rows(p, caps, "attention_flash_coopmat_dkdv", [p["kv"], p["t"]], &OF_KEYS, true).cost(Cost::new(
        4 * gemm_flops(p),
        operands(p),
        2 * keys,
    ));
    let dq = by_own_rows(p, caps, "attention_flash_coopmat_dq", [p["h"], p["s"]], &OF_QUERIES, false).cost(Cost::new(
        3 * gemm_flops(p),
        operands(p),
        queries,
    ));
    Program { stages: vec![delta(p), looking(p, Looks::Both, dkdv), looking(p, Looks::Both, dq)] }
}

#[cfg(test)]
mod tests {
    use super::super::super::coopmat::{COLUMNS, SQUARES};
    use super::*;

    #[test]
    fn every_head_dim_has_matrices_and_fits() {
        for d in 1..=MAX_DIM {
            let width = width(d);
            assert!(width >= d && width <= 16 * SQUARES.len() as u64 && width <= 32 * COLUMNS.len() as u64, "{d}");
            for own in OWN.allowed.candidates().into_iter().map(u64::from) {
                assert!(TILE * width / 8 <= 4 * own * FETCHES.len() as u64, "{d} {own}");
                assert!(shared(own, width, true) <= 48 << 10, "{d} {own}");
            }
        }
    }
}
