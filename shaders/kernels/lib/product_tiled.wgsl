// Products of matrices, tile by tile: a workgroup stages tiles of A and B in workgroup memory, and a thread keeps a block of
// sums in registers. What becomes of a sum is said by `finished(at, column, sum)` of the text that imports this.
//
// ACROSS × DOWN threads. Thread (x, y) computes TALL × WIDE squares of 4 × 4 elements: rows 4(y + DOWN i).. and columns
// 4(x + ACROSS j)... Both tiles are kept as vectors along rows or columns of C, a depth after the other, so that each vector that
// is read is multiplied with TALL or WIDE others.
//
// Tiles are read from device memory a step ahead, into registers, and there are BUFFERS places for them, so that with two a step has
// one barrier. What each step brought, f32 on an H200 natively, in TFLOP/s for 4096³:
//   tiles as they are stored, two barriers a step, A read as vectors along the depth    37.0
//   A turned, read ahead, two places, depth 8 (16 takes more than 128 registers: 34.0)   45.6
//   the same for any share of threads, and rows of C by vectors                          31.0, its loop no longer unrolled
//   depths by pairs                                                                      40.0
//   sums stored one by one again, where many products are summed                         45.6
//   the last step apart there, so that no other asks whether there is a next             46.3, and 46.1 in Chromium, where it was 45.5
// and for 1024³: 22, and 35.7 by tiles of 64 × 64, 128 threads and depth 16. The last step is written out a second time: called as a function,
// whether it is given its sums or finds them in private memory, a step takes 1.13 times as long in Chromium, and 1.5 times in Winograd's
// products. Reading the last tile twice in place of that gives 45.9 and 45.8. Winograd's products, of which little is summed, take 1.13 times
// as long with the last step apart.

#import lib/product

// Four neighbours at once, where rows are whole fours and little is summed.
#if FOURS
@group(0) @binding(2) var<storage, read_write> c: array<vec4<elem>>;
#else
@group(0) @binding(2) var<storage, read_write> c: array<elem>;
#endif

// Threads, and the squares of 4 × 4 that each of them computes.
const THREADS: u32 = ACROSS * DOWN;
const TILE_ROWS: u32 = 4u * DOWN * TALL;
const TILE_COLUMNS: u32 = 4u * ACROSS * WIDE;
const A_FOURS: u32 = TILE_ROWS / 4u;
const B_FOURS: u32 = TILE_COLUMNS / 4u;
// A vector more between depths, so that what is turned on its way comes to lie in different memory banks.
const A_STRIDE: u32 = A_FOURS + select(PAD, 0u, A_BY_COLUMN);
const A_SIZE: u32 = DEPTH * A_STRIDE;
const B_STRIDE: u32 = B_FOURS + select(0u, PAD, B_BY_COLUMN);
const B_SIZE: u32 = DEPTH * B_STRIDE;
// Vectors of a tile, and how many of them a thread stages.
const A_VECTORS: u32 = DEPTH * A_FOURS;
const B_VECTORS: u32 = DEPTH * B_FOURS;
const A_EACH: u32 = (A_VECTORS + THREADS - 1u) / THREADS;
const B_EACH: u32 = (B_VECTORS + THREADS - 1u) / THREADS;
const STEPS: u32 = (K + DEPTH - 1u) / DEPTH;
// Steps that the loop takes.
const LOOPED: u32 = STEPS - select(1u, 0u, FOURS);

var<workgroup> a_tile: array<vec4<f32>, BUFFERS * A_SIZE>;
var<workgroup> b_tile: array<vec4<f32>, BUFFERS * B_SIZE>;

const A_WHOLE: bool = M % TILE_ROWS == 0u && K % DEPTH == 0u;
const B_WHOLE: bool = N % TILE_COLUMNS == 0u && K % DEPTH == 0u;

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

// Vector e of a tile of A: four rows of C at one depth.
fn vector_of_a(batch: u32, row: u32, depth: u32, e: u32) -> vec4<elem> {
    if A_VECTORS % THREADS != 0u && e >= A_VECTORS {
        return vec4<elem>();
    }
    if A_BY_COLUMN {
        let d = depth + e / A_FOURS;
        let r = row + e % A_FOURS * 4u;
        if A_WHOLE && A_WIDTH % 4u == 0u {
            return a[((batch * A_HEIGHT + d) * A_WIDTH + r) / 4u];
        }
        return four_of_a(batch, d, r);
    }
    let d = depth + e % DEPTH;
    let r = row + e / DEPTH * 4u;
    return vec4<elem>(
        one_of_a(batch, r, d), one_of_a(batch, r + 1u, d), one_of_a(batch, r + 2u, d), one_of_a(batch, r + 3u, d));
}

