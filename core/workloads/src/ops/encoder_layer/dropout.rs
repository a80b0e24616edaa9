//! Dropout of the layer's two additions to the residual stream: first the output of attention's projection, second that of the MLP.
//! The backward pass draws the same words again, and nothing is stored.

use parallax_ir::{Access, BufferSpec, Elem, HostBuffer, Inputs, Problem, Stage};
use parallax_schema::case::Direction;
use parallax_schema::device::Caps;

use super::super::attention_block::{row_count, width};
use super::super::dropout::{keeps, key, key_in};
use crate::SubOp;
use crate::real::{Real, narrow};

/// Names of both keys.
const KEYS: [&str; 2] = ["seed1", "seed2"];
/// Buffers after dropout, forward, and of its gradients.
pub(super) const DROPPED: [&str; 2] = ["dropped1", "dropped2"];
pub(super) const GRADIENTS: [&str; 2] = ["ddropped1", "ddropped2"];

/// Whether the layer has dropout.
pub(super) fn drops(p: &Problem) -> bool {
    share(p) > 0.0
}

fn share(p: &Problem) -> f64 {
    p.shape.decimal("p")
}

/// Factor of kept elements.
pub(super) fn factor(p: &Problem) -> f64 {
    1.0 / (1.0 - share(p))
}

/// Key inputs, if the layer has dropout.
pub(super) fn keys(p: &Problem) -> Vec<BufferSpec> {
    let input = |name: &'static str| BufferSpec::input(name, Elem::U32, &[2], key);
    if drops(p) { KEYS.map(input).to_vec() } else { Vec::new() }
}

/// Buffers after dropout, if the layer has it.
pub(super) fn scratch(p: &Problem, names: &[&'static str]) -> Vec<BufferSpec> {
    let rows = |name: &&'static str| BufferSpec::scratch(name, Elem::Real, &[p["b"], p["s"], width(p)]);
    if drops(p) { names.iter().map(rows).collect() } else { Vec::new() }
}

/// Redirects stages that read one buffer to the output of the first or second dropout of it, in another buffer.
pub(super) fn dropping(
    p: &Problem,
    caps: &Caps,
    mut stages: Vec<Stage>,
    which: usize,
    [from, to]: [&'static str; 2],
) -> Vec<Stage> {
    if !drops(p) {
        return stages;
    }
    let reads = |stage: &Stage| stage.args.iter().any(|arg| arg.buffer == from && arg.access == Access::Read);
    let first = stages.iter().position(reads).expect("a stage that reads the input of dropout");
    let component = stages[first].component;
    for stage in stages.iter_mut().filter(|stage| reads(stage)) {
        *stage = stage.clone().on_buffers(&[(from, to)]);
    }
    let inner = SubOp::new("dropout", Direction::Fwd, &format!("n{},p{}", row_count(p) * width(p), share(p)), p.dtype);
    let dropout = inner.stages("regenerated", caps, &[("x", from), ("seed", KEYS[which]), ("out", to)]);
    let called = |stage: Stage| Stage { component, ..stage.label(format!("dropout_{}", which + 1)) };
    stages.splice(first..first, dropout.into_iter().map(called));
    stages
}

/// Factors of the elements of an item's two parts, if the layer has dropout: zero, or the factor of kept elements.
pub(crate) type Factors<T> = Option<[Vec<T>; 2]>;

/// Factors of an item under two keys.
fn factors<T: Real>(p: &Problem, item: u64, keys: [[u32; 2]; 2]) -> [Vec<T>; 2] {
    let (elements, stays) = (p["s"] * width(p), narrow(factor(p)));
    let of = |key: [u32; 2]| {
        let places = item * elements..(item + 1) * elements;
        places.map(|at| if keeps(p, at, key) { stays } else { T::zero() }).collect()
    };
    keys.map(of)
}

/// Indices of the keys among the buffers.
fn places(p: &Problem) -> [usize; 2] {
    let buffers = p.buffers();
    KEYS.map(|name| buffers.iter().position(|spec| spec.name == name).expect("an input where anything is dropped"))
}

/// Factors of an item, for the reference.
pub(super) fn of_inputs(p: &Problem, inputs: &Inputs, item: u64) -> Factors<f64> {
    drops(p).then(|| factors(p, item, places(p).map(|place| key_in(inputs, place))))
}

/// Factors of an item, for host code.
pub(super) fn of_host(p: &Problem, inputs: &[HostBuffer], item: usize) -> Factors<f32> {
    let key = |place: usize| [inputs[place].u32()[0], inputs[place].u32()[1]];
    drops(p).then(|| factors(p, item as u64, places(p).map(key)))
}

#[cfg(test)]
mod tests {
    use crate::parse_case;
    use parallax_ir::Program;
    use parallax_schema::testing::caps;

    #[test]
    fn each_direction_drops_from_both_parts_and_only_where_a_share_is_given() {
        let labels = |program: &Program| -> Vec<String> {
            let dropout = program.stages.iter().filter(|stage| stage.entry() == "dropout_regenerated");
            dropout.map(|stage| stage.label.to_string()).collect()
        };
        for (direction, set_up, timed) in [
            ("fwd", &[][..], &["dropout_1", "dropout_2"][..]),
            ("bwd", &["dropout_1"], &["dropout_2", "dropout_1"]),
            ("fwd+bwd", &[], &["dropout_1", "dropout_2", "backward_dropout_2", "backward_dropout_1"]),
        ] {
            for variant in ["unfused", "fused"] {
                for (share, set_up, timed) in [("", &[][..], &[][..]), (",p0.1", set_up, timed)] {
                    let text = format!("encoder_layer/{direction}/b2,s5,h2,d8,f16{share}/f32/{variant}");
                    let case = parse_case(&text).expect("valid");
                    let program = case.program(&caps()).expect("a kernel variant");
                    assert_eq!(labels(&program), timed, "{text}");
                    let setup = case.problem.form().setup.map(|setup| labels(&setup(&case.problem, &caps())));
                    assert_eq!(setup.unwrap_or_default(), set_up, "{text}");
                }
            }
        }
    }
}
