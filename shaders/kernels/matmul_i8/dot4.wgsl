requires packed_4x8_integer_dot_product;
// int8 GEMM by instructions with four products: tiles of A and B in workgroup memory, 16 or 64 accumulators per thread. The
// definition is in core/workloads/src/ops/matmul_i8.rs.
//
// Tiles of 64 by 64. Thread (x, y) of 16 by 16, or of 8 by 8, computes rows y + THREADS_MN·i and columns x + THREADS_MN·j. 32
// threads that run together are 8 by 4: they read eight rows of a tile of B, and four of A. Accumulators and vectors are
// variables, because arrays do not stay in registers everywhere. The next tiles are in flight meanwhile, in registers.
//
// Choices and measurements: docs/notebook/2026-11-28-kernel-notes.md.

#import lib/product_order
#import matmul_i8/vec4

@group(0) @binding(4) var<storage, read_write> c: array<elem>;

// Vectors per staged row, with one of padding against bank conflicts.
const ROW: u32 = PIECES + 1u;
const THREADS: u32 = THREADS_MN * THREADS_MN;
// Rows that all threads stage at a time.
const PASS: u32 = THREADS / PIECES;
const STEPS: u32 = (WORDS + 4u * PIECES - 1u) / (4u * PIECES);

var<workgroup> a_tile: array<vec4<u32>, BLOCK_MN * ROW>;
var<workgroup> b_tile: array<vec4<u32>, BLOCK_MN * ROW>;

// Products of a word of a row with a word of four rows of B.
fn word(x: u32, y0: u32, y1: u32, y2: u32, y3: u32) -> vec4<i32> {
    return vec4<i32>(dot4I8Packed(x, y0), dot4I8Packed(x, y1), dot4I8Packed(x, y2), dot4I8Packed(x, y3));
}

// Adds four words of a row to four sums: two products at a time, for additions of three operands.
fn dots(sum: vec4<i32>, x: vec4<u32>, y0: vec4<u32>, y1: vec4<u32>, y2: vec4<u32>, y3: vec4<u32>) -> vec4<i32> {
    let half = sum + (word(x.x, y0.x, y1.x, y2.x, y3.x) + word(x.y, y0.y, y1.y, y2.y, y3.y));
    return half + (word(x.z, y0.z, y1.z, y2.z, y3.z) + word(x.w, y0.w, y1.w, y2.w, y3.w));
}

// Stores four results of a row, THREADS_MN columns apart.
fn store(row: u32, col: u32, sum: vec4<i32>) {
    if !WHOLE && row >= M {
        return;
    }
    let at = row * N + col;
    let scale = a_scale[row];
    if WHOLE || col < N { c[at] = elem(scale * b_scale[col] * f32(sum.x)); }
    if WHOLE || col + THREADS_MN < N { c[at + THREADS_MN] = elem(scale * b_scale[col + THREADS_MN] * f32(sum.y)); }
    if WHOLE || col + 2u * THREADS_MN < N { c[at + 2u * THREADS_MN] = elem(scale * b_scale[col + 2u * THREADS_MN] * f32(sum.z)); }
    if WHOLE || col + 3u * THREADS_MN < N { c[at + 3u * THREADS_MN] = elem(scale * b_scale[col + 3u * THREADS_MN] * f32(sum.w)); }
}

