// Reduction by atomic operations: a workgroup reduces OF_A_GROUP elements, and combines its number with the result atomically.
// The definition is in core/workloads/src/ops/reduce.rs.

#import lib/launch
#import lib/reduce

@group(0) @binding(0) var<storage, read> x: array<elem>;
// Bits of an f32: WGSL has no atomic operations on floats.
@group(0) @binding(1) var<storage, read_write> out: array<atomic<u32>>;

@compute @workgroup_size(THREADS)
fn reduce_atomic(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let flat = flat_group(group, groups);
    if flat >= (N + OF_A_GROUP - 1u) / OF_A_GROUP {
        return;
    }
    let first = flat * OF_A_GROUP;
    let count = min(OF_A_GROUP, N - first);
    var mine = 0.0;
    if LARGEST {
        // Any element of the workgroup is a valid initial maximum.
        mine = f32(x[first]);
    }
    for (var i = lane; i < count; i += THREADS) {
        let value = f32(x[first + i]);
        mine = select(mine + value, maximum(mine, value), LARGEST);
    }
    var all = 0.0;
    if LARGEST {
        all = row_max(lane, mine);
    } else {
        all = row_sum(lane, mine);
    }
    if lane != 0u {
        return;
    }
    var seen = atomicLoad(&out[0]);
    loop {
        let known = bitcast<f32>(seen);
        let wanted = select(known + all, maximum(known, all), LARGEST);
        let tried = atomicCompareExchangeWeak(&out[0], seen, bitcast<u32>(wanted));
        if tried.exchanged {
            break;
        }
        seen = tried.old_value;
    }
}
