// Matrix product: against `naive`, a workgroup stages tiles of A and B in workgroup memory, and a thread keeps a block of
// sums in registers. The definition is in core/src/suite/workloads/matmul.rs.
//
// 16×16 threads. Thread (x, y) computes SQUARES × SQUARES squares of 4 × 4 elements, 64 rows or columns apart: rows
// 4y + 64i.. and columns 4x + 64j... Both tiles are staged as vectors along the rows of their matrices.

#import lib/launch
#import matmul/common

const A_ROW: u32 = DEPTH / 4u;
const B_ROW: u32 = TILE / 4u;
const ROWS: u32 = 4u * SQUARES;

var<workgroup> a_tile: array<vec4<f32>, TILE * A_ROW>;
var<workgroup> b_tile: array<vec4<f32>, DEPTH * B_ROW>;

@compute @workgroup_size(16, 16)
fn matmul_tiled(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let across = (N + TILE - 1u) / TILE;
    let down = (M + TILE - 1u) / TILE;
    let index = flat_group(group, groups);
    if index >= across * down {
        return;
    }
    let first = tile_at(index, across, down) * TILE;
    var sums: array<vec4<f32>, ROWS * SQUARES>;

    for (var depth = 0u; depth < K; depth += DEPTH) {
        workgroupBarrier();
        for (var e = lane; e < TILE * A_ROW; e += 256u) {
            a_tile[e] = vec4<f32>(four_of_a(first.y + e / A_ROW, depth + e % A_ROW * 4u));
        }
        for (var e = lane; e < DEPTH * B_ROW; e += 256u) {
            b_tile[e] = vec4<f32>(four_of_b(depth + e / B_ROW, first.x + e % B_ROW * 4u));
        }
        workgroupBarrier();
        for (var d = 0u; d < A_ROW; d++) {
            var right: array<vec4<f32>, ROWS>;
            for (var i = 0u; i < ROWS; i++) {
                right[i] = b_tile[(d * 4u + i % 4u) * B_ROW + local.x + i / 4u * 16u];
            }
            for (var r = 0u; r < ROWS; r++) {
                let left = a_tile[(r / 4u * 64u + local.y * 4u + r % 4u) * A_ROW + d];
                for (var s = 0u; s < SQUARES; s++) {
                    var sum = sums[r * SQUARES + s];
                    sum = fma(vec4<f32>(left.x), right[s * 4u], sum);
                    sum = fma(vec4<f32>(left.y), right[s * 4u + 1u], sum);
                    sum = fma(vec4<f32>(left.z), right[s * 4u + 2u], sum);
                    sum = fma(vec4<f32>(left.w), right[s * 4u + 3u], sum);
                    sums[r * SQUARES + s] = sum;
                }
            }
        }
    }

    for (var r = 0u; r < ROWS; r++) {
        let row = first.y + r / 4u * 64u + local.y * 4u + r % 4u;
        if row >= M {
            continue;
        }
        for (var s = 0u; s < SQUARES; s++) {
            let col = first.x + s * 64u + local.x * 4u;
            let sum = sums[r * SQUARES + s];
            if col < N { c[row * N + col] = elem(sum.x); }
            if col + 1u < N { c[row * N + col + 1u] = elem(sum.y); }
            if col + 2u < N { c[row * N + col + 2u] = elem(sum.z); }
            if col + 3u < N { c[row * N + col + 3u] = elem(sum.w); }
        }
    }
}
