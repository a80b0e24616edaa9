//! Variant with query rows shared by neighbouring threads of a subgroup (WGSL).

use parallax_ir::Access::{Read, Write};
use parallax_ir::{Problem, Program, spread};
use parallax_schema::device::Caps;

use super::flash::short_rows;
use super::masks::{Looks, looking};
use super::scores::without_changes;
use super::{cost_of_one_stage, stage};

const THREADS: u32 = 128;
/// Number of rows of a thread team.
const ROWS_OF_TEAM: u32 = 4;
/// Minimum number of threads in a team. A smaller team has too many columns per thread to keep.
const LEAST_LANES: u32 = 8;

/// Number of threads in a team: the largest, up to 32, that every subgroup has.
fn lanes(caps: &Caps) -> Option<u32> {
    caps.subgroup.map(|(least, _)| least.min(32))
}

pub fn available(p: &Problem, caps: &Caps) -> Result<(), String> {
    without_changes(p, "subgroup")?;
    match lanes(caps) {
        None => Err("subgroup exchanges scores by subgroup operations, which this device does not offer".to_owned()),
        Some(lanes) if lanes < LEAST_LANES => {
            Err(format!("subgroup needs subgroups of at least {LEAST_LANES} threads, this device may have {lanes}"))
        }
        Some(_) => short_rows(p),
    }
}

pub fn program(p: &Problem, caps: &Caps) -> Program {
    let lanes = lanes(caps).expect("the plan asks first");
    let rows = THREADS / lanes * ROWS_OF_TEAM;
    let columns = p["d"].div_ceil(u64::from(lanes)) as u32;
    let stage = stage(p, "attention/subgroup", "attention_subgroup")
        .consts(&[("THREADS", THREADS), ("LANES", lanes), ("ROWS", rows), ("COLUMNS", columns)])
        .args([("q", Read), ("k", Read), ("v", Read), ("out", Write)])
        .threads([THREADS, 1, 1])
        .grid(spread(p["b"] * p["h"] * p["s"].div_ceil(u64::from(rows))))
        // Counter that numbers the teams.
        .shared(4)
        .cost(cost_of_one_stage(p));
    looking(p, Looks::Both, stage).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;
    use parallax_schema::testing::caps;

    #[test]
    fn rows_are_dealt_out_to_teams_that_every_subgroup_has() {
        let case = parse_case("attention/fwd/b1,h1,s100,d72/f32/subgroup").expect("valid");
        let with = |subgroup| Caps { subgroup, ..caps() };
        assert!(available(&case.problem, &with(None)).is_err_and(|why| why.contains("does not offer")));
        assert!(available(&case.problem, &with(Some((4, 32)))).is_err_and(|why| why.contains("at least 8")));
        for (sizes, lanes, rows, columns) in [((8, 32), 8, 64, 9), ((32, 32), 32, 16, 3), ((64, 64), 32, 16, 3)] {
            let caps = with(Some(sizes));
            assert_eq!(available(&case.problem, &caps), Ok(()));
            let program = program(&case.problem, &caps);
            let kernel = program.kernels().next().expect("one stage");
            for constant in [("LANES", lanes), ("ROWS", rows), ("COLUMNS", columns)] {
                assert!(kernel.consts.contains(&(constant.0, constant.1.into())), "{sizes:?}: {constant:?}");
            }
            assert_eq!(kernel.grid, [100_u32.div_ceil(rows), 1, 1]);
        }
    }
}
