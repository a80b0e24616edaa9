//! What a step over a batch takes beside its execution: the batch is made ready on the host, moved to the device, and what comes
//! of it is read back.

use crate::device::{BackendError, Profiler, Transfer};
use crate::record::{LOADING, Phase, TRANSFER};
use crate::suite::{BufferSpec, Inputs, Problem, Role};
use crate::units::Nanos;

/// Bytes that are made ready at a time, between which others may run.
const PIECE: usize = 8 << 20;

/// Both of them once. Loading makes the inputs in host memory, from their seed as before the first execution. The transfer is that
/// of as many bytes in one piece each way; its phase is as long as they took and ends when they had arrived. What executions
/// change, as parameters that are learned, is no part of a batch: it stays on the device.
///
/// There is no transfer where the device computes in the host's memory, or cannot take so much in one piece.
///
/// # Errors
/// Only a lost device.
pub(super) async fn once(
    profiler: &mut dyn Profiler,
    problem: &Problem,
    inputs: &Inputs,
) -> Result<Vec<Phase>, BackendError> {
    let phase = |name: &str, start, end| Phase { name: name.to_owned(), start, end };
    let start = profiler.now();
    load(profiler, problem, inputs).await;
    let mut phases = vec![phase(LOADING, start, profiler.now())];
    let bytes = |wanted: fn(Role) -> bool| problem.bytes(|b| !b.place.is_host() && wanted(b.role)).0;
    let ways = [
        (Transfer::Upload, bytes(|role| matches!(role, Role::Input(_)))),
        (Transfer::Download, bytes(|role| matches!(role, Role::Output { .. }))),
    ];
    let mut took = 0.0;
    for (way, bytes) in ways.into_iter().filter(|(_, bytes)| *bytes > 0) {
        match profiler.transfer(way, bytes).await {
            Ok(Some(time)) => took += time.0,
            Err(BackendError::Lost(why)) => return Err(BackendError::Lost(why)),
            Ok(None) | Err(_) => return Ok(phases),
        }
    }
    // Memory for it is made before the clock of a transfer starts, and belongs to none.
    let end = profiler.now();
    phases.push(phase(TRANSFER, Nanos(end.0 - took), end));
    Ok(phases)
}

async fn load(profiler: &dyn Profiler, problem: &Problem, inputs: &Inputs) {
    let specs = problem.buffers();
    let of_batch = |(_, spec): &(usize, &BufferSpec)| matches!(spec.role, Role::Input(_));
    for (index, spec) in specs.iter().enumerate().filter(of_batch) {
        let (all, size) = (spec.bytes(problem.dtype).0, spec.elem.storage(problem.dtype).bytes());
        let mut piece = vec![0; PIECE.min(all as usize)];
        let mut offset = 0;
        while offset < all {
            let length = piece.len().min((all - offset) as usize);
            inputs.write(index, offset / size, &mut piece[..length]);
            offset += length as u64;
            profiler.yield_now().await;
        }
        std::hint::black_box(&piece);
    }
}
