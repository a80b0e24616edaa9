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

/// Shuffles a list (Fisher and Yates) with random numbers from a counter.
pub(super) fn shuffle<T>(things: &mut [T], seed: u64) {
    for i in (1..things.len()).rev() {
        let draw = splitmix64(seed.wrapping_add((i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        things.swap(i, (draw % (i as u64 + 1)) as usize);
    }
}
