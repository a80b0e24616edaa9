// Sums of stretches: PARTS workgroups, each with STRETCH consecutive tiles. The definition is in core/workloads/src/ops/scan.rs.

#import lib/launch
#import lib/pieces{WIDTH}
#import lib/reduce

@group(0) @binding(0) var<storage, read> x: array<stored>;
@group(0) @binding(1) var<storage, read_write> parts: array<f32>;

@compute @workgroup_size(THREADS)
fn scan_sums(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let part = flat_group(group, groups);
    if part >= PARTS {
        return;
    }
    let end = min((part + 1u) * STRETCH, TILES);
    var sums = piece();
    for (var tile = part * STRETCH; tile < end; tile++) {
        let first = tile * 4u * THREADS + lane;
        for (var row = 0u; row < 4u; row++) {
            let at = first + row * THREADS;
            if at < COUNT {
                sums += piece(x[at]);
            }
        }
    }
    let sum = row_sum(lane, piece_sum(sums));
    if lane == 0u {
        parts[part] = sum;
    }
}
