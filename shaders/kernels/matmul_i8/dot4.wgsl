requires packed_4x8_integer_dot_product;
// Product of int8 matrices by one instruction for four products: against `naive`, a workgroup stages tiles of A and B in workgroup
// memory, and a thread keeps 16 or 64 sums in registers. The definition is in core/src/suite/workloads/matmul_i8.rs.
//
// 256 threads. Thread (x, y) of 16 by 16 computes rows y + 16i and columns x + 16j. 32 that run together are 8 by 4: they read eight rows of
// a tile of B, and four of A. Sums and vectors are named one by one, since arrays could not be kept in registers everywhere.
//
// What is next is not read ahead: that takes registers, and on an H200 the driver adds products to sums by an instruction of its own, which
// takes more of them. With 149, one workgroup fits where two do with 119. 4096³ took 1.83 ms reading ahead, 1.54 ms without, and 1.49 ms
// word by word; 1.46 when 32 threads were 16 by 2, and 1.41 by twos, with nothing asked where tiles are whole. Words by twos in place of
// fours take 1.48, and 1.56 reading ahead; half of B's rows at a time 1.48 and 1.55; twice as long steps 1.63.

#import lib/product_order
#import matmul_i8/fours

@group(0) @binding(4) var<storage, read_write> c: array<elem>;

// Vectors from one staged row to the next: one pads it, so that neighbours start in different memory banks.
const ROW: u32 = PIECES + 1u;
const STEPS: u32 = (WORDS + 4u * PIECES - 1u) / (4u * PIECES);

var<workgroup> a_tile: array<vec4<u32>, TILE * ROW>;
var<workgroup> b_tile: array<vec4<u32>, TILE * ROW>;

// Products of a word of a row with the same of four rows of B.
fn word(x: u32, y0: u32, y1: u32, y2: u32, y3: u32) -> vec4<i32> {
    return vec4<i32>(dot4I8Packed(x, y0), dot4I8Packed(x, y1), dot4I8Packed(x, y2), dot4I8Packed(x, y3));
}

// Four sums of a row, and four words more of it: two products at a time, as an addition has room for two.
fn dots(sum: vec4<i32>, x: vec4<u32>, y0: vec4<u32>, y1: vec4<u32>, y2: vec4<u32>, y3: vec4<u32>) -> vec4<i32> {
    let half = sum + (word(x.x, y0.x, y1.x, y2.x, y3.x) + word(x.y, y0.y, y1.y, y2.y, y3.y));
    return half + (word(x.z, y0.z, y1.z, y2.z, y3.z) + word(x.w, y0.w, y1.w, y2.w, y3.w));
}

// Four results of a row, sixteen columns apart.
fn put(row: u32, col: u32, sum: vec4<i32>) {
    if row >= M {
        return;
    }
    let at = row * N + col;
    let scale = a_scale[row];
    if col < N { c[at] = elem(scale * b_scale[col] * f32(sum.x)); }
    if col + 16u < N { c[at + 16u] = elem(scale * b_scale[col + 16u] * f32(sum.y)); }
    if col + 32u < N { c[at + 32u] = elem(scale * b_scale[col + 32u] * f32(sum.z)); }
    if col + 48u < N { c[at + 48u] = elem(scale * b_scale[col + 48u] * f32(sum.w)); }
}

