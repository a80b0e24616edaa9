// fp8 GEMM without matrix units: tiles of A and B in workgroup memory as f32, accumulators in registers. The definition is in
// core/workloads/src/ops/matmul_f8.
//
// 16 × 16 threads. Thread (x, y) computes REG_TILES × REG_TILES register tiles of 4 × 4 elements: rows 4(y + 16i).. and columns
// 4(x + 16j)... Tiles are stored as vectors along M or N, one index of K after the other. A thread reads a word each of four rows,
// decodes them and stores four vectors. By block, the scales are multiplied into the tiles. Words of the next tiles are in flight
// meanwhile, in registers.

#import lib/product_order
#import matmul_f8/codes

#if VEC4_STORES
@group(0) @binding(4) var<storage, read_write> c: array<vec4<elem>>;
#else
@group(0) @binding(4) var<storage, read_write> c: array<elem>;
#endif

// Vectors of a row or column of a tile. Words of a tile along K, and steps.
const ROW: u32 = BLOCK_MN / 4u;
const ACROSS: u32 = BLOCK_K / 4u;
const STEPS: u32 = (WORDS + ACROSS - 1u) / ACROSS;

var<workgroup> a_tile: array<vec4<f32>, BLOCK_K * ROW>;
var<workgroup> b_tile: array<vec4<f32>, BLOCK_K * ROW>;

// Words at `at` of four rows of a matrix, zeros outside.
#block four_words(MATRIX, HEIGHT)
    var x = vec4<u32>();
    if at < WORDS {
        if row < HEIGHT { x.x = MATRIX[row * WORDS + at]; }
        if row + 1u < HEIGHT { x.y = MATRIX[(row + 1u) * WORDS + at]; }
        if row + 2u < HEIGHT { x.z = MATRIX[(row + 2u) * WORDS + at]; }
        if row + 3u < HEIGHT { x.w = MATRIX[(row + 3u) * WORDS + at]; }
    }
    return x;
#end

fn words_of_a(row: u32, at: u32) -> vec4<u32> {
    #emit four_words(a, M)
}

fn words_of_b(row: u32, at: u32) -> vec4<u32> {
    #emit four_words(b, N)
}

// Scales of four rows of a tile at this word. Rows outside have those of the last one.
fn scales_of_a(row: u32, at: u32) -> vec4<f32> {
    let part = min(at * 4u / SPAN, PARTS - 1u);
    return vec4<f32>(scale_of_a(min(row, M - 1u), part), scale_of_a(min(row + 1u, M - 1u), part),
        scale_of_a(min(row + 2u, M - 1u), part), scale_of_a(min(row + 3u, M - 1u), part));
}

// Stores four rows of four codes, as four vectors.
#block keep(TILE, NUMBERS, WORDS4, FACTORS)
    let x = NUMBERS(WORDS4.x);
    let y = NUMBERS(WORDS4.y);
    let z = NUMBERS(WORDS4.z);
    let w = NUMBERS(WORDS4.w);
    TILE[to] = vec4<f32>(x.x, y.x, z.x, w.x) * FACTORS;
    TILE[to + ROW] = vec4<f32>(x.y, y.y, z.y, w.y) * FACTORS;
    TILE[to + 2u * ROW] = vec4<f32>(x.z, y.z, z.z, w.z) * FACTORS;
    TILE[to + 3u * ROW] = vec4<f32>(x.w, y.w, z.w, w.w) * FACTORS;
#end

fn keep_a(to: u32, words: vec4<u32>, row: u32, at: u32) {
#if BY_BLOCK
    let factors = scales_of_a(row, at);
    #emit keep(a_tile, decoded_of_a, words, factors)
#else
    #emit keep(a_tile, decoded_of_a, words, 1.0)
#endif
}

fn keep_b(to: u32, words: vec4<u32>, row: u32, at: u32) {
#if BY_BLOCK
    // Four rows of B from a multiple of four on are in one block.
    let factor = scale_of_b(min(row, N - 1u), min(at * 4u / SPAN, PARTS - 1u));
    #emit keep(b_tile, decoded, words, factor)
#else
    #emit keep(b_tile, decoded, words, 1.0)
#endif
}

