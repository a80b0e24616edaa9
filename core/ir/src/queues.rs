//! Commands of a target with several queues, as data, derived from the queues and dependencies of a program's stages.

use std::collections::BTreeSet;

use super::{Access, Stage};

/// Command for a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueCommand {
    /// Runs a stage, given by its position.
    Run {
        /// Queue.
        queue: usize,
        /// Position of the stage.
        stage: usize,
    },
    /// Sets a mark, which is reached when all earlier commands on its queue are complete.
    Mark {
        /// Queue.
        queue: usize,
        /// Number of the mark.
        mark: usize,
    },
    /// Blocks later commands on a queue until a mark is reached. The mark is set earlier in the list.
    Wait {
        /// Queue.
        queue: usize,
        /// Number of the mark.
        mark: usize,
    },
}

/// Execution of a program on several queues. Queue 0 is the main one. The others begin after the earlier commands of the main
/// queue. Later commands of the main queue begin after all others, so that its timestamps bracket the whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queues {
    /// Number of queues, with the main one.
    pub queues: usize,
    /// Number of marks.
    pub marks: usize,
    /// Commands, in the order in which the host issues them.
    pub orders: Vec<QueueCommand>,
}

/// Returns the queue numbers of stages in ascending order. The position is the queue in [`Queues`].
fn named(stages: &[Stage]) -> Vec<u32> {
    stages.iter().map(|stage| stage.queue).collect::<BTreeSet<_>>().into_iter().collect()
}

impl Queues {
    /// Returns the commands for stages in the order of a single queue.
    ///
    /// # Errors
    /// Stage that waits for one not before it. Two stages on different queues that access a buffer, at least one writing, without
    /// a wait between them.
    pub fn from_stages(stages: &[Stage]) -> Result<Queues, String> {
        let names = named(stages);
        let queue_of = |stage: usize| names.iter().position(|name| *name == stages[stage].queue).expect("collected");
        check(stages)?;
        let queues = names.len().max(1);
        let mut made = Queues { queues, marks: 0, orders: Vec::new() };
        for other in 1..queues {
            if other == 1 {
                made.mark(0);
            }
            made.orders.push(QueueCommand::Wait { queue: other, mark: 0 });
        }
        // Mark after each stage that another queue waits for.
        let mut marks: Vec<Option<usize>> = vec![None; stages.len()];
        // Last stage of each queue that each queue has already waited for.
        let mut waited: Vec<Vec<Option<usize>>> = vec![vec![None; queues]; queues];
        for (stage, Stage { after, .. }) in stages.iter().enumerate() {
            let queue = queue_of(stage);
            for before in after.iter().copied().filter(|before| queue_of(*before) != queue) {
                let known = &mut waited[queue][queue_of(before)];
                if known.is_none_or(|known| known < before) {
                    *known = Some(before);
                    let mark = marks[before].expect("made behind the stage, which came before");
                    made.orders.push(QueueCommand::Wait { queue, mark });
                }
            }
            made.orders.push(QueueCommand::Run { queue, stage });
            let awaited = |later: usize| stages[later].after.contains(&stage) && queue_of(later) != queue;
            if (stage + 1..stages.len()).any(awaited) {
                marks[stage] = Some(made.mark(queue));
            }
        }
        for other in 1..queues {
            let mark = made.mark(other);
            made.orders.push(QueueCommand::Wait { queue: 0, mark });
        }
        Ok(made)
    }

    /// Returns the commands for the stages after a set-up of `setup` stages, which precede them in one list. The set-up runs
    /// separately before them, so that nothing has to wait for it.
    ///
    /// # Errors
    /// Errors of [`Queues::from_stages`].
    pub fn after_setup(setup: usize, stages: &[Stage]) -> Result<Queues, String> {
        let timed = stages.iter().skip(setup).cloned().map(|stage| Stage {
            after: stage.after.iter().filter_map(|before| before.checked_sub(setup)).collect(),
            ..stage
        });
        Queues::from_stages(&timed.collect::<Vec<_>>())
    }

    fn mark(&mut self, queue: usize) -> usize {
        let mark = self.marks;
        self.marks += 1;
        self.orders.push(QueueCommand::Mark { queue, mark });
        mark
    }
}

/// Checks that stages wait for earlier ones only, and for all with conflicting accesses to their buffers.
fn check(stages: &[Stage]) -> Result<(), String> {
    // Stages complete at the begin of each stage.
    let mut done: Vec<BTreeSet<usize>> = Vec::new();
    for (i, stage) in stages.iter().enumerate() {
        if let Some(late) = stage.after.iter().find(|before| **before >= i) {
            return Err(format!("`{}` (stage {i}) waits for stage {late}, which does not come before it", stage.label));
        }
        let same_queue = (0..i).rev().find(|before| stages[*before].queue == stage.queue);
        let direct: BTreeSet<usize> = stage.after.iter().copied().chain(same_queue).collect();
        let all = direct.iter().flat_map(|before| done[*before].iter().copied()).chain(direct.iter().copied());
        let all: BTreeSet<usize> = all.collect();
        for other in (0..i).filter(|other| !all.contains(other)) {
            if let Some(buffer) = shared(stage, &stages[other]) {
                let (one, two) = (&stages[other].label, &stage.label);
                return Err(format!(
                    "`{one}` and `{two}` touch `{buffer}` on two queues, and neither waits for the other"
                ));
            }
        }
        done.push(all);
    }
    Ok(())
}

