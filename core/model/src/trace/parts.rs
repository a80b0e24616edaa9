//! Operators one behind the other that one kernel of the suite computes together.

use parallax_schema::case::DType;

use super::operators::{Operator, computes};
use super::{Event, events_of};
use crate::problems::{StandIn, of_rows, product, rope};

/// RMSNorm of models that write it out: the mean of x², its root, and two products.
const NORM: [&str; 6] = ["aten::pow", "aten::mean", "aten::add", "aten::rsqrt", "aten::mul", "aten::mul"];
/// Rotary embedding of one tensor: it by cosines, its turned half by sines, and their sum.
const ROTARY: [&str; 5] = ["aten::mul", "aten::neg", "aten::cat", "aten::mul", "aten::add"];

/// Problem for several operators.
pub(super) struct Whole {
    /// Name of the operators together.
    pub kind: &'static str,
    pub stand_in: StandIn,
    /// Number of events, with those of inner operators.
    pub events: usize,
}

/// Returns the problem of the operators from the first event on, if they are the parts of one.
pub(super) fn joined(operators: &[&Event], wanted: Option<DType>) -> Option<Whole> {
    rms_norm(operators, wanted).or_else(|| rotary(operators, wanted))
}

/// Finds operators of these names. Between them, and before the first one a conversion, may be conversions and views.
fn chain<'t, const N: usize>(operators: &[&'t Event], names: [&str; N]) -> Option<([Operator<'t>; N], usize)> {
    let first = operators.first()?;
    (first.name == names[0] || first.name == "aten::to").then_some(())?;
    let (mut found, mut place) = (Vec::with_capacity(N), 0);
    while found.len() < N {
        let event = operators.get(place).filter(|event| event.tid == first.tid)?;
        if event.name == names[found.len()] {
            found.push(Operator::of(event));
        } else if computes(&event.name) {
            return None;
        }
        place += events_of(&operators[place..]);
    }
    Some((found.try_into().ok()?, place))
}

fn rms_norm(operators: &[&Event], wanted: Option<DType>) -> Option<Whole> {
    let ([powers, mean, _, _, _, scaled], events) = chain(operators, NORM)?;
    let x = powers.shape(0)?;
    let columns = *x.last()?;
    let over_rows = powers.text(1) == Some("2") && mean.text(1) == Some("[-1]");
    let by_columns = (0..2).any(|at| scaled.shape(at) == Some(&[columns]));
    (over_rows && by_columns).then_some(())?;
    let dtype = wanted.or_else(|| scaled.dtype())?;
    let note = "its operators are one kernel of the suite";
    Some(Whole {
        kind: "RMSNorm in parts",
        stand_in: of_rows("rmsnorm", product(x) / columns.max(1), columns, dtype, note),
        events,
    })
}

fn rotary(operators: &[&Event], wanted: Option<DType>) -> Option<Whole> {
    let ([first, turned, _, second, _], events) = chain(operators, ROTARY)?;
    let x @ [b, h, s, d] = first.shape(0)? else { return None };
    let half = [*b, *h, *s, *d / 2];
    (turned.shape(0) == Some(&half[..]) && second.shape(0) == Some(x)).then_some(())?;
    let dtype = wanted.or_else(|| first.dtype())?;
    Some(Whole { kind: "rotary embedding in parts", stand_in: rope(*b, *h, *s, *d, dtype), events })
}
