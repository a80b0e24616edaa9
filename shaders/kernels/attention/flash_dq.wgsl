// Scaled dot-product attention, backward: dQ without a matrix of scores. The definition is in core/workloads/src/ops/attention.
//
// attention_flash_dq  a workgroup owns 64 queries, recomputes their probabilities tile by tile, and sums in registers

#import attention/flash_backward

const OF_KEYS: bool = false;

@compute @workgroup_size(16, 16)
fn attention_flash_dq(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let blocks = (S + OWN - 1u) / OWN;
    let flat = flat_group(group, groups);
    let head = flat / blocks;
    if head >= HEADS {
        return;
    }
    let first = flat % blocks * OWN;
    let last = seen_keys(head, min(first + OWN, S) - 1u);
    var sums: array<vec4<f32>, 4u * COLUMNS>;
    for (var key = window_start(first) / OTHERS * OTHERS; key < last; key += OTHERS) {
        let tile = Tile(head, head / GROUP, first, key, keys_of(head), lane);
        let found = of_tile(tile);
        share(lane, array<vec2<f32>, 4>(found[0].zw, found[1].zw, found[2].zw, found[3].zw));
        add_rows(&sums, tile, false);
    }
    for (var e = 0u; e < 4u * COLUMNS; e++) {
        let row = first + lane / 16u * 4u + e / COLUMNS;
        let col = (lane % 16u + 16u * (e % COLUMNS)) * 4u;
        for (var c = 0u; c < 4u; c++) {
            if row < S && col + c < D {
                gradient[(head * S + row) * D + col + c] = elem(sums[e][c]);
            }
        }
    }
}
