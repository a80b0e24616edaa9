enable wgpu_cooperative_matrix;
// Scaled dot-product attention, forward, on matrix units: against `flash`, a subgroup multiplies 16×16 matrices of f16 as a
// whole and sums in f32. The definition is in core/src/suite/workloads/attention. Cooperative matrices are an extension of
// native wgpu; shaders/src/matrix.rs spells them for browsers.
//
// Each of four subgroups of 32 owns 16 query rows, and all walk together over the keys in tiles of KEYS. Queries, and sums of values,
// stay in matrices for the whole kernel. A matrix does not tell which thread has which element, so scores pass through workgroup memory
// to become weights, two threads a row. Keys and values take turns: while one of them is multiplied the other is on its way.
//
// Weights are taken against a maximum that may lie behind: as long as no row's own exceeds it by more than 2 to the GROWTH, f16 and f32
// hold all of them. Only when one does, which after the first tiles is rare, sums pass through workgroup memory to be scaled down.
//
// The validator takes a call's result for one that may differ within a workgroup: what decides how often matrices are
// multiplied is written out. Loops have the one form that browsers can prove to end. The T in the names of loads and stores means rows
// that lie one after the other; keys are taken as columns. There are matrices for 16 columns of head_dim each, as many as there are such.

#import attention/common
#import attention/eights

const LOG2_E: f32 = 1.4426950408889634;
const GROWTH: f32 = 8.0;
// Eights in a row, and from one staged row to the next, padded so that neighbours start in different memory banks; of keys, then of values.
const EIGHTS: u32 = WIDTH / 8u;
const ROW: u32 = EIGHTS + 1u;
const VALUES: u32 = KEYS * ROW;
// Vectors of four from one row to the next: of scores, and of weights.
const LONG: u32 = KEYS / 4u + 2u;
const LIGHT: u32 = KEYS / 4u + 2u;

var<workgroup> stage: array<Piece, 2u * KEYS * ROW * PIECES>;
var<workgroup> scores: array<vec4<f32>, ROWS * LONG>;
var<workgroup> weights: array<vec4<f16>, ROWS * LIGHT>;
// Whether a maximum must be raised: 1 while there are no sums yet, 2 when they must be scaled down. Atomic, since texts with matrices
// declare Vulkan's memory model, by which a plain variable that a thread did not write itself need not be looked at: naga marks no access
// as one that others share. The first of four: matrices must begin at multiples of 16 bytes, of which drivers are sure only where nothing in
// workgroup memory is smaller.
var<workgroup> raises: array<atomic<u32>, 4>;

fn put_staged(first: u32, e: u32, x: Eight) {
    if e >= KEYS * EIGHTS {
        return;
    }
    put_eight(first + e / EIGHTS * ROW + e % EIGHTS, x);
}

fn put_eight(at: u32, x: Eight) {
#when IN_A_BROWSER     stage[at] = x;
#when !IN_A_BROWSER     stage[2u * at] = low_of(x);
#when !IN_A_BROWSER     stage[2u * at + 1u] = high_of(x);
}

// What a thread knows of its half of a row: every other vector of four.
struct Half {
    row: u32,
    odd: u32,
    query: u32,
    // Keys that the row sees, and those that all rows of the workgroup see.
    seen: u32,
    all_see: u32,
    scale: f32,
}

// Make weights of a tile's scores against a maximum; gives the highest score, and the sum of the weights.
fn weigh(half: Half, key: u32, top: f32) -> vec2<f32> {
    var highest = HIDDEN;
    var sum = vec4<f32>();
    if !BIASED && key + KEYS <= half.all_see {
        var raw = vec4<f32>(HIDDEN);
        for (var i = 0u; i < KEYS / 8u; i++) {
            let score = scores[half.row * LONG + i * 2u + half.odd];
            let weight = exp2(fma(score, vec4<f32>(half.scale), vec4<f32>(-top)));
            raw = max(raw, score);
            sum += weight;
            weights[half.row * LIGHT + i * 2u + half.odd] = vec4<f16>(weight);
        }
        highest = max(max(raw.x, raw.y), max(raw.z, raw.w)) * half.scale;
    } else {
        for (var i = 0u; i < KEYS / 8u; i++) {
            let raw = scores[half.row * LONG + i * 2u + half.odd];
            let first = key + (i * 2u + half.odd) * 4u;
            let score = vec4<f32>(
                score_of(half, raw.x, first),
                score_of(half, raw.y, first + 1u),
                score_of(half, raw.z, first + 2u),
                score_of(half, raw.w, first + 3u),
            );
            let weight = select(vec4<f32>(), exp2(score - top), score > vec4<f32>(HIDDEN));
            highest = max(highest, max(max(score.x, score.y), max(score.z, score.w)));
            sum += weight;
            weights[half.row * LIGHT + i * 2u + half.odd] = vec4<f16>(weight);
        }
    }
    return vec2<f32>(highest, sum.x + sum.y + sum.z + sum.w);
}