// Vector e of a tile of B: four columns of C at one depth.
fn vector_of_b(batch: u32, depth: u32, col: u32, e: u32) -> vec4<elem> {
    if B_VECTORS % THREADS != 0u && e >= B_VECTORS {
        return vec4<elem>();
    }
    if B_BY_COLUMN {
        let d = depth + e % DEPTH;
        let n = col + e / DEPTH * 4u;
        return vec4<elem>(
            one_of_b(batch, n, d), one_of_b(batch, n + 1u, d), one_of_b(batch, n + 2u, d), one_of_b(batch, n + 3u, d));
    }
    let d = depth + e / B_FOURS;
    let n = col + e % B_FOURS * 4u;
    if B_WHOLE && B_WIDTH % 4u == 0u {
        return b[((batch * B_HEIGHT + d) * B_WIDTH + n) / 4u];
    }
    return four_of_b(batch, d, n);
}

// Where vector e of a tile lies.
fn place_in_a(e: u32) -> u32 {
    if A_BY_COLUMN { return e / A_FOURS * A_STRIDE + e % A_FOURS; }
    return e % DEPTH * A_STRIDE + e / DEPTH;
}

fn place_in_b(e: u32) -> u32 {
    if B_BY_COLUMN { return e % DEPTH * B_STRIDE + e / DEPTH; }
    return e / B_FOURS * B_STRIDE + e % B_FOURS;
}

// Four neighbouring sums of a row.
fn put(batch: u32, row: u32, col: u32, sum: vec4<f32>) {
    if row >= M {
        return;
    }
    let at = (batch * M + row) * N + col;
#if FOURS
    if col < N { c[at / 4u] = vec4<elem>(vec4<f32>(finished(at, col, sum.x), finished(at + 1u, col + 1u, sum.y),
        finished(at + 2u, col + 2u, sum.z), finished(at + 3u, col + 3u, sum.w))); }
#else
    if col < N { c[at] = elem(finished(at, col, sum.x)); }
    if col + 1u < N { c[at + 1u] = elem(finished(at + 1u, col + 1u, sum.y)); }
    if col + 2u < N { c[at + 2u] = elem(finished(at + 2u, col + 2u, sum.z)); }
    if col + 3u < N { c[at + 3u] = elem(finished(at + 3u, col + 3u, sum.w)); }
#endif
}

// The s-th of a thread's squares, of which the first begins at that column and row.
#if MUCH
fn put_square(batch: u32, corner: vec2<u32>, sums: ptr<function, array<vec4<f32>, 4u * TALL * WIDE>>, s: u32) {
    let row = corner.y + s / WIDE * 4u * DOWN;
    let col = corner.x + s % WIDE * 4u * ACROSS;
    put(batch, row, col, (*sums)[s * 4u]);
    put(batch, row + 1u, col, (*sums)[s * 4u + 1u]);
    put(batch, row + 2u, col, (*sums)[s * 4u + 2u]);
    put(batch, row + 3u, col, (*sums)[s * 4u + 3u]);
}
#endif

// Adds a step's products to the sums, from these positions of both tiles. Compilers do not unroll the loop over the depth where register
// tiles are large, and each iteration waits for memory: one iteration has TALL depths.
#block add_step(FROM_A, FROM_B)
    for (var pair = 0u; pair < DEPTH / TALL; pair++) {
        for (var half = 0u; half < TALL; half++) {
            let d = pair * TALL + half;
            var right = array<vec4<f32>, WIDE>();
            for (var j = 0u; j < WIDE; j++) {
                right[j] = b_tile[FROM_B + d * B_STRIDE + j * ACROSS];
            }
            for (var i = 0u; i < TALL; i++) {
                let left = a_tile[FROM_A + d * A_STRIDE + i * DOWN];
                for (var j = 0u; j < WIDE; j++) {
                    let s = (i * WIDE + j) * 4u;
                    sums[s] = fma(vec4<f32>(left.x), right[j], sums[s]);
                    sums[s + 1u] = fma(vec4<f32>(left.y), right[j], sums[s + 1u]);
                    sums[s + 2u] = fma(vec4<f32>(left.z), right[j], sums[s + 2u]);
                    sums[s + 3u] = fma(vec4<f32>(left.w), right[j], sums[s + 3u]);
                }
            }
        }
    }
#end

