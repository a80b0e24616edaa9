// Result of all parts, by one workgroup and always in the same order. The definition is in core/workloads/src/ops/reduce.rs.

#import lib/reduce

@group(0) @binding(0) var<storage, read> parts: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(THREADS)
fn reduce_last(@builtin(local_invocation_index) lane: u32) {
    var mine = 0.0;
    if LARGEST {
        mine = parts[0];
    }
    for (var i = lane; i < PARTS; i += THREADS) {
        mine = select(mine + parts[i], maximum(mine, parts[i]), LARGEST);
    }
    var all = 0.0;
    if LARGEST {
        all = row_max(lane, mine);
    } else {
        all = row_sum(lane, mine);
    }
    if lane == 0u {
        out[0] = all;
    }
}
