// GEMM of few rows of A, bound by the memory of B. Kernels import this file with an `epilogue` of a sum.
//
// A workgroup of 128 threads computes ROWS rows: LANES threads share the depth of four columns. Elements outside the matrices are
// zeros.

#import lib/product

@group(0) @binding(2) var<storage, read_write> c: array<elem>;

// Columns and results of a workgroup.
const COLUMNS: u32 = 512u / LANES;
const RESULTS: u32 = COLUMNS * ROWS;
// Parts of a result that each of SHARES threads adds.
const SHARE: u32 = LANES / SHARES;

var<workgroup> parts: array<f32, LANES * RESULTS>;

// Stores a result of the workgroup.
fn store_sum(batch: u32, first_row: u32, first_col: u32, result: u32, sum: f32) {
    let row = first_row + result / COLUMNS;
    let col = first_col + result % COLUMNS;
    if row < M && col < N {
        let at = (batch * M + row) * N + col;
        c[at] = elem(epilogue(at, col, sum));
    }
}

fn product_rows(index: u32, thread: u32) {
    let across = (N + COLUMNS - 1u) / COLUMNS;
    let down = (M + ROWS - 1u) / ROWS;
    let batch = index / (across * down);
    if batch >= BATCH {
        return;
    }
    // Tiles of the same columns follow each other, so that their part of B comes from the cache.
    let first_row = index % down * ROWS;
    let first_col = index % (across * down) / down * COLUMNS;
    var sums: array<vec4<f32>, ROWS>;
#if B_TRANSPOSED
    // Neighbouring threads have neighbouring parts of the depth, of VECTORS vectors.
    let lane = thread % LANES;
    let four = thread / LANES;
    let col = first_col + four * 4u;
    for (var k = lane * 4u * VECTORS; k < K; k += 4u * VECTORS * LANES) {
        var weights = array<vec4<f32>, 4u * VECTORS>();
        for (var i = 0u; i < 4u * VECTORS; i++) {
            weights[i] = vec4<f32>(vec4_of_b(batch, col + i / VECTORS, k + i % VECTORS * 4u));
        }
        for (var r = 0u; r < ROWS; r++) {
            for (var v = 0u; v < VECTORS; v++) {
                let left = vec4<f32>(vec4_of_a(batch, first_row + r, k + v * 4u));
                sums[r] += vec4<f32>(
                    dot(left, weights[v]),
                    dot(left, weights[VECTORS + v]),
                    dot(left, weights[2u * VECTORS + v]),
                    dot(left, weights[3u * VECTORS + v]),
                );
            }
        }
    }
#else
    // Neighbouring threads have neighbouring columns.
    let lane = thread / (128u / LANES);
    let four = thread % (128u / LANES);
    let col = first_col + four * 4u;
    for (var k = lane * 4u; k < K; k += 4u * LANES) {
        let weights0 = vec4<f32>(vec4_of_b(batch, k, col));
        let weights1 = vec4<f32>(vec4_of_b(batch, k + 1u, col));
        let weights2 = vec4<f32>(vec4_of_b(batch, k + 2u, col));
        let weights3 = vec4<f32>(vec4_of_b(batch, k + 3u, col));
        for (var r = 0u; r < ROWS; r++) {
            let left = vec4<f32>(vec4_of_a(batch, first_row + r, k));
            sums[r] = fma(vec4<f32>(left.x), weights0, sums[r]);
            sums[r] = fma(vec4<f32>(left.y), weights1, sums[r]);
            sums[r] = fma(vec4<f32>(left.z), weights2, sums[r]);
            sums[r] = fma(vec4<f32>(left.w), weights3, sums[r]);
        }
    }
#endif
    for (var r = 0u; r < ROWS; r++) {
        let to = lane * RESULTS + r * COLUMNS + four * 4u;
        parts[to] = sums[r].x;
        parts[to + 1u] = sums[r].y;
        parts[to + 2u] = sums[r].z;
        parts[to + 3u] = sums[r].w;
    }
    workgroupBarrier();
#if SHARES == 1
    for (var result = thread; result < RESULTS; result += 128u) {
        var sum = 0.0;
        for (var i = 0u; i < LANES; i++) {
            sum += parts[i * RESULTS + result];
        }
        store_sum(batch, first_row, first_col, result, sum);
    }
#else
    // Results are fewer than threads: SHARES threads have parts of one.
    let result = thread % RESULTS;
    var sum = 0.0;
    for (var i = 0u; i < SHARE; i++) {
        sum += parts[(thread / RESULTS * SHARE + i) * RESULTS + result];
    }
    workgroupBarrier();
    parts[thread] = sum;
    workgroupBarrier();
    if thread < RESULTS {
        var total = 0.0;
        for (var i = 0u; i < SHARES; i++) {
            total += parts[i * RESULTS + thread];
        }
        store_sum(batch, first_row, first_col, thread, total);
    }
#endif
}
