// Scaled dot-product attention, forward, in one stage: against `manual`, scores never leave workgroup memory. The
// definition is in core/src/suite/workloads/attention.
//
// A workgroup owns 64 query rows of one head and walks over the keys in tiles of 32 with an online softmax.
//
// 16×16 threads. Thread (x, y) computes scores of rows 4y..4y+3 and keys x, x+16 of a tile, and output columns
// 4(x + 16j).. of the same rows, which stay in registers for the whole kernel. Row statistics are kept by four threads a
// row (row index / 4), identical in all four.

#import attention/common
#import lib/launch

@group(0) @binding(0) var<storage, read> q: array<elem>;
@group(0) @binding(1) var<storage, read> k: array<elem>;
@group(0) @binding(2) var<storage, read> v: array<elem>;
@group(0) @binding(3) var<storage, read_write> out: array<elem>;
#when KEEPS_LSE @group(0) @binding(LSE_AT) var<storage, read_write> lse: array<f32>;

const QUARTER: u32 = DEPTH / 4u;
const WIDTH: u32 = COLUMNS * 16u;
const STRIDE: u32 = KEYS + 1u;
const LOG2_E: f32 = 1.4426950408889634;

var<workgroup> weights: array<f32, ROWS * STRIDE>;
// Q and K while scores are computed, V afterwards.
var<workgroup> stage: array<vec4<f32>, STAGED>;
var<workgroup> partial: array<f32, 256>;
var<workgroup> rescale: array<f32, ROWS>;

fn load_q(head: u32, row: u32, col: u32) -> vec4<f32> {
    if row >= S || col >= D {
        return vec4<f32>();
    }
    let at = (head * S + row) * D + col;
    if col + 3u < D {
        return vec4<f32>(f32(q[at]), f32(q[at + 1u]), f32(q[at + 2u]), f32(q[at + 3u]));
    }
    var x = vec4<f32>(f32(q[at]), 0.0, 0.0, 0.0);
    if col + 1u < D { x.y = f32(q[at + 1u]); }
    if col + 2u < D { x.z = f32(q[at + 2u]); }
    return x;
}

fn load_k(head: u32, row: u32, col: u32) -> vec4<f32> {
    if row >= T || col >= D {
        return vec4<f32>();
    }
    let at = (head * T + row) * D + col;
    if col + 3u < D {
        return vec4<f32>(f32(k[at]), f32(k[at + 1u]), f32(k[at + 2u]), f32(k[at + 3u]));
    }
    var x = vec4<f32>(f32(k[at]), 0.0, 0.0, 0.0);
    if col + 1u < D { x.y = f32(k[at + 1u]); }
    if col + 2u < D { x.z = f32(k[at + 2u]); }
    return x;
}

fn load_v(head: u32, row: u32, col: u32) -> vec4<f32> {
    if row >= T || col >= D {
        return vec4<f32>();
    }
    let at = (head * T + row) * D + col;
    if col + 3u < D {
        return vec4<f32>(f32(v[at]), f32(v[at + 1u]), f32(v[at + 2u]), f32(v[at + 3u]));
    }
    var x = vec4<f32>(f32(v[at]), 0.0, 0.0, 0.0);
    if col + 1u < D { x.y = f32(v[at + 1u]); }
    if col + 2u < D { x.z = f32(v[at + 2u]); }
    return x;
}