@compute @workgroup_size(THREADS)
fn matmul_i8_dot4(
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
    let part = thread / 32u;
    let x = part % (THREADS_MN / 8u) * 8u + thread % 16u / 2u;
    let y = part / (THREADS_MN / 8u) * 4u + thread % 32u / 16u * 2u + thread % 2u;
    // Row and vector that the thread stages first.
    let down_here = thread / PIECES;
    let along = thread % PIECES;
    let to = down_here * ROW + along;
    var sum00 = vec4<i32>();
#if LARGE
    var sum01 = vec4<i32>();
#endif
    var sum10 = vec4<i32>();
#if LARGE
    var sum11 = vec4<i32>();
#endif
    var sum20 = vec4<i32>();
#if LARGE
    var sum21 = vec4<i32>();
#endif
    var sum30 = vec4<i32>();
#if LARGE
    var sum31 = vec4<i32>();
    var sum40 = vec4<i32>();
    var sum41 = vec4<i32>();
    var sum50 = vec4<i32>();
    var sum51 = vec4<i32>();
    var sum60 = vec4<i32>();
    var sum61 = vec4<i32>();
    var sum70 = vec4<i32>();
    var sum71 = vec4<i32>();
#endif

    // Vectors of the next tiles.
    var a0 = vec4_of_a(first.y + down_here, along * 4u);
    var b0 = vec4_of_b(first.x + down_here, along * 4u);
#if LARGE
    var a1 = vec4_of_a(first.y + down_here + PASS, along * 4u);
    var b1 = vec4_of_b(first.x + down_here + PASS, along * 4u);
#endif
    for (var t = 0u; t < STEPS; t++) {
        workgroupBarrier();
        a_tile[to] = a0;
        b_tile[to] = b0;
#if LARGE
        a_tile[to + PASS * ROW] = a1;
        b_tile[to + PASS * ROW] = b1;
#endif
        workgroupBarrier();
        if t + 1u < STEPS {
            let at = ((t + 1u) * PIECES + along) * 4u;
            a0 = vec4_of_a(first.y + down_here, at);
            b0 = vec4_of_b(first.x + down_here, at);
#if LARGE
            a1 = vec4_of_a(first.y + down_here + PASS, at);
            b1 = vec4_of_b(first.x + down_here + PASS, at);
#endif
        }
        for (var d = 0u; d < PIECES; d++) {
            let right0 = b_tile[x * ROW + d];
            let right1 = b_tile[(x + THREADS_MN) * ROW + d];
            let right2 = b_tile[(x + 2u * THREADS_MN) * ROW + d];
            let right3 = b_tile[(x + 3u * THREADS_MN) * ROW + d];
#if LARGE
            let right4 = b_tile[(x + 4u * THREADS_MN) * ROW + d];
            let right5 = b_tile[(x + 5u * THREADS_MN) * ROW + d];
            let right6 = b_tile[(x + 6u * THREADS_MN) * ROW + d];
            let right7 = b_tile[(x + 7u * THREADS_MN) * ROW + d];
#endif
            let left0 = a_tile[y * ROW + d];
            sum00 = dots(sum00, left0, right0, right1, right2, right3);
#if LARGE
            sum01 = dots(sum01, left0, right4, right5, right6, right7);
#endif
            let left1 = a_tile[(y + THREADS_MN) * ROW + d];
            sum10 = dots(sum10, left1, right0, right1, right2, right3);
#if LARGE
            sum11 = dots(sum11, left1, right4, right5, right6, right7);
#endif
            let left2 = a_tile[(y + 2u * THREADS_MN) * ROW + d];
            sum20 = dots(sum20, left2, right0, right1, right2, right3);
#if LARGE
            sum21 = dots(sum21, left2, right4, right5, right6, right7);
#endif
            let left3 = a_tile[(y + 3u * THREADS_MN) * ROW + d];
            sum30 = dots(sum30, left3, right0, right1, right2, right3);
#if LARGE
            sum31 = dots(sum31, left3, right4, right5, right6, right7);
            let left4 = a_tile[(y + 4u * THREADS_MN) * ROW + d];
            sum40 = dots(sum40, left4, right0, right1, right2, right3);
            sum41 = dots(sum41, left4, right4, right5, right6, right7);
            let left5 = a_tile[(y + 5u * THREADS_MN) * ROW + d];
            sum50 = dots(sum50, left5, right0, right1, right2, right3);
            sum51 = dots(sum51, left5, right4, right5, right6, right7);
            let left6 = a_tile[(y + 6u * THREADS_MN) * ROW + d];
            sum60 = dots(sum60, left6, right0, right1, right2, right3);
            sum61 = dots(sum61, left6, right4, right5, right6, right7);
            let left7 = a_tile[(y + 7u * THREADS_MN) * ROW + d];
            sum70 = dots(sum70, left7, right0, right1, right2, right3);
            sum71 = dots(sum71, left7, right4, right5, right6, right7);
#endif
        }
    }

    store(first.y + y, first.x + x, sum00);
#if LARGE
    store(first.y + y, first.x + x + 4u * THREADS_MN, sum01);
#endif
    store(first.y + y + THREADS_MN, first.x + x, sum10);
#if LARGE
    store(first.y + y + THREADS_MN, first.x + x + 4u * THREADS_MN, sum11);
#endif
    store(first.y + y + 2u * THREADS_MN, first.x + x, sum20);
#if LARGE
    store(first.y + y + 2u * THREADS_MN, first.x + x + 4u * THREADS_MN, sum21);
#endif
    store(first.y + y + 3u * THREADS_MN, first.x + x, sum30);
#if LARGE
    store(first.y + y + 3u * THREADS_MN, first.x + x + 4u * THREADS_MN, sum31);
    store(first.y + y + 4u * THREADS_MN, first.x + x, sum40);
    store(first.y + y + 4u * THREADS_MN, first.x + x + 4u * THREADS_MN, sum41);
    store(first.y + y + 5u * THREADS_MN, first.x + x, sum50);
    store(first.y + y + 5u * THREADS_MN, first.x + x + 4u * THREADS_MN, sum51);
    store(first.y + y + 6u * THREADS_MN, first.x + x, sum60);
    store(first.y + y + 6u * THREADS_MN, first.x + x + 4u * THREADS_MN, sum61);
    store(first.y + y + 7u * THREADS_MN, first.x + x, sum70);
    store(first.y + y + 7u * THREADS_MN, first.x + x + 4u * THREADS_MN, sum71);
#endif
}