// Factor of a result.
fn factor(row: u32, col: u32) -> f32 {
#if BY_BLOCK
    return 1.0;
#else
    return scale_of_a(row, 0u) * scale_of_b(col, 0u);
#endif
}

// Stores four neighbouring sums of a row.
fn store_vec4(row: u32, col: u32, sum: vec4<f32>) {
    if row >= M {
        return;
    }
    let at = row * N + col;
#if VEC4_STORES
    if col < N {
        let factors = vec4<f32>(factor(row, col), factor(row, col + 1u), factor(row, col + 2u), factor(row, col + 3u));
        c[at / 4u] = vec4<elem>(sum * factors);
    }
#else
    if col < N { c[at] = elem(sum.x * factor(row, col)); }
    if col + 1u < N { c[at + 1u] = elem(sum.y * factor(row, col + 1u)); }
    if col + 2u < N { c[at + 2u] = elem(sum.z * factor(row, col + 2u)); }
    if col + 3u < N { c[at + 3u] = elem(sum.w * factor(row, col + 3u)); }
#endif
}

@compute @workgroup_size(256)
fn matmul_f8_tiled(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let across = (N + BLOCK_MN - 1u) / BLOCK_MN;
    let down = (M + BLOCK_MN - 1u) / BLOCK_MN;
    let index = group.y * groups.x + group.x;
    if index >= across * down {
        return;
    }
    let first = tile_at(index, across, down) * BLOCK_MN;
    // 32 threads that run together are 8 × 4, and neighbours share a row, then a column: they read each vector once.
    let x = thread % 64u / 32u * 8u + thread % 16u / 2u;
    let y = thread / 64u * 4u + thread % 32u / 16u * 2u + thread % 2u;
    // The first half of the threads stages A, the other one B: this vector of rows, and this word.
    let half = thread % 128u;
    let of_a = thread < 128u;
    let rows = half % ROW;
    let along = half / ROW;
    let to = along * 4u * ROW + rows;
    let row = select(first.x, first.y, of_a) + rows * 4u;
    var sums: array<vec4<f32>, 4u * REG_TILES * REG_TILES>;
    var words = vec4<u32>();
    if of_a {
        words = words_of_a(row, along);
    } else {
        words = words_of_b(row, along);
    }
    for (var t = 0u; t < STEPS; t++) {
        workgroupBarrier();
        let at = t * ACROSS + along;
        if of_a {
            keep_a(to, words, row, at);
        } else {
            keep_b(to, words, row, at);
        }
        workgroupBarrier();
        if t + 1u < STEPS {
            if of_a {
                words = words_of_a(row, at + ACROSS);
            } else {
                words = words_of_b(row, at + ACROSS);
            }
        }
        for (var d = 0u; d < BLOCK_K; d++) {
            var right = array<vec4<f32>, REG_TILES>();
            for (var j = 0u; j < REG_TILES; j++) {
                right[j] = b_tile[d * ROW + x + j * 16u];
            }
            for (var i = 0u; i < REG_TILES; i++) {
                let left = a_tile[d * ROW + y + i * 16u];
                for (var j = 0u; j < REG_TILES; j++) {
                    let s = (i * REG_TILES + j) * 4u;
                    sums[s] = fma(vec4<f32>(left.x), right[j], sums[s]);
                    sums[s + 1u] = fma(vec4<f32>(left.y), right[j], sums[s + 1u]);
                    sums[s + 2u] = fma(vec4<f32>(left.z), right[j], sums[s + 2u]);
                    sums[s + 3u] = fma(vec4<f32>(left.w), right[j], sums[s + 3u]);
                }
            }
        }
    }

    for (var s = 0u; s < REG_TILES * REG_TILES; s++) {
        let corner = first + vec2<u32>(s % REG_TILES * 16u + x, s / REG_TILES * 16u + y) * 4u;
        store_vec4(corner.y, corner.x, sums[s * 4u]);
        store_vec4(corner.y + 1u, corner.x, sums[s * 4u + 1u]);
        store_vec4(corner.y + 2u, corner.x, sums[s * 4u + 2u]);
        store_vec4(corner.y + 3u, corner.x, sums[s * 4u + 3u]);
    }
}
