// Transpose by tiles, 16 bytes per access, as bits. The definition is in core/workloads/src/ops/transpose.rs.
//
// A tile is TILE_ROWS rows of 128 bytes. It is stored transposed in workgroup memory, in words of 32 bits: an element each, or
// two 16-bit neighbours of a column, joined by the thread that read both rows. Eight neighbouring threads read the eight vectors
// of a row, and write eight vectors of a column. PITCH is odd, so that a column's words lie in different banks.

#import lib/launch

@group(0) @binding(0) var<storage, read> x: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> out: array<vec4<u32>>;

var<workgroup> transposed: array<u32, TILE_COLUMNS * PITCH>;

// Vectors of a row, and of a column.
const ACROSS: u32 = COLUMNS / PER_VECTOR;
const ALONG: u32 = ROWS / PER_VECTOR;
const PAIRS: bool = PER_VECTOR == 8u;

@compute @workgroup_size(THREADS)
fn transpose_vector(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let tiles_across = (COLUMNS + TILE_COLUMNS - 1u) / TILE_COLUMNS;
    let tiles_down = (ROWS + TILE_ROWS - 1u) / TILE_ROWS;
    let tile = flat_group(group, groups);
    let matrix = tile / (tiles_across * tiles_down);
    if matrix >= MATRICES {
        return;
    }
    let first_row = tile / tiles_across % tiles_down * TILE_ROWS;
    let first_column = tile % tiles_across * TILE_COLUMNS;
    let base = matrix * ROWS * ACROSS;

    // Each thread reads two vectors, one below the other; 256 threads read all of the tile.
    let of_row = lane % 8u;
    let below = lane / 8u;
    let near = select(below, 2u * below, PAIRS);
    let far = select(below + 32u, 2u * below + 1u, PAIRS);
    let at = first_column / PER_VECTOR + of_row;
    var first = vec4<u32>();
    var second = vec4<u32>();
    if at < ACROSS && first_row + near < ROWS {
        first = x[base + (first_row + near) * ACROSS + at];
    }
    if at < ACROSS && first_row + far < ROWS {
        second = x[base + (first_row + far) * ACROSS + at];
    }
    for (var i = 0u; i < 4u; i++) {
        if PAIRS {
            let column = of_row * 8u + 2u * i;
            transposed[column * PITCH + below] = (first[i] & 0xffffu) | (second[i] << 16u);
            transposed[(column + 1u) * PITCH + below] = (first[i] >> 16u) | (second[i] & 0xffff0000u);
        } else {
            let column = of_row * 4u + i;
            transposed[column * PITCH + near] = first[i];
            transposed[column * PITCH + far] = second[i];
        }
    }
    workgroupBarrier();

    const VECTORS: u32 = TILE_ROWS / PER_VECTOR;
    for (var e = lane; e < TILE_COLUMNS * VECTORS; e += THREADS) {
        let column = e / VECTORS;
        let of_column = e % VECTORS;
        if first_column + column < COLUMNS && first_row + of_column * PER_VECTOR < ROWS {
            let word = column * PITCH + 4u * of_column;
            let to = (matrix * COLUMNS + first_column + column) * ALONG + first_row / PER_VECTOR + of_column;
            out[to] = vec4<u32>(transposed[word], transposed[word + 1u], transposed[word + 2u], transposed[word + 3u]);
        }
    }
}
