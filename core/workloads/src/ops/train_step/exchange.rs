//! Exchanges of gradients between GPUs: all at once after backward, or by layers while it goes on.

use parallax_ir::Access::{Read, Write};
use parallax_ir::{Arg, Collective, Problem, Program, Stage};
use parallax_schema::case::Cost;

use super::{NAMES, lengths};

/// Component of the profile.
const EXCHANGE: &str = "exchange";

/// Parameters whose gradients are exchanged together.
struct Bucket {
    label: &'static str,
    /// Parameters, by their number.
    parameters: &'static [usize],
}

const ALL: Bucket = Bucket { label: "sum_all", parameters: &[0, 1, 2, 3, 4] };

/// A bucket for each layer, in the order of backward.
const LAYERS: [Bucket; 3] = [
    Bucket { label: "sum_heads", parameters: &[3, 4] },
    Bucket { label: "sum_hidden", parameters: &[1, 2] },
    Bucket { label: "sum_table", parameters: &[0] },
];

impl Bucket {
    /// Returns the stage that sums the gradients over all GPUs, in place.
    fn stage(&self, p: &Problem) -> Stage {
        let pairs = |which: &usize| [Read, Write].map(|access| Arg::from((NAMES[*which].gradient, access)));
        let elements: u64 = self.parameters.iter().map(|which| lengths(p)[*which]).sum();
        Stage::collective(self.label, Collective::AllReduce)
            .args(self.parameters.iter().flat_map(pairs))
            .cost(Cost::new((p.gpus() - 1) * elements / p.gpus(), 4 * elements, 4 * elements))
            .component(EXCHANGE)
    }

    /// Whether a stage writes one of the gradients.
    fn is_written_by(&self, stage: &Stage) -> bool {
        let is_gradient = |arg: &Arg| self.parameters.iter().any(|which| NAMES[*which].gradient == arg.buffer);
        stage.args.iter().any(|arg| arg.access == Write && is_gradient(arg))
    }
}

/// Returns the program with one exchange between backward and the optimiser. One GPU exchanges nothing.
pub(super) fn after_backward(p: &Problem, (mut stages, optimiser): (Vec<Stage>, Vec<Vec<Stage>>)) -> Program {
    if p.gpus() > 1 {
        stages.push(ALL.stage(p));
    }
    stages.extend(optimiser.into_iter().flatten());
    Program { stages }
}

/// Queue of the exchanges; all other stages are on queue 0.
const BESIDE: u32 = 1;

/// Returns the program with an exchange for each layer, on a queue of its own. An exchange waits for the gradients of its layer,
/// and the optimiser of a layer for its exchange. Layers are optimised in the order of their exchanges.
pub(super) fn overlapped(p: &Problem, (computed, mut optimiser): (Vec<Stage>, Vec<Vec<Stage>>)) -> Program {
    let last = LAYERS.each_ref().map(|bucket| computed.iter().rposition(|stage| bucket.is_written_by(stage)));
    let mut stages: Vec<Stage> = Vec::new();
    let mut exchanges = Vec::new();
    for (at, stage) in computed.into_iter().enumerate() {
        stages.push(stage);
        for bucket in LAYERS.iter().zip(last).filter(|(_, last)| *last == Some(at)).map(|(bucket, _)| bucket) {
            let gradient = stages.len() - 1;
            exchanges.push((stages.len(), bucket));
            stages.push(bucket.stage(p).queue(BESIDE, &[gradient]));
        }
    }
    for (exchange, bucket) in exchanges {
        for which in bucket.parameters {
            let steps = std::mem::take(&mut optimiser[*which]);
            stages.extend(steps.into_iter().map(|stage| stage.queue(0, &[exchange])));
        }
    }
    Program { stages }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_case;
    use parallax_ir::{Queues, StageOp};
    use parallax_schema::testing::caps;

    const SHAPE: &str = "n8,e3,v5,d4,f8";

    fn stages(shape: &str, variant: &str) -> Vec<Stage> {
        let case = parse_case(&format!("train_step/fwd+bwd/{shape}/f32/{variant}")).expect("valid");
        case.program(&caps()).expect("kernels").stages
    }

    fn is_exchange(stage: &Stage) -> bool {
        matches!(stage.work, StageOp::Collective(_))
    }

    #[test]
    fn between_exchanges_are_the_stages_of_one_gpu_on_its_samples() {
        for variant in ["separate", "fused"] {
            let (mut two, one) = (stages("n16,e3,v5,d4,f8,gpus2", variant), stages(SHAPE, variant));
            let at = two.iter().position(is_exchange).expect("one exchange");
            let exchange = two.remove(at);
            assert_eq!(two, one, "{variant}");
            assert_eq!(one[at - 1].component, Some("backward"));
            assert_eq!(one[at].component, Some("optimiser"));
            assert_eq!(exchange.args.len(), 2 * NAMES.len());
            let gradients: Vec<&str> = exchange.args.chunks(2).map(|pair| pair[0].buffer).collect();
            assert_eq!(gradients, NAMES.map(|names| names.gradient));
            assert!(exchange.args.chunks(2).all(|pair| pair[0].buffer == pair[1].buffer));
            assert!(!two[at..].iter().any(|stage| ALL.is_written_by(stage)), "{variant}: all gradients exist");
        }
    }

    #[test]
    fn layers_are_exchanged_as_soon_as_their_gradients_exist() {
        let all = stages("n16,e3,v5,d4,f8,gpus2", "overlapped");
        let queues = Queues::from_stages(&all).expect("nothing touches a gradient beside its exchange");
        assert_eq!(queues.queues, 2);
        let exchanges: Vec<usize> = (0..all.len()).filter(|at| is_exchange(&all[*at])).collect();
        let labels: Vec<&str> = exchanges.iter().map(|at| &*all[*at].label).collect();
        assert_eq!(labels, LAYERS.map(|bucket| bucket.label));
        for (at, bucket) in exchanges.iter().zip(&LAYERS) {
            assert_eq!((all[*at].queue, &all[*at].after[..]), (BESIDE, &[at - 1][..]), "directly behind its gradients");
            assert!(bucket.is_written_by(&all[at - 1]));
            assert!(!all[at + 1..].iter().any(|stage| !is_exchange(stage) && bucket.is_written_by(stage)));
        }
        let backward = all.iter().rposition(|stage| stage.component == Some("backward")).expect("some");
        assert!(exchanges[..2].iter().all(|at| *at < backward), "two of three have backward beside them");
        let mut one = stages(SHAPE, "fused");
        let mut two: Vec<Stage> = all.into_iter().filter(|stage| !is_exchange(stage)).collect();
        two.iter_mut().for_each(|stage| stage.after.clear());
        for stages in [&mut one, &mut two] {
            stages.sort_by(|a, b| a.label.cmp(&b.label));
        }
        assert_eq!(two, one, "the same work");
    }

    #[test]
    fn an_optimiser_that_does_not_wait_is_found_out() {
        let mut all = stages("n16,e3,v5,d4,f8,gpus2", "overlapped");
        all.iter_mut().filter(|stage| !is_exchange(stage)).for_each(|stage| stage.after.clear());
        let said = Queues::from_stages(&all).expect_err("the exchange writes gradients of the optimiser");
        assert!(said.contains("on two queues"), "{said}");
    }
}
