// Scaled dot-product attention, forward, in one stage: scores stay in workgroup memory. The definition is in
// core/workloads/src/ops/attention.
//
// A workgroup owns ROWS query rows of a head, and processes the keys in tiles of KEYS with an online softmax.
//
// THREADS_N × THREADS_M threads. Thread (x, y) computes scores of four rows, 4y.., and of four keys, THREADS_N apart from x on.
// It also sums COLUMNS vectors of the output's same rows, in registers. Workgroup memory holds vectors along rows, keys or
// columns. Tiles are loaded a step ahead, into registers. With two STAGES a step has one barrier.
//
// Choices and measurements: docs/notebook/2026-11-28-kernel-notes.md.

#import attention/common //= FORM: #import attention/scores
#import lib/launch

@group(0) @binding(0) var<storage, read> q: array<vec4<elem>>;
@group(0) @binding(1) var<storage, read> k: array<vec4<elem>>;
@group(0) @binding(2) var<storage, read> v: array<vec4<elem>>;
@group(0) @binding(3) var<storage, read_write> out: array<elem>;
#if KEEPS_LSE
@group(0) @binding(LSE_AT) var<storage, read_write> lse: array<f32>;
#endif

const LOG2_E: f32 = 1.4426950408889634;
const THREADS: u32 = THREADS_N * THREADS_M;
const ROWS: u32 = 4u * THREADS_M;
const KEYS: u32 = 4u * THREADS_N;
const WIDTH: u32 = THREADS_N * COLUMNS;
// Vectors from one depth, or key, to the next. PAD avoids bank conflicts of transposed stores.
const Q_STRIDE: u32 = THREADS_M + PAD;
const K_STRIDE: u32 = THREADS_N + PAD;
const W_STRIDE: u32 = THREADS_M + 2u * PAD;
// Steps of a tile of scores, and of the weighted sum of its values.
const CHUNKS: u32 = (D + DEPTH - 1u) / DEPTH;
const PARTS: u32 = KEYS / VALUES;
// 4 × 4 tiles of Q and K per step, and per thread.
const Q_TILES: u32 = DEPTH / 4u * THREADS_M;
const QK_TILES: u32 = Q_TILES + DEPTH / 4u * THREADS_N;
const QK_LOADS: u32 = (QK_TILES + THREADS - 1u) / THREADS;
const V_LOADS: u32 = (VALUES * WIDTH + THREADS - 1u) / THREADS;
const K_FROM: u32 = DEPTH * Q_STRIDE;
const STAGE_VEC4: u32 = max(K_FROM + DEPTH * K_STRIDE, VALUES * WIDTH);
const Q_WHOLE: bool = S % ROWS == 0u && D % DEPTH == 0u;
const K_WHOLE: bool = T % KEYS == 0u && D % DEPTH == 0u;
const V_WHOLE: bool = !OWN_LENGTHS && T % KEYS == 0u && D == 4u * WIDTH;
const HIDES: bool = CAUSAL || OWN_LENGTHS || BIASED || T % KEYS != 0u;

// Weights of keys, as vectors along rows.
var<workgroup> weights: array<vec4<f32>, KEYS * W_STRIDE>;
// Q and K while scores are computed, then V.
var<workgroup> stage: array<vec4<f32>, STAGES * STAGE_VEC4>;
// A thread's maximum or sum of a row, for the threads that share the row.
var<workgroup> partial: array<vec4<f32>, THREADS_N * THREADS_M>;

// Elements col .. col + 3 of a row; zeros from row END and from column D, because memory there may hold NaN.
#block vec4_of(MATRIX, LENGTH, WHOLE, END)
    let at = (head * LENGTH + row) * D + col;
    if WHOLE {
        return MATRIX[at / 4u];
    }
    var x = vec4<elem>();
    if row >= END || col >= D {
        return x;
    }
    if D % 4u == 0u {
        return MATRIX[at / 4u];
    }
    x.x = MATRIX[at / 4u][at % 4u];
    if col + 1u < D { x.y = MATRIX[(at + 1u) / 4u][(at + 1u) % 4u]; }
    if col + 2u < D { x.z = MATRIX[(at + 2u) / 4u][(at + 2u) % 4u]; }
    if col + 3u < D { x.w = MATRIX[(at + 3u) / 4u][(at + 3u) % 4u]; }
    return x;
