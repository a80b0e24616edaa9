// Tiled GEMM without matrix units: tiles of A and B in workgroup memory, accumulators in registers. The importing kernel defines
// `epilogue(at, column, sum)`.
//
// THREADS_N × THREADS_M threads. Thread (x, y) computes REG_TILES_M × REG_TILES_N register tiles of 4 × 4 elements: rows 4(y +
// THREADS_M i).. and columns 4(x + THREADS_N j)... Both tiles are stored as vectors along M or N, one index of K after the other.
// Each loaded vector is multiplied with REG_TILES_M or REG_TILES_N others.
//
// Tiles are loaded a step ahead, into registers. With two STAGES a step has one barrier. Long products have their last step
// apart, as a block: as a function it is slower in Chromium.
//
// Choices and measurements: docs/notebook/2026-11-28-kernel-notes.md.

#import lib/product

#if GROUPED
// Tiles of rows: their number, then for each its group, its first row and the end of the group's rows.
@group(0) @binding(3) var<storage, read> tiles: array<vec4<u32>>;
#endif
// Vector stores, where rows are multiples of four and K is short.
#if VEC4_STORES
@group(0) @binding(2) var<storage, read_write> c: array<vec4<elem>>;
#else
@group(0) @binding(2) var<storage, read_write> c: array<elem>;
#endif

// Threads, and 4 × 4 register tiles of each.
const THREADS: u32 = THREADS_N * THREADS_M;
const BLOCK_M: u32 = 4u * THREADS_M * REG_TILES_M;
const BLOCK_N: u32 = 4u * THREADS_N * REG_TILES_N;
const A_VEC4: u32 = BLOCK_M / 4u;
const B_VEC4: u32 = BLOCK_N / 4u;
// Padding vector between indices of K, against bank conflicts of transposed stores.
const A_STRIDE: u32 = A_VEC4 + select(PAD, 0u, A_TRANSPOSED);
const B_STRIDE: u32 = B_VEC4 + select(0u, PAD, B_TRANSPOSED);
// Vectors of a tile, and vectors per thread.
const A_VECTORS: u32 = BLOCK_K * A_VEC4;
const B_VECTORS: u32 = BLOCK_K * B_VEC4;
const A_LOADS: u32 = (A_VECTORS + THREADS - 1u) / THREADS;
const B_LOADS: u32 = (B_VECTORS + THREADS - 1u) / THREADS;
const STEPS: u32 = (K + BLOCK_K - 1u) / BLOCK_K;
// Iterations of the loop.
const MAIN_STEPS: u32 = STEPS - select(1u, 0u, VEC4_STORES);

// By stage, index of K, and vector. Checks of an index of each dimension are computed once for all steps.
var<workgroup> a_tile: array<array<array<vec4<f32>, A_STRIDE>, BLOCK_K>, STAGES>;
var<workgroup> b_tile: array<array<array<vec4<f32>, B_STRIDE>, BLOCK_K>, STAGES>;

const A_WHOLE: bool = !GROUPED && M % BLOCK_M == 0u && K % BLOCK_K == 0u;
const B_WHOLE: bool = N % BLOCK_N == 0u && K % BLOCK_K == 0u;

// Element col of a stored row of A, zero outside.
fn one_of_a(batch: u32, row: u32, col: u32) -> elem {
    if !A_WHOLE && (row >= A_HEIGHT || col >= A_WIDTH) {
        return elem();
    }
    let at = (batch * A_HEIGHT + row) * A_WIDTH + col;
    return a[at / 4u][at % 4u];
}

fn one_of_b(batch: u32, row: u32, col: u32) -> elem {
    if !B_WHOLE && (row >= B_HEIGHT || col >= B_WIDTH) {
        return elem();
    }
    let at = (batch * B_HEIGHT + row) * B_WIDTH + col;
    return b[at / 4u][at % 4u];
}

// Vector e of a tile of A: four rows of C at one index of K.
fn vector_of_a(batch: u32, row: u32, depth: u32, e: u32) -> vec4<elem> {
    if A_VECTORS % THREADS != 0u && e >= A_VECTORS {
        return vec4<elem>();
    }
    if A_TRANSPOSED {
        let d = depth + e / A_VEC4;
        let r = row + e % A_VEC4 * 4u;
        if A_WHOLE && A_WIDTH % 4u == 0u {
            return a[((batch * A_HEIGHT + d) * A_WIDTH + r) / 4u];
        }
        return vec4_of_a(batch, d, r);
    }
    let d = depth + e % BLOCK_K;
    let r = row + e / BLOCK_K * 4u;
    return vec4<elem>(
        one_of_a(batch, r, d), one_of_a(batch, r + 1u, d), one_of_a(batch, r + 2u, d), one_of_a(batch, r + 3u, d));
}

