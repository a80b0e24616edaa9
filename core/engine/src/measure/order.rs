//! Order in which cases are measured.

use parallax_ir::splitmix64;

use crate::plan::Planned;

/// Problems in a seeded random order, each with its variants together. The list is reversed, because cases are taken from its
/// end.
pub(super) fn shuffled_by_problem<'p>(todo: &[&'p Planned], seed: u64) -> Vec<&'p Planned> {
    let problem = |planned: &Planned| planned.case.problem.to_string();
    let mut problems: Vec<&[&'p Planned]> = todo.chunk_by(|a, b| problem(a) == problem(b)).collect();
    shuffle(&mut problems, splitmix64(seed));
    let mut queue: Vec<&'p Planned> = problems.concat();
    queue.reverse();
    queue
}

/// Moves the problem with the least work to the end, from where it is measured first. A problem with uploads is no choice, because
/// its cases need the ceilings before.
pub(super) fn lightest_last(mut queue: Vec<&Planned>) -> Vec<&Planned> {
    let work = |planned: &Planned| {
        let (problem, cost) = (&planned.case.problem, planned.case.problem.cost());
        (problem.crossing().up.0 > 0, cost.flops.0.max(BALANCE * (cost.read.0 + cost.written.0)))
    };
    let Some(lightest) = queue.iter().min_by_key(|planned| work(planned)) else { return queue };
    let problem = lightest.case.problem.to_string();
    // The sort is stable.
    queue.sort_by_key(|planned| planned.case.problem.to_string() == problem);
    queue
}

/// Operations that take about as long as a byte.
const BALANCE: u64 = 16;

/// Shuffles a list (Fisher and Yates) with random numbers from a counter.
pub(super) fn shuffle<T>(things: &mut [T], seed: u64) {
    for i in (1..things.len()).rev() {
        let draw = splitmix64(seed.wrapping_add((i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        things.swap(i, (draw % (i as u64 + 1)) as usize);
    }
}