/// Returns a buffer that both access and at least one writes.
fn shared(a: &Stage, b: &Stage) -> Option<&'static str> {
    let clash = |arg: &&super::Arg| {
        b.args
            .iter()
            .any(|other| other.buffer == arg.buffer && (other.access == Access::Write || arg.access == Access::Write))
    };
    a.args.iter().find(clash).map(|arg| arg.buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(queue: u32, after: &[usize], args: &[(&'static str, Access)]) -> Stage {
        Stage::kernel("stage", "fma/scalar", "fma_scalar").args(args.iter().copied()).queue(queue, after)
    }

    fn run(queue: usize, stage: usize) -> QueueCommand {
        QueueCommand::Run { queue, stage }
    }

    fn mark(queue: usize, mark: usize) -> QueueCommand {
        QueueCommand::Mark { queue, mark }
    }

    fn wait(queue: usize, mark: usize) -> QueueCommand {
        QueueCommand::Wait { queue, mark }
    }

    #[test]
    fn one_queue_needs_no_marks() {
        // The queue has any number, and a stage states a dependency that the order implies.
        let stages = [stage(3, &[], &[]), stage(3, &[0], &[])];
        assert_eq!(
            Queues::from_stages(&stages),
            Ok(Queues { queues: 1, marks: 0, orders: vec![run(0, 0), run(0, 1)] })
        );
        assert_eq!(Queues::from_stages(&[]).map(|q| q.queues), Ok(1));
    }

    #[test]
    fn other_queues_fork_from_the_main_one_wait_where_said_and_join_it() {
        // Uploads on queue 5 into two alternating buffers, kernels on them on queue 2.
        use Access::{Read, Write};
        let stages = [
            stage(5, &[], &[("even", Write)]),
            stage(2, &[0], &[("even", Read)]),
            stage(5, &[], &[("odd", Write)]),
            stage(2, &[2], &[("odd", Read)]),
            stage(5, &[1], &[("even", Write)]),
            stage(2, &[4, 0], &[("even", Read)]),
        ];
        let got = Queues::from_stages(&stages).expect("in order");
        let want = [
            mark(0, 0),
            wait(1, 0),
            run(1, 0),
            mark(1, 1),
            wait(0, 1),
            run(0, 1),
            mark(0, 2),
            run(1, 2),
            mark(1, 3),
            wait(0, 3),
            run(0, 3),
            wait(1, 2),
            run(1, 4),
            mark(1, 4),
            // Stage 0 needs no second wait: a later stage of its queue was waited for.
            wait(0, 4),
            run(0, 5),
            mark(1, 5),
            wait(0, 5),
        ];
        assert_eq!(got, Queues { queues: 2, marks: 6, orders: want.to_vec() });
    }

    #[test]
    fn a_set_up_is_done_before_and_counts_in_the_numbers_only() {
        use Access::{Read, Write};
        let setup = [stage(0, &[], &[("x", Write)]), stage(0, &[], &[])];
        let timed = [stage(1, &[], &[("x", Read)]), stage(0, &[0], &[])];
        let shifted = [stage(1, &[], &[("x", Read)]), stage(0, &[2], &[])];
        assert_eq!(Queues::after_setup(2, &[&setup[..], &shifted[..]].concat()), Queues::from_stages(&timed));
    }

    #[test]
    fn every_mark_is_made_once_and_before_it_is_waited_for() {
        let stages: Vec<Stage> = (0..40)
            .map(|i| stage(i as u32 * 7 % 5, &(0..i).filter(|b| (i + b) % 3 == 0).collect::<Vec<_>>(), &[]))
            .collect();
        let queues = Queues::from_stages(&stages).expect("nothing is shared");
        let mut made = BTreeSet::new();
        for order in &queues.orders {
            match order {
                QueueCommand::Mark { mark, .. } => assert!(made.insert(*mark), "{mark} twice"),
                QueueCommand::Wait { mark, .. } => assert!(made.contains(mark), "{mark} is not made yet"),
                QueueCommand::Run { .. } => {}
            }
        }
        assert_eq!(made.len(), queues.marks);
        let ran: Vec<usize> = queues
            .orders
            .iter()
            .filter_map(|o| if let QueueCommand::Run { stage, .. } = o { Some(*stage) } else { None })
            .collect();
        assert_eq!(ran, (0..40).collect::<Vec<_>>());
        // Join: all queues but the main one, at the end.
        assert!(matches!(
            queues.orders[..],
            [.., QueueCommand::Mark { queue: 4, .. }, QueueCommand::Wait { queue: 0, .. }]
        ));
    }

    #[test]
    fn what_cannot_be_waited_for_and_what_should_be_is_said() {
        use Access::{Read, Write};
        let late = [stage(0, &[1], &[]), stage(1, &[], &[])];
        assert!(Queues::from_stages(&late).expect_err("later").contains("waits for stage 1"));
        let race = [stage(0, &[], &[("x", Write)]), stage(1, &[], &[("x", Read)])];
        assert!(Queues::from_stages(&race).expect_err("a race").contains("touch `x` on two queues"));
        let ordered = [stage(0, &[], &[("x", Write)]), stage(1, &[0], &[]), stage(1, &[], &[("x", Read)])];
        assert!(Queues::from_stages(&ordered).is_ok(), "through the queue of the one that waits");
        let readers = [stage(0, &[], &[("x", Read)]), stage(1, &[], &[("x", Read)])];
        assert!(Queues::from_stages(&readers).is_ok());
    }
}