// Vector e of a tile of B: four columns of C at one index of K.
fn vector_of_b(batch: u32, depth: u32, col: u32, e: u32) -> vec4<elem> {
    if B_VECTORS % THREADS != 0u && e >= B_VECTORS {
        return vec4<elem>();
    }
    if B_TRANSPOSED {
        let d = depth + e % BLOCK_K;
        let n = col + e / BLOCK_K * 4u;
        return vec4<elem>(
            one_of_b(batch, n, d), one_of_b(batch, n + 1u, d), one_of_b(batch, n + 2u, d), one_of_b(batch, n + 3u, d));
    }
    let d = depth + e / B_VEC4;
    let n = col + e % B_VEC4 * 4u;
    if B_WHOLE && B_WIDTH % 4u == 0u {
        return b[((batch * B_HEIGHT + d) * B_WIDTH + n) / 4u];
    }
    return vec4_of_b(batch, d, n);
}

// Stores vector e of a tile.
fn keep_a(stage: u32, e: u32, vector: vec4<elem>) {
    if A_VECTORS % THREADS != 0u && e >= A_VECTORS {
        return;
    }
    if A_TRANSPOSED {
        a_tile[stage][e / A_VEC4][e % A_VEC4] = vec4<f32>(vector);
    } else {
        a_tile[stage][e % BLOCK_K][e / BLOCK_K] = vec4<f32>(vector);
    }
}

fn keep_b(stage: u32, e: u32, vector: vec4<elem>) {
    if B_VECTORS % THREADS != 0u && e >= B_VECTORS {
        return;
    }
    if B_TRANSPOSED {
        b_tile[stage][e % BLOCK_K][e / BLOCK_K] = vec4<f32>(vector);
    } else {
        b_tile[stage][e / B_VEC4][e % B_VEC4] = vec4<f32>(vector);
    }
}

// Stores four neighbouring sums of a row before `end`.
fn store_vec4(batch: u32, row: u32, end: u32, col: u32, sum: vec4<f32>) {
    if row >= end {
        return;
    }
    let at = (batch * M + row) * N + col;
#if VEC4_STORES
    if col < N { c[at / 4u] = vec4<elem>(vec4<f32>(epilogue(at, col, sum.x), epilogue(at + 1u, col + 1u, sum.y),
        epilogue(at + 2u, col + 2u, sum.z), epilogue(at + 3u, col + 3u, sum.w))); }
#else
    if col < N { c[at] = elem(epilogue(at, col, sum.x)); }
    if col + 1u < N { c[at + 1u] = elem(epilogue(at + 1u, col + 1u, sum.y)); }
    if col + 2u < N { c[at + 2u] = elem(epilogue(at + 2u, col + 2u, sum.z)); }
    if col + 3u < N { c[at + 3u] = elem(epilogue(at + 3u, col + 3u, sum.w)); }
#endif
}

// Register tile s of a thread; the first begins at this column and row.
#if HEAVY_EPILOGUE
fn store_register_tile(batch: u32, corner: vec2<u32>, end: u32, sums: ptr<function, array<vec4<f32>, 4u * REG_TILES_M * REG_TILES_N>>, s: u32) {
    let row = corner.y + s / REG_TILES_N * 4u * THREADS_M;
    let col = corner.x + s % REG_TILES_N * 4u * THREADS_N;
    store_vec4(batch, row, end, col, (*sums)[s * 4u]);
    store_vec4(batch, row + 1u, end, col, (*sums)[s * 4u + 1u]);
    store_vec4(batch, row + 2u, end, col, (*sums)[s * 4u + 2u]);
    store_vec4(batch, row + 3u, end, col, (*sums)[s * 4u + 3u]);
}
#endif

// Adds a step's products to the sums, from this stage of both tiles. Compilers do not unroll the loop over K for large
// register tiles, and each iteration waits for memory: one iteration has REG_TILES_M indices of K.
#block add_step(STAGE)
    for (var pair = 0u; pair < BLOCK_K / REG_TILES_M; pair++) {
        for (var half = 0u; half < REG_TILES_M; half++) {
            let d = pair * REG_TILES_M + half;
            var right = array<vec4<f32>, REG_TILES_N>();
            for (var j = 0u; j < REG_TILES_N; j++) {
                right[j] = b_tile[STAGE][d][x + j * THREADS_N];
            }
            for (var i = 0u; i < REG_TILES_M; i++) {
                let left = a_tile[STAGE][d][y + i * THREADS_M];
                for (var j = 0u; j < REG_TILES_N; j++) {
                    let s = (i * REG_TILES_N + j) * 4u;
                    sums[s] = fma(vec4<f32>(left.x), right[j], sums[s]);
                    sums[s + 1u] = fma(vec4<f32>(left.y), right[j], sums[s + 1u]);
                    sums[s + 2u] = fma(vec4<f32>(left.z), right[j], sums[s + 2u]);
                    sums[s + 3u] = fma(vec4<f32>(left.w), right[j], sums[s + 3u]);
                }
            }
        }
    }
