//! A step on several GPUs: the problem of one of them, and equal parameters on all.

use parallax_ir::{Draw, GPUS, Problem, Shape};

use super::lengths_of;

/// Checks that the samples have an equal part for each GPU.
///
/// # Errors
/// Both numbers.
pub(super) fn in_parts(shape: &Shape) -> Result<(), String> {
    let (n, gpus) = (shape["n"], shape[GPUS.key]);
    match n.is_multiple_of(gpus) {
        true => Ok(()),
        false => Err(format!("{n} samples have no equal part for each of {gpus} GPUs")),
    }
}

/// Returns the step of one GPU on its samples, without an exchange.
pub(super) fn of_rank(p: &Problem) -> Problem {
    // A problem checks its buffers, which are those of one GPU.
    if p.gpus() == 1 {
        return p.clone();
    }
    let [n, e, v, d, f, t] = ["n", "e", "v", "d", "f", "t"].map(|axis| p[axis]);
    let shape = format!("n{},e{e},v{v},d{d},f{f},t{t}", n / p.gpus());
    Problem::new(p.workload, p.direction, &shape, p.dtype).expect("a part of a valid problem")
}

/// Returns the source of an element of a parameter: that of the first GPU.
pub(super) fn same<const PARAMETER: usize>(shape: &Shape, draw: Draw) -> Draw {
    draw.repeating(lengths_of(shape)[PARAMETER])
}