#end

fn load_q(head: u32, row: u32, col: u32) -> vec4<elem> {
    #emit vec4_of(q, S, Q_WHOLE, S)
}

fn load_k(head: u32, row: u32, col: u32) -> vec4<elem> {
    #emit vec4_of(k, T, K_WHOLE, T)
}

fn load_v(head: u32, row: u32, end: u32, col: u32) -> vec4<elem> {
    #emit vec4_of(v, T, V_WHOLE, end)
}

// Loads the thread's 4 × 4 tiles of Q and K from this depth on: four neighbouring queries, or four keys THREADS_N apart, as for
// its scores.
fn fetch(next: ptr<function, array<vec4<elem>, 4u * QK_LOADS>>, head: u32, row: u32, key: u32, depth: u32, lane: u32) {
    for (var b = 0u; b < QK_LOADS; b++) {
        let e = lane + b * THREADS;
        let d = depth + e % (DEPTH / 4u) * 4u;
        if e < Q_TILES {
            let start = row + e / (DEPTH / 4u) * 4u;
            for (var i = 0u; i < 4u; i++) {
                (*next)[b * 4u + i] = load_q(head, start + i, d);
            }
        } else if QK_TILES % THREADS == 0u || e < QK_TILES {
            let start = key + (e - Q_TILES) / (DEPTH / 4u);
            for (var i = 0u; i < 4u; i++) {
                (*next)[b * 4u + i] = load_k(head / GROUP, start + i * THREADS_N, d);
            }
        }
    }
}

// Stores the tiles transposed.
fn keep(next: ptr<function, array<vec4<elem>, 4u * QK_LOADS>>, buffer: u32, lane: u32) {
    for (var b = 0u; b < QK_LOADS; b++) {
        let e = lane + b * THREADS;
        let d = e % (DEPTH / 4u) * 4u;
        let tile = transpose(mat4x4<f32>(vec4<f32>((*next)[b * 4u]), vec4<f32>((*next)[b * 4u + 1u]),
            vec4<f32>((*next)[b * 4u + 2u]), vec4<f32>((*next)[b * 4u + 3u])));
        if e < Q_TILES {
            let to = buffer + d * Q_STRIDE + e / (DEPTH / 4u);
            stage[to] = tile[0];
            stage[to + Q_STRIDE] = tile[1];
            stage[to + 2u * Q_STRIDE] = tile[2];
            stage[to + 3u * Q_STRIDE] = tile[3];
        } else if QK_TILES % THREADS == 0u || e < QK_TILES {
            let to = buffer + K_FROM + d * K_STRIDE + (e - Q_TILES) / (DEPTH / 4u);
            stage[to] = tile[0];
            stage[to + K_STRIDE] = tile[1];
            stage[to + 2u * K_STRIDE] = tile[2];
            stage[to + 3u * K_STRIDE] = tile[3];
        }
    }
}

// Loads the thread's vectors of V from this key on.
fn fetch_v(next: ptr<function, array<vec4<elem>, V_LOADS>>, head: u32, key: u32, end: u32, lane: u32) {
    for (var b = 0u; b < V_LOADS; b++) {
        let e = lane + b * THREADS;
        if VALUES * WIDTH % THREADS == 0u || e < VALUES * WIDTH {
            (*next)[b] = load_v(head / GROUP, key + e / WIDTH, end, e % WIDTH * 4u);
        }
    }
}

fn keep_v(next: ptr<function, array<vec4<elem>, V_LOADS>>, buffer: u32, lane: u32) {
    for (var b = 0u; b < V_LOADS; b++) {
        let e = lane + b * THREADS;
        if VALUES * WIDTH % THREADS == 0u || e < VALUES * WIDTH {
            stage[buffer + e] = vec4<f32>((*next)[b]);
        }
    }
}