// The index-th tile of all products. Threads past the end leave together.
fn product_tiled(index: u32, lane: u32) {
    let across = (N + TILE_COLUMNS - 1u) / TILE_COLUMNS;
    let down = (M + TILE_ROWS - 1u) / TILE_ROWS;
    let batch = index / (across * down);
    if batch >= BATCH {
        return;
    }
    let first = tile_at(index % (across * down), across, down) * vec2<u32>(TILE_COLUMNS, TILE_ROWS);
    // 32 threads that run together are 8 × 4, and neighbours share a row, then a column: they read each vector once.
    let x = lane % (4u * ACROSS) / 32u * 8u + lane % 16u / 2u;
    let y = lane % THREADS / (4u * ACROSS) * 4u + lane % 32u / 16u * 2u + lane % 2u;
    var sums: array<vec4<f32>, 4u * TALL * WIDE>;
    var next_a: array<vec4<elem>, A_EACH>;
    var next_b: array<vec4<elem>, B_EACH>;

    for (var i = 0u; i < A_EACH; i++) {
        let e = lane + i * THREADS;
        if A_VECTORS % THREADS == 0u || e < A_VECTORS {
            a_tile[place_in_a(e)] = vec4<f32>(vector_of_a(batch, first.y, 0u, e));
        }
    }
    for (var i = 0u; i < B_EACH; i++) {
        let e = lane + i * THREADS;
        if B_VECTORS % THREADS == 0u || e < B_VECTORS {
            b_tile[place_in_b(e)] = vec4<f32>(vector_of_b(batch, 0u, first.x, e));
        }
    }
    workgroupBarrier();
    for (var t = 0u; t < LOOPED; t++) {
        let depth = (t + 1u) * DEPTH;
        if !FOURS || t + 1u < STEPS {
            for (var i = 0u; i < A_EACH; i++) {
                next_a[i] = vector_of_a(batch, first.y, depth, lane + i * THREADS);
            }
            for (var i = 0u; i < B_EACH; i++) {
                next_b[i] = vector_of_b(batch, depth, first.x, lane + i * THREADS);
            }
        }
        let from_a = t % BUFFERS * A_SIZE + y;
        let from_b = t % BUFFERS * B_SIZE + x;
        #emit add_step(from_a, from_b)
        if !FOURS || t + 1u < STEPS {
            if BUFFERS == 1u {
                workgroupBarrier();
            }
            for (var i = 0u; i < A_EACH; i++) {
                let e = lane + i * THREADS;
                if A_VECTORS % THREADS == 0u || e < A_VECTORS {
                    a_tile[(t + 1u) % BUFFERS * A_SIZE + place_in_a(e)] = vec4<f32>(next_a[i]);
                }
            }
            for (var i = 0u; i < B_EACH; i++) {
                let e = lane + i * THREADS;
                if B_VECTORS % THREADS == 0u || e < B_VECTORS {
                    b_tile[(t + 1u) % BUFFERS * B_SIZE + place_in_b(e)] = vec4<f32>(next_b[i]);
                }
            }
        }
        workgroupBarrier();
    }
#if !FOURS
    // As above, of the last step.
    let last_a = (STEPS - 1u) % BUFFERS * A_SIZE + y;
    let last_b = (STEPS - 1u) % BUFFERS * B_SIZE + x;
    #emit add_step(last_a, last_b)
#endif

    // In a loop where little is done to a sum: written out, a compiler mixes that with the work, which takes 1.15 times as long, with a bias
    // too. MUCH is written out: compilers leave that loop as it is, and what a loop counts through is not in registers. All sums would be in
    // memory from the beginning, which made products with GELU seven times as slow.
#if MUCH
    let corner = first + 4u * vec2<u32>(x, y);
    put_square(batch, corner, &sums, 0u);
    if TALL * WIDE > 1u { put_square(batch, corner, &sums, 1u); }
    if TALL * WIDE > 2u { put_square(batch, corner, &sums, 2u); }
    if TALL * WIDE > 2u { put_square(batch, corner, &sums, 3u); }
#else
    for (var s = 0u; s < TALL * WIDE; s++) {
        let row = first.y + s / WIDE * 4u * DOWN + y * 4u;
        let col = first.x + s % WIDE * 4u * ACROSS + x * 4u;
        put(batch, row, col, sums[s * 4u]);
        put(batch, row + 1u, col, sums[s * 4u + 1u]);
        put(batch, row + 2u, col, sums[s * 4u + 2u]);
        put(batch, row + 3u, col, sums[s * 4u + 3u]);
    }
#endif
}
