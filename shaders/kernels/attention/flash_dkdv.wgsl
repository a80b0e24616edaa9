// Scaled dot-product attention, backward: dK and dV without a matrix of scores. The definition is in
// core/workloads/src/ops/attention.
//
// attention_flash_dkdv  a workgroup owns 64 keys, recomputes their probabilities tile by tile, and sums in registers

#import attention/flash_backward

const OF_KEYS: bool = true;

@compute @workgroup_size(16, 16)
fn attention_flash_dkdv(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let blocks = (T + OWN - 1u) / OWN;
    let flat = flat_group(group, groups);
    let head = flat / blocks;
    if head >= HEADS / GROUP {
        return;
    }
    let first = flat % blocks * OWN;
    var keys: array<vec4<f32>, 4u * COLUMNS>;
    var values: array<vec4<f32>, 4u * COLUMNS>;
    let end_query = window_end(first + OWN - 1u);
    // No query sees keys beyond the length.
    let members = select(0u, GROUP, first < keys_of(head * GROUP));
    for (var member = 0u; member < members; member++) {
        for (var query = first_query(first); query < end_query; query += OTHERS) {
            let tile = Tile(head, head * GROUP + member, first, query, S, lane);
            let found = of_tile(tile);
            share(lane, array<vec2<f32>, 4>(found[0].xy, found[1].xy, found[2].xy, found[3].xy));
            add_rows(&values, tile, true);
            share(lane, array<vec2<f32>, 4>(found[0].zw, found[1].zw, found[2].zw, found[3].zw));
            add_rows(&keys, tile, false);
        }
    }
    for (var e = 0u; e < 4u * COLUMNS; e++) {
        let row = first + lane / 16u * 4u + e / COLUMNS;
        let col = (lane % 16u + 16u * (e % COLUMNS)) * 4u;
        for (var c = 0u; c < 4u; c++) {
            if row < T && col + c < D {
                let at = (head * T + row) * D + col + c;
                gradient[at] = elem(keys[e][c]);
                value_gradient[at] = elem(values[e][c]);
            }
        }
    }
}
