// Reduction in parts: PARTS workgroups process all pieces, with four loads in flight, and each stores its part. The definition is
// in core/workloads/src/ops/reduce.rs.

#import lib/launch
#import lib/pieces{WIDTH}
#import lib/reduce

@group(0) @binding(0) var<storage, read> x: array<stored>;
@group(0) @binding(1) var<storage, read_write> parts: array<f32>;

fn joined(a: piece, b: piece) -> piece {
    if LARGEST {
        return larger(a, b);
    }
    return a + b;
}

@compute @workgroup_size(THREADS)
fn reduce_parts(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let part = flat_group(group, groups);
    if part >= PARTS {
        return;
    }
    const STRIDE: u32 = PARTS * THREADS;
    var mine0 = piece();
    if LARGEST {
        // Any element is a valid initial maximum.
        mine0 = piece(x[0]);
    }
    var mine1 = mine0;
    var mine2 = mine0;
    var mine3 = mine0;
    var at = part * THREADS + lane;
    // Compared so that nothing overflows 32 bits.
    for (; at < COUNT && COUNT - at > 3u * STRIDE; at += 4u * STRIDE) {
        let x0 = piece(x[at]);
        let x1 = piece(x[at + STRIDE]);
        let x2 = piece(x[at + 2u * STRIDE]);
        let x3 = piece(x[at + 3u * STRIDE]);
        mine0 = joined(mine0, x0);
        mine1 = joined(mine1, x1);
        mine2 = joined(mine2, x2);
        mine3 = joined(mine3, x3);
    }
    for (; at < COUNT; at += STRIDE) {
        mine0 = joined(mine0, piece(x[at]));
    }
    mine0 = joined(joined(mine0, mine1), joined(mine2, mine3));
    var all = 0.0;
    if LARGEST {
        all = row_max(lane, piece_maximum(mine0));
    } else {
        all = row_sum(lane, piece_sum(mine0));
    }
    if lane == 0u {
        parts[part] = all;
    }
}