@compute @workgroup_size(256)
fn matmul_i8_dot4(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let across = (N + TILE - 1u) / TILE;
    let down = (M + TILE - 1u) / TILE;
    let index = group.y * groups.x + group.x;
    if index >= across * down {
        return;
    }
    let first = tile_at(index, across, down) * TILE;
    let x = thread % 64u / 32u * 8u + thread % 16u / 2u;
    let y = thread / 64u * 4u + thread % 32u / 16u * 2u + thread % 2u;
    // The row and the vector of it that the thread stages.
    let down_here = thread / PIECES;
    let along = thread % PIECES;
    let to = down_here * ROW + along;
    var sum00 = vec4<i32>();
#when LARGE     var sum01 = vec4<i32>();
    var sum10 = vec4<i32>();
#when LARGE     var sum11 = vec4<i32>();
    var sum20 = vec4<i32>();
#when LARGE     var sum21 = vec4<i32>();
    var sum30 = vec4<i32>();
#when LARGE     var sum31 = vec4<i32>();
#when LARGE     var sum40 = vec4<i32>();
#when LARGE     var sum41 = vec4<i32>();
#when LARGE     var sum50 = vec4<i32>();
#when LARGE     var sum51 = vec4<i32>();
#when LARGE     var sum60 = vec4<i32>();
#when LARGE     var sum61 = vec4<i32>();
#when LARGE     var sum70 = vec4<i32>();
#when LARGE     var sum71 = vec4<i32>();

    for (var t = 0u; t < STEPS; t++) {
        let at = (t * PIECES + along) * 4u;
        let a0 = four_of_a(first.y + down_here, at);
        let b0 = four_of_b(first.x + down_here, at);
#when LARGE         let a1 = four_of_a(first.y + down_here + 64u, at);
#when LARGE         let b1 = four_of_b(first.x + down_here + 64u, at);
        workgroupBarrier();
        a_tile[to] = a0;
        b_tile[to] = b0;
#when LARGE         a_tile[to + 64u * ROW] = a1;
#when LARGE         b_tile[to + 64u * ROW] = b1;
        workgroupBarrier();
        for (var d = 0u; d < PIECES; d++) {
            let b0 = b_tile[(x + 0u) * ROW + d];
            let b1 = b_tile[(x + 16u) * ROW + d];
            let b2 = b_tile[(x + 32u) * ROW + d];
            let b3 = b_tile[(x + 48u) * ROW + d];
#when LARGE             let b4 = b_tile[(x + 64u) * ROW + d];
#when LARGE             let b5 = b_tile[(x + 80u) * ROW + d];
#when LARGE             let b6 = b_tile[(x + 96u) * ROW + d];
#when LARGE             let b7 = b_tile[(x + 112u) * ROW + d];
            let a0 = a_tile[(y + 0u) * ROW + d];
            sum00 = dots(sum00, a0, b0, b1, b2, b3);
#when LARGE             sum01 = dots(sum01, a0, b4, b5, b6, b7);
            let a1 = a_tile[(y + 16u) * ROW + d];
            sum10 = dots(sum10, a1, b0, b1, b2, b3);
#when LARGE             sum11 = dots(sum11, a1, b4, b5, b6, b7);
            let a2 = a_tile[(y + 32u) * ROW + d];
            sum20 = dots(sum20, a2, b0, b1, b2, b3);
#when LARGE             sum21 = dots(sum21, a2, b4, b5, b6, b7);
            let a3 = a_tile[(y + 48u) * ROW + d];
            sum30 = dots(sum30, a3, b0, b1, b2, b3);
#when LARGE             sum31 = dots(sum31, a3, b4, b5, b6, b7);
#when LARGE             let a4 = a_tile[(y + 64u) * ROW + d];
#when LARGE             sum40 = dots(sum40, a4, b0, b1, b2, b3);
#when LARGE             sum41 = dots(sum41, a4, b4, b5, b6, b7);
#when LARGE             let a5 = a_tile[(y + 80u) * ROW + d];
#when LARGE             sum50 = dots(sum50, a5, b0, b1, b2, b3);
#when LARGE             sum51 = dots(sum51, a5, b4, b5, b6, b7);
#when LARGE             let a6 = a_tile[(y + 96u) * ROW + d];
#when LARGE             sum60 = dots(sum60, a6, b0, b1, b2, b3);
#when LARGE             sum61 = dots(sum61, a6, b4, b5, b6, b7);
#when LARGE             let a7 = a_tile[(y + 112u) * ROW + d];
#when LARGE             sum70 = dots(sum70, a7, b0, b1, b2, b3);
#when LARGE             sum71 = dots(sum71, a7, b4, b5, b6, b7);
        }
    }

    put(first.y + y + 0u, first.x + x, sum00);
#when LARGE     put(first.y + y + 0u, first.x + x + 64u, sum01);
    put(first.y + y + 16u, first.x + x, sum10);
#when LARGE     put(first.y + y + 16u, first.x + x + 64u, sum11);
    put(first.y + y + 32u, first.x + x, sum20);
#when LARGE     put(first.y + y + 32u, first.x + x + 64u, sum21);
    put(first.y + y + 48u, first.x + x, sum30);
#when LARGE     put(first.y + y + 48u, first.x + x + 64u, sum31);
#when LARGE     put(first.y + y + 64u, first.x + x, sum40);
#when LARGE     put(first.y + y + 64u, first.x + x + 64u, sum41);
#when LARGE     put(first.y + y + 80u, first.x + x, sum50);
#when LARGE     put(first.y + y + 80u, first.x + x + 64u, sum51);
#when LARGE     put(first.y + y + 96u, first.x + x, sum60);
#when LARGE     put(first.y + y + 96u, first.x + x + 64u, sum61);
#when LARGE     put(first.y + y + 112u, first.x + x, sum70);
#when LARGE     put(first.y + y + 112u, first.x + x + 64u, sum71);
}