@compute @workgroup_size(THREADS)
fn attention_flash(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let blocks = (S + ROWS - 1u) / ROWS;
    let flat = flat_group(group, groups);
    let head = flat / blocks;
    if head >= HEADS {
        return;
    }
    let first_row = flat % blocks * ROWS;
    // Neighbouring threads share rows, then columns: a subgroup reads each vector once.
    let x = lane / 2u % THREADS_N;
    let y = lane / (2u * THREADS_N) * 2u + lane % 2u;
    let last = seen_keys(head, min(first_row + ROWS, S) - 1u);
    let first_tile = window_start(first_row) / KEYS;
    let tiles = (last + KEYS - 1u) / KEYS;
    let end = keys_of(head);
    let scale = inverseSqrt(f32(D)) * LOG2_E;
    // Scores are scaled when they become exponents. A mask is added to scaled scores.
    let unit = select(scale, 1.0, BIASED); //+ CHANGES: let slope = slope_of(head);
    var top = vec4<f32>(HIDDEN);
    var sum = vec4<f32>();
    var acc: array<vec4<f32>, 4u * COLUMNS>;
    var next: array<vec4<elem>, 4u * QK_LOADS>;
    var next_v: array<vec4<elem>, V_LOADS>;
    let row = first_row + y * 4u;
    let seen = vec4<u32>(
        seen_keys(head, min(row, S - 1u)),
        seen_keys(head, min(row + 1u, S - 1u)),
        seen_keys(head, min(row + 2u, S - 1u)),
        seen_keys(head, min(row + 3u, S - 1u)),
    );

    let start = vec4<u32>(
        window_start(min(row, S - 1u)),
        window_start(min(row + 1u, S - 1u)),
        window_start(min(row + 2u, S - 1u)),
        window_start(min(row + 3u, S - 1u)),
    );

    if tiles > first_tile {
        fetch(&next, head, first_row, first_tile * KEYS, 0u, lane);
    }
    for (var t = first_tile; t < tiles; t++) {
        let key = t * KEYS;
        // Initialised explicitly: browsers do not zero it in each iteration otherwise.
        var s = array<vec4<f32>, 4>();
        for (var c = 0u; c < CHUNKS; c++) {
            let buffer = c % STAGES * STAGE_VEC4;
            if STAGES == 1u {
                workgroupBarrier();
            }
            keep(&next, buffer, lane);
            workgroupBarrier();
            if c + 1u < CHUNKS {
                fetch(&next, head, first_row, key, (c + 1u) * DEPTH, lane);
            }
            for (var d = 0u; d < DEPTH; d++) {
                let left = stage[buffer + d * Q_STRIDE + y];
                let right = stage[buffer + K_FROM + d * K_STRIDE + x];
                s[0] = fma(left, vec4<f32>(right.x), s[0]);
                s[1] = fma(left, vec4<f32>(right.y), s[1]);
                s[2] = fma(left, vec4<f32>(right.z), s[2]);
                s[3] = fma(left, vec4<f32>(right.w), s[3]);
            }
        }
        fetch_v(&next_v, head, key, end, lane);

        var now = top;
        for (var j = 0u; j < 4u; j++) { //+ CHANGES: s[j] = changed4(s[j], slope, row, key + j * THREADS_N + x);
            if HIDES {
                let mine = key + j * THREADS_N + x;
#if BIASED
                let score = s[j] * scale;
                s[j] = vec4<f32>(biased(score.x, row, mine, LOG2_E), biased(score.y, row + 1u, mine, LOG2_E),
                    biased(score.z, row + 2u, mine, LOG2_E), biased(score.w, row + 3u, mine, LOG2_E));
#endif
                s[j] = select(vec4<f32>(HIDDEN), s[j], vec4<u32>(mine) < seen);
                if STARTS {
                    s[j] = select(s[j], vec4<f32>(HIDDEN), vec4<u32>(mine) < start);
                }
            }
            now = max(now, s[j]);
        }
        partial[x * THREADS_M + y] = now;
        workgroupBarrier();
        for (var i = 0u; i < THREADS_N; i++) {
            now = max(now, partial[i * THREADS_M + y]);
        }
        let shrink = exp2((top - now) * unit);
        top = now;
        sum *= shrink;
        for (var j = 0u; j < 4u; j++) {
            var weight = exp2((s[j] - now) * unit);
            if HIDES {
                weight = select(weight, vec4<f32>(), s[j] == vec4<f32>(HIDDEN));
            }
            sum += weight;
            weights[(j * THREADS_N + x) * W_STRIDE + y] = weight;
        }
        for (var j = 0u; j < COLUMNS; j++) {
            acc[j * 4u] *= shrink.x;
            acc[j * 4u + 1u] *= shrink.y;
            acc[j * 4u + 2u] *= shrink.z;
            acc[j * 4u + 3u] *= shrink.w;
        }
        for (var f = 0u; f < PARTS; f++) {
            let buffer = f % STAGES * STAGE_VEC4;
            if STAGES == 1u && f > 0u {
                workgroupBarrier();
            }
            keep_v(&next_v, buffer, lane);
            workgroupBarrier();
            if f + 1u < PARTS {
                fetch_v(&next_v, head, key + (f + 1u) * VALUES, end, lane);
            } else if t + 1u < tiles {
                fetch(&next, head, first_row, key + KEYS, 0u, lane);
            }
            for (var i = 0u; i < VALUES; i++) {
                let weight = weights[(f * VALUES + i) * W_STRIDE + y];
                for (var j = 0u; j < COLUMNS; j++) {
                    let value = stage[buffer + i * WIDTH + x + j * THREADS_N];
                    acc[j * 4u] = fma(vec4<f32>(weight.x), value, acc[j * 4u]);
                    acc[j * 4u + 1u] = fma(vec4<f32>(weight.y), value, acc[j * 4u + 1u]);
                    acc[j * 4u + 2u] = fma(vec4<f32>(weight.z), value, acc[j * 4u + 2u]);
                    acc[j * 4u + 3u] = fma(vec4<f32>(weight.w), value, acc[j * 4u + 3u]);
                }
            }
        }
        // With an odd number of parts, the last one lies where the next scores begin.
        if STAGES == 2u && PARTS % 2u == 1u {
            workgroupBarrier();
        }
    }

    // A row without a visible key has sum zero and output zero.
    partial[x * THREADS_M + y] = sum;
    workgroupBarrier();
    var total = vec4<f32>();
    for (var i = 0u; i < THREADS_N; i++) {
        total += partial[i * THREADS_M + y];
    }
    let factor = select(1.0 / total, vec4<f32>(), total == vec4<f32>()); //= SINKS: let joined = with_sink4(head, top * (unit / LOG2_E), total); let factor = select(1.0 / joined, vec4<f32>(), total == vec4<f32>());
    // Scores are to base two. A row without a visible key has no logarithm: zero is stored.
#if KEEPS_LSE
    let logarithms = select(top * (unit / LOG2_E) + log(total), vec4<f32>(), total == vec4<f32>()); //= SINKS: let logarithms = log_with_sink4(head, top * (unit / LOG2_E), total);
    if x == 0u && row < S { lse[head * S + row] = logarithms.x; }
    if x == 0u && row + 1u < S { lse[head * S + row + 1u] = logarithms.y; }
    if x == 0u && row + 2u < S { lse[head * S + row + 2u] = logarithms.z; }
    if x == 0u && row + 3u < S { lse[head * S + row + 3u] = logarithms.w; }
#endif
    for (var j = 0u; j < COLUMNS; j++) {
        let col = (x + THREADS_N * j) * 4u;
        store_row(head, row, col, acc[j * 4u] * factor.x);
        store_row(head, row + 1u, col, acc[j * 4u + 1u] * factor.y);
        store_row(head, row + 2u, col, acc[j * 4u + 2u] * factor.z);
        store_row(head, row + 3u, col, acc[j * 4u + 3u] * factor.w);
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