fn score_of(half: Half, raw: f32, key: u32) -> f32 {
    if key >= half.seen {
        return HIDDEN;
    }
    return biased(raw * half.scale, half.query, key, LOG2_E);
}

// Scale what lies where the scores do: two squares of the subgroup's rows.
fn scale_down(half: Half, shrink: f32) {
    workgroupBarrier();
    for (var i = 0u; i < 4u; i++) {
        scores[half.row * LONG + i * 2u + half.odd] *= shrink;
    }
    workgroupBarrier();
}

// Write two squares that lie where the scores do, from this column on, as elements of the output.
fn write_squares(half: Half, head: u32, col: u32, share: f32) {
    workgroupBarrier();
    for (var i = 0u; i < 2u; i++) {
        let at = half.row * LONG + half.odd * 4u + i * 2u;
        put_out(head, half.query, col + half.odd * 16u + i * 8u, scores[at] * share, scores[at + 1u] * share);
    }
    workgroupBarrier();
}

@compute @workgroup_size(128)
fn attention_flash_coopmat(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let blocks = (S + ROWS - 1u) / ROWS;
    let flat = group.y * groups.x + group.x;
    let head = flat / blocks;
    if head >= HEADS {
        return;
    }
    // Under a causal mask the last rows see most: they begin first.
    let first_row = select(flat % blocks, blocks - 1u - flat % blocks, CAUSAL) * ROWS;
    // Keys that the last row sees.
    var last = T;
    if CAUSAL {
        last = min(T, max(min(first_row + ROWS, S) + T, S) - S);
    }
#when OWN_LENGTHS     last = min(last, lengths[head / ITEM_HEADS]);
    let steps = (last + KEYS - 1u) / KEYS;
    let keys = head / GROUP;
    let subgroup = thread / 32u;
    let row = thread / 2u;
    let query = first_row + row;
    let seen = seen_keys(head, min(query, S - 1u));
    let half = Half(row, thread % 2u, query, seen, seen_keys(head, first_row), inverseSqrt(f32(D)) * LOG2_E);
    // Where the subgroup's rows begin.
    let strip = subgroup * 16u * LONG;
    let light = subgroup * 16u * LIGHT;
    var top = HIDDEN;
    var sum = 0.0;

    if thread == 0u {
        atomicStore(&raises[0], 0u);
    }
    for (var i = 0u; i < ROWS * EIGHTS / 128u; i++) {
        let e = i * 128u + thread;
        put_eight(e / EIGHTS * ROW + e % EIGHTS, eight_of_q(head, first_row + e / EIGHTS, e % EIGHTS * 8u));
    }
    workgroupBarrier();
    let q0 = coopLoadT<coop_mat16x16<f16, A>>(&stage[(subgroup * 16u * ROW + 0u) * PIECES], ROW * PIECES);
#when SQUARE1     let q1 = coopLoadT<coop_mat16x16<f16, A>>(&stage[(subgroup * 16u * ROW + 2u) * PIECES], ROW * PIECES);
#when SQUARE2     let q2 = coopLoadT<coop_mat16x16<f16, A>>(&stage[(subgroup * 16u * ROW + 4u) * PIECES], ROW * PIECES);
#when SQUARE3     let q3 = coopLoadT<coop_mat16x16<f16, A>>(&stage[(subgroup * 16u * ROW + 6u) * PIECES], ROW * PIECES);
#when SQUARE4     let q4 = coopLoadT<coop_mat16x16<f16, A>>(&stage[(subgroup * 16u * ROW + 8u) * PIECES], ROW * PIECES);
#when SQUARE5     let q5 = coopLoadT<coop_mat16x16<f16, A>>(&stage[(subgroup * 16u * ROW + 10u) * PIECES], ROW * PIECES);
#when SQUARE6     let q6 = coopLoadT<coop_mat16x16<f16, A>>(&stage[(subgroup * 16u * ROW + 12u) * PIECES], ROW * PIECES);
#when SQUARE7     let q7 = coopLoadT<coop_mat16x16<f16, A>>(&stage[(subgroup * 16u * ROW + 14u) * PIECES], ROW * PIECES);
    var o0 = coop_mat16x16<f32, C>();
#when SQUARE1     var o1 = coop_mat16x16<f32, C>();
#when SQUARE2     var o2 = coop_mat16x16<f32, C>();
#when SQUARE3     var o3 = coop_mat16x16<f32, C>();
#when SQUARE4     var o4 = coop_mat16x16<f32, C>();
#when SQUARE5     var o5 = coop_mat16x16<f32, C>();
#when SQUARE6     var o6 = coop_mat16x16<f32, C>();
#when SQUARE7     var o7 = coop_mat16x16<f32, C>();
    workgroupBarrier();
    put_staged(0u, thread + 0u, key_eight(keys, 0u, thread + 0u));
#when FETCH1     put_staged(0u, thread + 128u, key_eight(keys, 0u, thread + 128u));
#when FETCH2     put_staged(0u, thread + 256u, key_eight(keys, 0u, thread + 256u));
#when FETCH3     put_staged(0u, thread + 384u, key_eight(keys, 0u, thread + 384u));
    var next0 = value_eight(keys, 0u, thread + 0u);
#when FETCH1     var next1 = value_eight(keys, 0u, thread + 128u);
#when FETCH2     var next2 = value_eight(keys, 0u, thread + 256u);
#when FETCH3     var next3 = value_eight(keys, 0u, thread + 384u);
    workgroupBarrier();

    for (var t = 0u; t < steps; t++) {
        let key = t * KEYS;
        for (var i = 0u; i < KEYS / 32u; i++) {
            var left = coop_mat16x16<f32, C>();
            var right = coop_mat16x16<f32, C>();
            let k00 = coopLoad<coop_mat16x16<f16, B>>(&stage[((i * 32u + 0u) * ROW + 0u) * PIECES], ROW * PIECES);
            let k01 = coopLoad<coop_mat16x16<f16, B>>(&stage[((i * 32u + 16u) * ROW + 0u) * PIECES], ROW * PIECES);
            left = coopMultiplyAdd(q0, k00, left);
            right = coopMultiplyAdd(q0, k01, right);
#when SQUARE1             let k10 = coopLoad<coop_mat16x16<f16, B>>(&stage[((i * 32u + 0u) * ROW + 2u) * PIECES], ROW * PIECES);
#when SQUARE1             let k11 = coopLoad<coop_mat16x16<f16, B>>(&stage[((i * 32u + 16u) * ROW + 2u) * PIECES], ROW * PIECES);
#when SQUARE1             left = coopMultiplyAdd(q1, k10, left);
#when SQUARE1             right = coopMultiplyAdd(q1, k11, right);
#when SQUARE2             let k20 = coopLoad<coop_mat16x16<f16, B>>(&stage[((i * 32u + 0u) * ROW + 4u) * PIECES], ROW * PIECES);
#when SQUARE2             let k21 = coopLoad<coop_mat16x16<f16, B>>(&stage[((i * 32u + 16u) * ROW + 4u) * PIECES], ROW * PIECES);
#when SQUARE2             left = coopMultiplyAdd(q2, k20, left);
#when SQUARE2             right = coopMultiplyAdd(q2, k21, right);
#when SQUARE3             let k30 = coopLoad<coop_mat16x16<f16, B>>(&stage[((i * 32u + 0u) * ROW + 6u) * PIECES], ROW * PIECES);
#when SQUARE3             let k31 = coopLoad<coop_mat16x16<f16, B>>(&stage[((i * 32u + 16u) * ROW + 6u) * PIECES], ROW * PIECES);
#when SQUARE3             left = coopMultiplyAdd(q3, k30, left);
#when SQUARE3             right = coopMultiplyAdd(q3, k31, right);
#when SQUARE4             let k40 = coopLoad<coop_mat16x16<f16, B>>(&stage[((i * 32u + 0u) * ROW + 8u) * PIECES], ROW * PIECES);
#when SQUARE4             let k41 = coopLoad<coop_mat16x16<f16, B>>(&stage[((i * 32u + 16u) * ROW + 8u) * PIECES], ROW * PIECES);
#when SQUARE4             left = coopMultiplyAdd(q4, k40, left);
#when SQUARE4             right = coopMultiplyAdd(q4, k41, right);
#when SQUARE5             let k50 = coopLoad<coop_mat16x16<f16, B>>(&stage[((i * 32u + 0u) * ROW + 10u) * PIECES], ROW * PIECES);
#when SQUARE5             let k51 = coopLoad<coop_mat16x16<f16, B>>(&stage[((i * 32u + 16u) * ROW + 10u) * PIECES], ROW * PIECES);
#when SQUARE5             left = coopMultiplyAdd(q5, k50, left);
#when SQUARE5             right = coopMultiplyAdd(q5, k51, right);
#when SQUARE6             let k60 = coopLoad<coop_mat16x16<f16, B>>(&stage[((i * 32u + 0u) * ROW + 12u) * PIECES], ROW * PIECES);
#when SQUARE6             let k61 = coopLoad<coop_mat16x16<f16, B>>(&stage[((i * 32u + 16u) * ROW + 12u) * PIECES], ROW * PIECES);
#when SQUARE6             left = coopMultiplyAdd(q6, k60, left);
#when SQUARE6             right = coopMultiplyAdd(q6, k61, right);
#when SQUARE7             let k70 = coopLoad<coop_mat16x16<f16, B>>(&stage[((i * 32u + 0u) * ROW + 14u) * PIECES], ROW * PIECES);
#when SQUARE7             let k71 = coopLoad<coop_mat16x16<f16, B>>(&stage[((i * 32u + 16u) * ROW + 14u) * PIECES], ROW * PIECES);
#when SQUARE7             left = coopMultiplyAdd(q7, k70, left);
#when SQUARE7             right = coopMultiplyAdd(q7, k71, right);
            coopStoreT(left, &scores[strip + i * 8u], LONG);
            coopStoreT(right, &scores[strip + i * 8u + 4u], LONG);
        }
        workgroupBarrier();
        put_staged(VALUES, thread + 0u, next0);
#when FETCH1         put_staged(VALUES, thread + 128u, next1);
#when FETCH2         put_staged(VALUES, thread + 256u, next2);
#when FETCH3         put_staged(VALUES, thread + 384u, next3);
        if t + 1u < steps {
            next0 = key_eight(keys, key + KEYS, thread + 0u);
#when FETCH1             next1 = key_eight(keys, key + KEYS, thread + 128u);
#when FETCH2             next2 = key_eight(keys, key + KEYS, thread + 256u);
#when FETCH3             next3 = key_eight(keys, key + KEYS, thread + 384u);
        }
        var found = weigh(half, key, top);
        if found.x > top + GROWTH {
            atomicStore(&raises[0], select(1u, 2u, t > 0u));
        }
        if t + 1u < steps {
            put_staged(0u, thread + 0u, next0);
#when FETCH1             put_staged(0u, thread + 128u, next1);
#when FETCH2             put_staged(0u, thread + 256u, next2);
#when FETCH3             put_staged(0u, thread + 384u, next3);
        }
        // Also the barrier behind weights, values and next keys.
        let raised = workgroupUniformLoad(&raises[0]);
        if raised != 0u {
            if thread == 0u {
                atomicStore(&raises[0], 0u);
            }
            workgroupBarrier();
            let before = top;
            // Of the row's two threads.
            top = max(top, max(found.x, subgroupShuffleXor(found.x, 1u)));
            let shrink = exp2(before - top);
            found = weigh(half, key, top);
            sum *= shrink;
            if raised == 2u {
                workgroupBarrier();
                coopStoreT(o0, &scores[strip], LONG);
#when SQUARE1                 coopStoreT(o1, &scores[strip + 4u], LONG);
                scale_down(half, shrink);
                o0 = coopLoadT<coop_mat16x16<f32, C>>(&scores[strip], LONG);
#when SQUARE1                 o1 = coopLoadT<coop_mat16x16<f32, C>>(&scores[strip + 4u], LONG);
                workgroupBarrier();
#when SQUARE2                 coopStoreT(o2, &scores[strip], LONG);
#when SQUARE3                 coopStoreT(o3, &scores[strip + 4u], LONG);
#when SQUARE2                 scale_down(half, shrink);
#when SQUARE2                 o2 = coopLoadT<coop_mat16x16<f32, C>>(&scores[strip], LONG);
#when SQUARE3                 o3 = coopLoadT<coop_mat16x16<f32, C>>(&scores[strip + 4u], LONG);
#when SQUARE2                 workgroupBarrier();
#when SQUARE4                 coopStoreT(o4, &scores[strip], LONG);
#when SQUARE5                 coopStoreT(o5, &scores[strip + 4u], LONG);
#when SQUARE4                 scale_down(half, shrink);
#when SQUARE4                 o4 = coopLoadT<coop_mat16x16<f32, C>>(&scores[strip], LONG);
#when SQUARE5                 o5 = coopLoadT<coop_mat16x16<f32, C>>(&scores[strip + 4u], LONG);
#when SQUARE4                 workgroupBarrier();
#when SQUARE6                 coopStoreT(o6, &scores[strip], LONG);
#when SQUARE7                 coopStoreT(o7, &scores[strip + 4u], LONG);
#when SQUARE6                 scale_down(half, shrink);
#when SQUARE6                 o6 = coopLoadT<coop_mat16x16<f32, C>>(&scores[strip], LONG);
#when SQUARE7                 o7 = coopLoadT<coop_mat16x16<f32, C>>(&scores[strip + 4u], LONG);
#when SQUARE6                 workgroupBarrier();
            }
            workgroupBarrier();
        }
        sum += found.y;
        if t + 1u < steps {
            next0 = value_eight(keys, key + KEYS, thread + 0u);
#when FETCH1             next1 = value_eight(keys, key + KEYS, thread + 128u);
#when FETCH2             next2 = value_eight(keys, key + KEYS, thread + 256u);
#when FETCH3             next3 = value_eight(keys, key + KEYS, thread + 384u);
        }
        for (var j = 0u; j < KEYS / 16u; j++) {
            let p = coopLoadT<coop_mat16x16<f16, A>>(&weights[light + j * 4u], LIGHT);
            let v0 = coopLoadT<coop_mat16x16<f16, B>>(&stage[(VALUES + j * 16u * ROW + 0u) * PIECES], ROW * PIECES);
#when SQUARE1             let v1 = coopLoadT<coop_mat16x16<f16, B>>(&stage[(VALUES + j * 16u * ROW + 2u) * PIECES], ROW * PIECES);
#when SQUARE2             let v2 = coopLoadT<coop_mat16x16<f16, B>>(&stage[(VALUES + j * 16u * ROW + 4u) * PIECES], ROW * PIECES);
#when SQUARE3             let v3 = coopLoadT<coop_mat16x16<f16, B>>(&stage[(VALUES + j * 16u * ROW + 6u) * PIECES], ROW * PIECES);
#when SQUARE4             let v4 = coopLoadT<coop_mat16x16<f16, B>>(&stage[(VALUES + j * 16u * ROW + 8u) * PIECES], ROW * PIECES);
#when SQUARE5             let v5 = coopLoadT<coop_mat16x16<f16, B>>(&stage[(VALUES + j * 16u * ROW + 10u) * PIECES], ROW * PIECES);
#when SQUARE6             let v6 = coopLoadT<coop_mat16x16<f16, B>>(&stage[(VALUES + j * 16u * ROW + 12u) * PIECES], ROW * PIECES);
#when SQUARE7             let v7 = coopLoadT<coop_mat16x16<f16, B>>(&stage[(VALUES + j * 16u * ROW + 14u) * PIECES], ROW * PIECES);
            o0 = coopMultiplyAdd(p, v0, o0);
#when SQUARE1             o1 = coopMultiplyAdd(p, v1, o1);
#when SQUARE2             o2 = coopMultiplyAdd(p, v2, o2);
#when SQUARE3             o3 = coopMultiplyAdd(p, v3, o3);
#when SQUARE4             o4 = coopMultiplyAdd(p, v4, o4);
#when SQUARE5             o5 = coopMultiplyAdd(p, v5, o5);
#when SQUARE6             o6 = coopMultiplyAdd(p, v6, o6);
#when SQUARE7             o7 = coopMultiplyAdd(p, v7, o7);
        }
    }

    let total = sum + subgroupShuffleXor(sum, 1u);
    // A row that sees no key has sum zero and output zero.
    let share = select(0.0, 1.0 / total, total > 0.0);
    coopStoreT(o0, &scores[strip], LONG);
#when SQUARE1     coopStoreT(o1, &scores[strip + 4u], LONG);
    write_squares(half, head, 0u, share);
#when SQUARE2     coopStoreT(o2, &scores[strip], LONG);
#when SQUARE3     coopStoreT(o3, &scores[strip + 4u], LONG);
#when SQUARE2     write_squares(half, head, 32u, share);
#when SQUARE4     coopStoreT(o4, &scores[strip], LONG);
#when SQUARE5     coopStoreT(o5, &scores[strip + 4u], LONG);
#when SQUARE4     write_squares(half, head, 64u, share);
#when SQUARE6     coopStoreT(o6, &scores[strip], LONG);
#when SQUARE7     coopStoreT(o7, &scores[strip + 4u], LONG);
#when SQUARE6     write_squares(half, head, 96u, share);
}
