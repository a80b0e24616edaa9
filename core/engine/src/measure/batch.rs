//! Loading and transfer of a batch, which a step takes beside its execution. The host makes the inputs, moves them to the device
//! and reads the outputs back.

use parallax_ir::device::{BackendError, Profiler, Transfer};
use parallax_ir::{BufferSpec, Inputs, Problem, Role};
use parallax_schema::record::{LOADING, Phase, TRANSFER};
use parallax_schema::units::Nanos;

/// Bytes that are made at a time; the thread yields between two pieces.
const PIECE: usize = 8 << 20;

/// Returns the phases of loading and of transfer, each done once.
///
/// - Loading makes the inputs in host memory, from their seed as before the first execution.
/// - The transfer moves as many bytes, in one piece each way. Its phase has the length of both transfers and ends at their
///   arrival.
///
/// Buffers that executions change, such as learned parameters, stay on the device and do not count.
/// The transfer is absent where the device computes in host memory, or cannot take the bytes in one piece.
///
/// # Errors
/// A lost device only.
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
    // A transfer's clock starts after the allocation of its memory, so no phase has that time.
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
