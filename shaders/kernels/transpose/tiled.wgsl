// Transpose by tiles: a workgroup reads rows of a tile into its memory and writes its columns as rows, so that neighbouring
// threads access neighbouring elements on both sides. A padding element per row avoids bank conflicts. The definition is in
// core/workloads/src/ops/transpose.rs.

#import lib/launch

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read_write> out: array<elem>;

// As f32, which represents every 16-bit element: banks hold words of 32 bits.
var<workgroup> transposed: array<f32, TILE * (TILE + 1u)>;

const DOWN: u32 = THREADS / TILE;

@compute @workgroup_size(THREADS)
fn transpose_tiled(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let across = (COLUMNS + TILE - 1u) / TILE;
    let down = (ROWS + TILE - 1u) / TILE;
    let tile = flat_group(group, groups);
    let matrix = tile / (across * down);
    if matrix >= MATRICES {
        return;
    }
    let first_row = tile / across % down * TILE;
    let first_column = tile % across * TILE;
    let base = matrix * ROWS * COLUMNS;
    let along = lane % TILE;
    for (var i = lane / TILE; i < TILE; i += DOWN) {
        let row = first_row + i;
        let column = first_column + along;
        if row < ROWS && column < COLUMNS {
            transposed[i * (TILE + 1u) + along] = f32(x[base + row * COLUMNS + column]);
        }
    }
    workgroupBarrier();
    for (var i = lane / TILE; i < TILE; i += DOWN) {
        let row = first_row + along;
        let column = first_column + i;
        if row < ROWS && column < COLUMNS {
            out[base + column * ROWS + row] = elem(transposed[along * (TILE + 1u) + i]);
        }
    }
}
