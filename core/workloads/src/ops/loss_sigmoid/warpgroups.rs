//! Variants by warpgroups (`wgmma`), in both directions: instructions and copies of compute capability 9.0 alone.

use parallax_ir::Access::{Read, Write};
use parallax_ir::{Arg, BufferSpec, Elem, Gemm, Layout, Problem, Program, RowProducts, Stage};
use parallax_schema::case::{Cost, DType};
use parallax_schema::device::Caps;

use super::backward::{SETS, scalars};
use super::{mean, products, set, share};

/// Buffer of slopes times the temperature, in the element type.
const SCALED: &str = "scaled_slopes";

/// Scratch of the backward direction.
pub(super) fn scratch(p: &Problem) -> BufferSpec {
    BufferSpec::scratch(SCALED, Elem::Real, &[p["n"], p["n"]])
}

/// Products of all pairs.
fn pairs(p: &Problem) -> RowProducts {
    RowProducts::new([p["n"], p["n"]], p["d"], Elem::Real.storage(p.dtype))
}

/// As [`pairs`], for slopes: terms of two kinds need registers.
fn slopes_of(p: &Problem) -> RowProducts {
    pairs(p).widest(128)
}

/// GEMM of the gradient of a set, from the slopes and the other set.
fn gradient(p: &Problem, by_columns: bool) -> Gemm {
    Gemm::new(p["n"], p["d"], p["n"]).layout(if by_columns { Layout::Tn } else { Layout::Nn })
}

fn of_floats(p: &Problem) -> Result<(), String> {
    match p.dtype {
        DType::F32 => Err("wgmma multiplies 16-bit floats: tensor cores would round f32 to TF32".to_owned()),
        _ => Ok(()),
    }
}

/// Checks that a device can compute the loss.
///
/// # Errors
/// Reason why it cannot.
pub(super) fn available(p: &Problem, caps: &Caps) -> Result<(), String> {
    of_floats(p)?;
    pairs(p).available(caps)
}

/// Checks that a device can compute the gradients.
///
/// # Errors
/// Reason why it cannot.
pub(super) fn backward_available(p: &Problem, caps: &Caps) -> Result<(), String> {
    of_floats(p)?;
    slopes_of(p).stores_available(Elem::Real.storage(p.dtype), caps)?;
    SETS.iter().try_for_each(|(_, by_columns)| gradient(p, *by_columns).wgmma_available(p.dtype, caps))
}

/// Stage on products of all pairs, with the arguments of logits.
fn of_pairs(
    p: &Problem,
    caps: &Caps,
    of: &RowProducts,
    entry: &'static str,
    rest: impl IntoIterator<Item = Arg>,
) -> Stage {
    let [x, y] = of.operands(caps);
    let logits = [
        Arg::from(("x", Read)).mapped(x),
        Arg::from(("y", Read)).mapped(y),
        ("temperature", Read).into(),
        ("bias", Read).into(),
        ("parts", Write).into(),
    ];
    of.stage(caps, "loss_sigmoid/wgmma", entry).consts(&[share(p)]).args(logits.into_iter().chain(rest))
}

pub(super) fn loss(p: &Problem, caps: &Caps) -> Program {
    let of = pairs(p);
    let parts = of.blocks(caps);
    let cost = Cost::new(products(p), 2 * set(p) + 8, 4 * parts);
    Program { stages: vec![of_pairs(p, caps, &of, "loss_sigmoid_wgmma", []).cost(cost), mean(p, caps, parts)] }
}

pub(super) fn gradients(p: &Problem, caps: &Caps) -> Program {
    let (of, element) = (slopes_of(p), Elem::Real.storage(p.dtype));
    let parts = of.blocks(caps);
    let stored = element.bytes() * p["n"] * p["n"];
    let rest = [("dloss", Read).into(), Arg::from((SCALED, Write)).mapped(of.results(element))];
    let slopes = of_pairs(p, caps, &of, "loss_sigmoid_wgmma_slopes", rest);
    let slopes = slopes.cost(Cost::new(products(p), 2 * set(p) + 12, stored + 8 * parts));
    let gradients = SETS.map(|([other, to], by_columns)| {
        gradient(p, by_columns)
            .wgmma(caps, "matmul/wgmma", "matmul_wgmma", [SCALED, other, to], [], &[])
            .label(to)
            .cost(Cost::new(products(p), stored + set(p), set(p)))
    });
    Program { stages: [slopes, scalars(caps, parts)].into_iter().chain(gradients).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;
    use parallax_schema::testing::hopper;

    fn problem(case: &str) -> Problem {
        parse_case(&format!("loss_sigmoid/{case}")).expect("valid").problem
    }

    #[test]
    fn the_loss_has_a_part_for_each_block_and_gradients_share_the_slopes() {
        let caps = Caps { compute_units: Some(132), ..hopper() };
        let p = problem("fwd/n4096,d512/bf16/wgmma");
        assert_eq!(available(&p, &caps), Ok(()));
        assert_eq!(loss(&p, &caps).stages.len(), 2);
        assert_eq!(pairs(&p).blocks(&caps), 132);
        let p = problem("bwd/n4096,d512/bf16/wgmma");
        assert_eq!(backward_available(&p, &caps), Ok(()));
        let reads = |stage: &Stage| stage.args.iter().any(|arg| arg.buffer == SCALED);
        assert_eq!(gradients(&p, &caps).stages.iter().filter(|stage| reads(stage)).count(), 3);
    }

    #[test]
    fn refusals_have_a_reason() {
        let refused = |case: &str, part: &str| {
            let p = problem(case);
            let check = if case.starts_with("fwd") { available } else { backward_available };
            assert!(check(&p, &hopper()).is_err_and(|why| why.contains(part)), "{case}");
        };
        refused("fwd/n64,d64/f32/wgmma", "TF32");
        refused("fwd/n9,d257/f16/wgmma", "a row has 514");
        refused("bwd/n9,d264/f16/wgmma", "a row has 18");
        assert_eq!(available(&problem("fwd/n9,d264/f16/wgmma"), &hopper()), Ok(()));
    }
}
