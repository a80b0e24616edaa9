//! Variant with the state in registers, token by token. Threads that share a column have neighbouring groups of its rows.

use parallax_ir::{Problem, Program, spread};
use parallax_schema::device::Caps;

use super::whole;

/// Threads of a workgroup.
const THREADS: u64 = 128;
/// Rows of a column that a thread has, if there are enough threads; and the most that fit its registers.
const USUAL_ROWS: u64 = 16;
const MOST_ROWS: u64 = 32;
/// Most threads of a column: those of a warp.
const MOST_LANES: u64 = 32;
/// Most tokens that shared memory has at a time, and elements of their keys.
const MOST_TOKENS: u64 = 16;
const ELEMENTS: u64 = 1024;

/// Threads of a column and rows of each, which are whole vectors of four.
fn share(p: &Problem) -> [u64; 2] {
    let lanes = p["dk"].div_ceil(USUAL_ROWS).next_power_of_two().min(MOST_LANES);
    [lanes, p["dk"].div_ceil(lanes).next_multiple_of(4)]
}

pub fn available(p: &Problem, _caps: &Caps) -> Result<(), String> {
    match share(p) {
        [_, rows] if rows <= MOST_ROWS => Ok(()),
        _ => Err(format!("a column stays in registers: at most {} rows, not {}", MOST_LANES * MOST_ROWS, p["dk"])),
    }
}

pub fn program(p: &Problem, _caps: &Caps) -> Program {
    let [lanes, rows] = share(p);
    let columns = THREADS / lanes;
    let tokens = (ELEMENTS / (lanes * rows)).clamp(1, MOST_TOKENS);
    let parts = p["dv"].div_ceil(columns);
    let consts = [("LANES", lanes), ("ROWS", rows), ("TOKENS", tokens), ("PARTS", parts)];
    // Keys and queries, values, two numbers of each token, and two sums of each thread in two halves.
    let shared = 4 * (tokens * (2 * lanes * rows + columns + 2) + 4 * THREADS);
    whole(p, "gated_delta_recurrent", "gated_delta/recurrent", THREADS as u32)
        .consts(&consts.map(|(name, value)| (name, value as u32)))
        .consts(&[("WIDTH", if p["dk"].is_multiple_of(4) { 4u32 } else { 1 })])
        .grid(spread(p["b"] * p["h"] * parts))
        .shared(shared as u32)
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;

    #[test]
    fn threads_share_columns_up_to_a_thousand_rows() {
        for (rows, want) in [(1, [1, 4]), (16, [1, 16]), (33, [4, 12]), (128, [8, 16]), (1024, [32, 32])] {
            let p = parse_case(&format!("gated_delta/fwd/b1,s1,h1,dk{rows},dv1/f32/recurrent")).expect("valid").problem;
            assert_eq!(share(&p), want, "{rows}");
            assert!(available(&p, &parallax_schema::testing::caps()).is_ok());
        }
        let p = parse_case("gated_delta/fwd/b1,s1,h1,dk1025,dv1/f32/naive").expect("valid").problem;
        assert!(available(&p, &parallax_schema::testing::caps()).is_err());
    }
}