/// Returns the samples of features counted over all GPUs, from those counted on each.
pub(super) fn of_all(p: &Problem, mut groups: Vec<u32>) -> Vec<u32> {
    let samples = p["n"] / p.gpus();
    for (rank, groups) in (0..).zip(groups.chunks_mut((samples * p["e"]) as usize)) {
        groups.iter_mut().for_each(|group| *group += (rank * samples) as u32);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::super::model::Model;
    use super::super::{LEARNED, NAMES, PRED, read};
    use super::*;
    use crate::parse_problem;
    use parallax_ir::{HostBuffer, Inputs, Place};

    /// All outputs by the reference.
    fn outputs(p: &Problem, inputs: &Inputs) -> Vec<Vec<f64>> {
        let (specs, rows) = (p.buffers(), (p.form().reference.rows)(p, inputs));
        let whole = |(output, buffer): (usize, usize)| {
            let mut out = vec![f64::NAN; specs[buffer].len as usize];
            let row_len = specs[buffer].role.row_len().expect("an output") as usize;
            (0..).zip(out.chunks_mut(row_len)).for_each(|(row, slots)| rows(output, row, slots));
            out
        };
        p.outputs().into_iter().enumerate().map(whole).collect()
    }

    /// Problem of one GPU with the inputs of a group's problem: its samples, numbered through, and one copy of the parameters.
    fn joined(p: &Problem, inputs: &Inputs) -> (Problem, Inputs) {
        let [n, e, v, d, f, t] = ["n", "e", "v", "d", "f", "t"].map(|axis| p[axis]);
        let shape = format!("train_step/fwd+bwd/n{n},e{e},v{v},d{d},f{f},t{t}/f32");
        let alone = parse_problem(&shape).expect("valid");
        let mut own = alone.inputs(1);
        for (at, spec) in alone.buffers().iter().enumerate().filter(|(_, spec)| spec.role.fill().is_some()) {
            let values = inputs.host(at).expect("fits");
            let bytes: Vec<u8> = match (spec.name, values) {
                ("group", HostBuffer::U32(values)) => {
                    of_all(p, values).iter().flat_map(|value| value.to_le_bytes()).collect()
                }
                (_, HostBuffer::U32(values)) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
                ("dloss", HostBuffer::F32(values)) => (values[0] * p.gpus() as f32).to_le_bytes().to_vec(),
                (_, HostBuffer::F32(values)) => {
                    values[..spec.len as usize].iter().flat_map(|value| value.to_le_bytes()).collect()
                }
            };
            own.replace(at, bytes).expect("as long");
        }
        (alone, own)
    }

    #[test]
    fn a_step_of_several_gpus_is_that_of_one_on_all_samples() {
        for (shape, gpus) in [("n8,e3,v5,d4,f6", 2), ("n12,e2,v4,d3,f5,t7", 4)] {
            let p = parse_problem(&format!("train_step/fwd+bwd/{shape},gpus{gpus}/f32")).expect("valid");
            let inputs = p.inputs(3);
            let (alone, own) = joined(&p, &inputs);
            assert_eq!((p.accepts(&inputs), alone.accepts(&own)), (Ok(()), Ok(())));
            let (found, want) = (outputs(&p, &inputs), outputs(&alone, &own));
            for (at, names) in
                NAMES.iter().enumerate().flat_map(|(i, names)| (3 * i..3 * i + 3).map(move |at| (at, names)))
            {
                let each = found[at].chunks(want[at].len()).map(|one| one == want[at]).collect::<Vec<_>>();
                assert_eq!(each, vec![true; gpus], "{p}: {}", names.param);
            }
            assert_eq!(found[PRED], want[PRED]);
            let (losses, loss) = (&found[PRED + 1], want[PRED + 1][0]);
            assert_eq!(losses.len(), gpus);
            assert!((losses.iter().sum::<f64>() / gpus as f64 - loss).abs() < 1e-12, "{losses:?} and {loss}");
        }
    }

    #[test]
    fn gradients_of_all_gpus_sum_to_those_of_the_batch() {
        let p = parse_problem("train_step/fwd+bwd/n12,e3,v5,d4,f6,gpus3/f32").expect("valid");
        let (inputs, own) = (p.inputs(5), of_rank(&p));
        let gradients = |p: &Problem, inputs: &Inputs| {
            let (batch, parameters) = read(p, inputs);
            let values = parameters.each_ref().map(|of| &of.value[..]);
            let model = Model::new(p);
            model.backward(&batch, values, &model.forward(&batch, values))
        };
        let whole = gradients(&p, &inputs);
        let each: Vec<_> = (0..3).map(|rank| gradients(&own, &inputs.of_rank(rank))).collect();
        for (which, whole) in whole.iter().enumerate() {
            for (at, want) in whole.iter().enumerate() {
                let sum: f64 = each.iter().map(|of| of[which][at]).sum();
                assert!((sum - want).abs() <= 1e-12 * (1.0 + want.abs()), "{}: {sum}, {want}", NAMES[which].param);
            }
        }
        assert!(whole.iter().flatten().any(|gradient| gradient.abs() > 0.1), "there is something to compare");
    }

    #[test]
    fn every_gpu_has_its_own_samples_and_the_same_parameters() {
        let p = parse_problem("train_step/fwd+bwd/n64,e3,v5,d4,f6,gpus2/f32").expect("valid");
        let (specs, inputs, own) = (p.buffers(), p.inputs(1), of_rank(&p).buffers());
        assert_eq!((of_rank(&p).gpus(), of_rank(&p)["n"]), (1, 32));
        assert_eq!(specs.len(), own.len());
        for (at, (spec, own)) in specs.iter().zip(&own).enumerate() {
            let part = spec.of_rank();
            assert_eq!(
                (spec.place, spec.ranks(), part.len, &part.dims),
                (Place::EachRank, 2, own.len, &own.dims),
                "{}",
                spec.name
            );
            if spec.role.fill().is_some() {
                let [first, second] = [0, 1].map(|rank| inputs.of_rank(rank).whole(at));
                // Every sample has as many features.
                let equal = at >= LEARNED || ["group", "dloss"].contains(&spec.name);
                assert_eq!(first == second, equal, "{}", spec.name);
            }
        }
    }

    #[test]
    fn samples_without_equal_parts_are_refused_and_one_gpu_has_no_word() {
        let why = parse_problem("train_step/fwd+bwd/n9,e3,v5,d4,f6,gpus2/f32").expect_err("odd").to_string();
        assert!(why.contains("9 samples have no equal part for each of 2 GPUs"), "{why}");
        let alone = parse_problem("train_step/fwd+bwd/n9,e3,v5,d4,f6,gpus1/f32").expect("valid");
        assert_eq!(alone.to_string(), "train_step/fwd+bwd/n9,e3,v5,d4,f6/f32");
        assert!(alone.buffers().iter().all(|spec| spec.place == Place::Device));
    }
}