@compute @workgroup_size(16, 16)
fn attention_flash(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let blocks = (S + ROWS - 1u) / ROWS;
    let flat = flat_group(group, groups);
    let head = flat / blocks;
    if head >= HEADS {
        return;
    }
    let first_row = flat % blocks * ROWS;
    let my_row = lane / 4u;
    let my_part = lane % 4u;
    let seen = seen_keys(head, min(first_row + my_row, S - 1u));
    let last = seen_keys(head, min(first_row + ROWS, S) - 1u);
    let scale = inverseSqrt(f32(D)) * LOG2_E;
    var top = HIDDEN;
    var sum = 0.0;
    var acc0: array<vec4<f32>, COLUMNS>;
    var acc1: array<vec4<f32>, COLUMNS>;
    var acc2: array<vec4<f32>, COLUMNS>;
    var acc3: array<vec4<f32>, COLUMNS>;

    for (var key = 0u; key < last; key += KEYS) {
        var s0 = vec2<f32>();
        var s1 = vec2<f32>();
        var s2 = vec2<f32>();
        var s3 = vec2<f32>();
        for (var x = 0u; x < D; x += DEPTH) {
            // Transposed in memory, so that the keys of neighbouring threads are neighbours.
            for (var e = lane; e < ROWS * QUARTER; e += 256u) {
                stage[e % QUARTER * ROWS + e / QUARTER] =
                    load_q(head, first_row + e / QUARTER, x + e % QUARTER * 4u);
            }
            for (var e = lane; e < KEYS * QUARTER; e += 256u) {
                stage[QUARTER * ROWS + e % QUARTER * KEYS + e / QUARTER] =
                    load_k(head / GROUP, key + e / QUARTER, x + e % QUARTER * 4u);
            }
            workgroupBarrier();
            for (var c = 0u; c < QUARTER; c++) {
                let k0 = stage[QUARTER * ROWS + c * KEYS + local.x];
                let k1 = stage[QUARTER * ROWS + c * KEYS + local.x + 16u];
                let q0 = stage[c * ROWS + local.y * 4u];
                let q1 = stage[c * ROWS + local.y * 4u + 1u];
                let q2 = stage[c * ROWS + local.y * 4u + 2u];
                let q3 = stage[c * ROWS + local.y * 4u + 3u];
                s0 += vec2<f32>(dot(q0, k0), dot(q0, k1));
                s1 += vec2<f32>(dot(q1, k0), dot(q1, k1));
                s2 += vec2<f32>(dot(q2, k0), dot(q2, k1));
                s3 += vec2<f32>(dot(q3, k0), dot(q3, k1));
            }
            workgroupBarrier();
        }
        let at = local.y * 4u * STRIDE + local.x;
        let query = first_row + local.y * 4u;
        let left = key + local.x;
        let right = left + 16u;
        weights[at] = biased(s0.x * scale, query, left, LOG2_E);
        weights[at + 16u] = biased(s0.y * scale, query, right, LOG2_E);
        weights[at + STRIDE] = biased(s1.x * scale, query + 1u, left, LOG2_E);
        weights[at + STRIDE + 16u] = biased(s1.y * scale, query + 1u, right, LOG2_E);
        weights[at + 2u * STRIDE] = biased(s2.x * scale, query + 2u, left, LOG2_E);
        weights[at + 2u * STRIDE + 16u] = biased(s2.y * scale, query + 2u, right, LOG2_E);
        weights[at + 3u * STRIDE] = biased(s3.x * scale, query + 3u, left, LOG2_E);
        weights[at + 3u * STRIDE + 16u] = biased(s3.y * scale, query + 3u, right, LOG2_E);
        workgroupBarrier();

        var highest = HIDDEN;
        for (var j = my_part; j < KEYS; j += 4u) {
            if key + j < seen {
                highest = max(highest, weights[my_row * STRIDE + j]);
            }
        }
        partial[lane] = highest;
        workgroupBarrier();
        let four = my_row * 4u;
        let before = top;
        top = max(max(top, max(partial[four], partial[four + 1u])), max(partial[four + 2u], partial[four + 3u]));
        let shrink = exp2(before - top);
        var total = 0.0;
        for (var j = my_part; j < KEYS; j += 4u) {
            var weight = 0.0;
            if key + j < seen && weights[my_row * STRIDE + j] > HIDDEN {
                weight = exp2(weights[my_row * STRIDE + j] - top);
            }
            weights[my_row * STRIDE + j] = weight;
            total += weight;
        }
        workgroupBarrier();
        partial[lane] = total;
        if my_part == 0u {
            rescale[my_row] = shrink;
        }
        workgroupBarrier();
        sum = sum * shrink + partial[four] + partial[four + 1u] + partial[four + 2u] + partial[four + 3u];

        let row = local.y * 4u;
        for (var j = 0u; j < COLUMNS; j++) {
            acc0[j] *= rescale[row];
            acc1[j] *= rescale[row + 1u];
            acc2[j] *= rescale[row + 2u];
            acc3[j] *= rescale[row + 3u];
        }
        for (var first = 0u; first < KEYS; first += VALUES) {
            for (var e = lane; e < VALUES * WIDTH; e += 256u) {
                stage[e] = load_v(head / GROUP, key + first + e / WIDTH, e % WIDTH * 4u);
            }
            workgroupBarrier();
            for (var i = 0u; i < VALUES; i++) {
                let w0 = weights[row * STRIDE + first + i];
                let w1 = weights[(row + 1u) * STRIDE + first + i];
                let w2 = weights[(row + 2u) * STRIDE + first + i];
                let w3 = weights[(row + 3u) * STRIDE + first + i];
                for (var j = 0u; j < COLUMNS; j++) {
                    let value = stage[i * WIDTH + local.x + 16u * j];
                    acc0[j] += w0 * value;
                    acc1[j] += w1 * value;
                    acc2[j] += w2 * value;
                    acc3[j] += w3 * value;
                }
            }
            workgroupBarrier();
        }
    }

    // A row that sees no key has sum zero and output zero.
    if my_part == 0u {
        rescale[my_row] = select(0.0, 1.0 / sum, sum > 0.0);
        // Scores are to base two; a row that sees no key has no logarithm, for which zero stands.
#when KEEPS_LSE         if first_row + my_row < S { lse[head * S + first_row + my_row] = select(0.0, top / LOG2_E + log(sum), sum > 0.0); }
    }
    workgroupBarrier();
    let row = local.y * 4u;
    for (var j = 0u; j < COLUMNS; j++) {
        let col = (local.x + 16u * j) * 4u;
        store_row(head, first_row + row, col, acc0[j] * rescale[row]);
        store_row(head, first_row + row + 1u, col, acc1[j] * rescale[row + 1u]);
        store_row(head, first_row + row + 2u, col, acc2[j] * rescale[row + 2u]);
        store_row(head, first_row + row + 3u, col, acc3[j] * rescale[row + 3u]);
    }
}

fn store_row(head: u32, row: u32, col: u32, value: vec4<f32>) {
    if row >= S {
        return;
    }
    let at = (head * S + row) * D + col;
    if col < D { out[at] = elem(value.x); }
    if col + 1u < D { out[at + 1u] = elem(value.y); }
    if col + 2u < D { out[at + 2u] = elem(value.z); }
    if col + 3u < D { out[at + 3u] = elem(value.w); }
}
