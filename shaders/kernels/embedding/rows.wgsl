// Rows of tables copied by index, in pieces, AT_ONCE of them per thread. The definition is in core/workloads/src/ops/embedding.
//
// Elements are moved as bits: sixteen bytes are four words.

#import lib/launch

#if WIDTH == 1
#import lib/pieces1
#else
alias stored = vec4<u32>;
#endif

@group(0) @binding(0) var<storage, read> index: array<u32>;
@group(0) @binding(1) var<storage, read> table: array<stored>;
@group(0) @binding(2) var<storage, read_write> out: array<stored>;

@compute @workgroup_size(THREADS)
fn embedding_rows(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let first = flat_group(group, groups) * (THREADS * AT_ONCE) + lane;
    // Sources and destinations of pieces; past the end none is stored.
    var places = array<vec2<u32>, AT_ONCE>();
    for (var i = 0u; i < AT_ONCE; i++) {
        let at = min(first + i * THREADS, COUNT - 1u);
        let item = FIRST + at / PIECES * STEP;
        let row = index[item] + item % TABLES * TABLE_ROWS;
        places[i] = vec2<u32>(row * PIECES + at % PIECES, item * PIECES + at % PIECES);
    }
    var moved = array<stored, AT_ONCE>();
    for (var i = 0u; i < AT_ONCE; i++) {
        moved[i] = table[places[i].x];
    }
    for (var i = 0u; i < AT_ONCE; i++) {
        if first + i * THREADS < COUNT {
            out[places[i].y] = moved[i];
        }
    }
}