#end

// Tile `index` of all GEMMs of the batch. GROUPED: B is that of the rows' group. Threads past the end leave together.
fn product_tiled(index: u32, lane: u32) {
    let across = (N + BLOCK_N - 1u) / BLOCK_N;
#if GROUPED
    let down = tiles[0].x;
    if index >= across * down {
        return;
    }
    let place = tile_at(index, across, down);
    let rows = tiles[1u + place.y];
    let batch = 0u;
    let of_b = rows.x;
    let first = vec2<u32>(place.x * BLOCK_N, rows.y);
    let end = rows.z;
#else
    let down = (M + BLOCK_M - 1u) / BLOCK_M;
    let batch = index / (across * down);
    if batch >= BATCH {
        return;
    }
    let of_b = batch;
    let first = tile_at(index % (across * down), across, down) * vec2<u32>(BLOCK_N, BLOCK_M);
    let end = M;
#endif
    // 32 threads that run together are 8 × 4, and neighbours share a row, then a column: they read each vector once.
    let x = lane % (4u * THREADS_N) / 32u * 8u + lane % 16u / 2u;
    let y = lane % THREADS / (4u * THREADS_N) * 4u + lane % 32u / 16u * 2u + lane % 2u;
    var sums: array<vec4<f32>, 4u * REG_TILES_M * REG_TILES_N>;
    var next_a: array<vec4<elem>, A_LOADS>;
    var next_b: array<vec4<elem>, B_LOADS>;

    for (var i = 0u; i < A_LOADS; i++) {
        keep_a(0u, lane + i * THREADS, vector_of_a(batch, first.y, 0u, lane + i * THREADS));
    }
    for (var i = 0u; i < B_LOADS; i++) {
        keep_b(0u, lane + i * THREADS, vector_of_b(of_b, 0u, first.x, lane + i * THREADS));
    }
    workgroupBarrier();
    for (var t = 0u; t < MAIN_STEPS; t++) {
        let depth = (t + 1u) * BLOCK_K;
        if !VEC4_STORES || t + 1u < STEPS {
            for (var i = 0u; i < A_LOADS; i++) {
                next_a[i] = vector_of_a(batch, first.y, depth, lane + i * THREADS);
            }
            for (var i = 0u; i < B_LOADS; i++) {
                next_b[i] = vector_of_b(of_b, depth, first.x, lane + i * THREADS);
            }
        }
        let stage = t % STAGES;
        #emit add_step(stage)
        if !VEC4_STORES || t + 1u < STEPS {
            if STAGES == 1u {
                workgroupBarrier();
            }
            for (var i = 0u; i < A_LOADS; i++) {
                keep_a((t + 1u) % STAGES, lane + i * THREADS, next_a[i]);
            }
            for (var i = 0u; i < B_LOADS; i++) {
                keep_b((t + 1u) % STAGES, lane + i * THREADS, next_b[i]);
            }
        }
        workgroupBarrier();
    }
#if !VEC4_STORES
    // As above, for the last step.
    const LAST_STAGE: u32 = (STEPS - 1u) % STAGES;
    #emit add_step(LAST_STAGE)
#endif

    // Light epilogue: keep the loop, because unrolled stores are interleaved with FMAs. HEAVY_EPILOGUE: unroll by hand, because
    // dynamically indexed accumulators spill.
#if HEAVY_EPILOGUE
    let corner = first + 4u * vec2<u32>(x, y);
    store_register_tile(batch, corner, end, &sums, 0u);
    if REG_TILES_M * REG_TILES_N > 1u { store_register_tile(batch, corner, end, &sums, 1u); }
    if REG_TILES_M * REG_TILES_N > 2u { store_register_tile(batch, corner, end, &sums, 2u); }
    if REG_TILES_M * REG_TILES_N > 2u { store_register_tile(batch, corner, end, &sums, 3u); }
#else
    for (var s = 0u; s < REG_TILES_M * REG_TILES_N; s++) {
        let row = first.y + s / REG_TILES_N * 4u * THREADS_M + y * 4u;
        let col = first.x + s % REG_TILES_N * 4u * THREADS_N + x * 4u;
        store_vec4(batch, row, end, col, sums[s * 4u]);
        store_vec4(batch, row + 1u, end, col, sums[s * 4u + 1u]);
        store_vec4(batch, row + 2u, end, col, sums[s * 4u + 2u]);
        store_vec4(batch, row + 3u, end, col, sums[s * 4u + 3u]);
    }
#endif
}
