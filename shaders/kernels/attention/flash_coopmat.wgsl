enable wgpu_cooperative_matrix;
// Scaled dot-product attention, forward, on matrix units: against `flash`, a subgroup multiplies 16×16 matrices of f16 as a
// whole and sums in f32. The definition is in core/src/suite/workloads/attention. Cooperative matrices are an extension of
// native wgpu; shaders/src/matrix.rs spells them for browsers.
//
// Each pair of subgroups of 32 owns 32 query rows: of a tile of 32 keys one multiplies the first half and one the second, and of values
// the first columns and the others, so that what is loaded is multiplied twice. Four pairs walk together over the keys. Queries, and
// sums of values, stay in matrices for the whole kernel. A matrix does not tell which thread has which element, so scores pass through
// workgroup memory to become weights, two threads a row. Keys and values are on their way while those before are multiplied.
//
// By TFLOP/s on an H200 at 1×16×4096×128, natively and in Chromium: four subgroups of 16 rows, whose sums a step may scale down, 84 and
// 124; maxima before the main loop 113 and 137; eight subgroups 170 and 195; pairs of them 246 and 199, by `run` 237 and 195.
//
// Weights are taken against a row's maximum over the first tile, with room for what exceeds it: f16 and f32 hold all of them as long as
// no score of the row lies higher by more than 2 to the 21. If one does, which is rare, a loop over all keys finds the true maxima and the
// work is done again. A step has two barriers and never touches the sums.
//
// The validator takes a call's result for one that may differ within a workgroup: what decides how often matrices are
// multiplied is written out. Loops have the one form that browsers can prove to end. The T in the names of loads and stores means rows
// that lie one after the other; keys are taken as columns. There are matrices for 16 columns of head_dim each, as many as there are such.

#import attention/common
#import attention/eights
#import attention/stage

// The weight of the maximum, and the highest that f16 holds, as exponents of two.
const ROOM: f32 = 6.0;
const GROWTH: f32 = 15.0;
// Of keys, then of values.
const TILE: u32 = KEYS;
const VALUES: u32 = KEYS * ROW;
// Queries pass through the same place, 32 columns at a time.
const QUERY_ROW: u32 = 5u;
const STAGED: u32 = max(2u * KEYS * ROW, ROWS * QUERY_ROW);

var<workgroup> scores: array<vec4<f32>, ROWS * LONG>;
var<workgroup> weights: array<vec4<f16>, ROWS * LIGHT>;
// Whether a weight was too high. Atomic, since texts with matrices declare Vulkan's memory model, by which a plain variable that a thread
// did not write itself need not be looked at: naga marks no access as one that others share. The first of four: matrices must begin at
// multiples of 16 bytes, of which drivers are sure only where nothing in workgroup memory is smaller.
var<workgroup> exceeded: array<atomic<u32>, 4>;

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
            let score = scores_of(half, i, key);
            let weight = select(exp2(score - top), vec4<f32>(), score == vec4<f32>(HIDDEN));
            highest = max(highest, max(max(score.x, score.y), max(score.z, score.w)));
            sum += weight;
            weights[half.row * LIGHT + i * 2u + half.odd] = vec4<f16>(weight);
        }
    }
    return vec2<f32>(highest, sum.x + sum.y + sum.z + sum.w);
}

// The highest score of a tile.
fn highest_of(half: Half, key: u32) -> f32 {
    var highest = HIDDEN;
    for (var i = 0u; i < KEYS / 8u; i++) {
        let score = scores_of(half, i, key);
        highest = max(highest, max(max(score.x, score.y), max(score.z, score.w)));
    }
    return highest;
}

fn scores_of(half: Half, i: u32, key: u32) -> vec4<f32> {
    let raw = scores[half.row * LONG + i * 2u + half.odd];
    let first = key + (i * 2u + half.odd) * 4u;
    return vec4<f32>(
        score_of(half, raw.x, first),
        score_of(half, raw.y, first + 1u),
        score_of(half, raw.z, first + 2u),
        score_of(half, raw.w, first + 3u),
    );
}

fn score_of(half: Half, raw: f32, key: u32) -> f32 {
    if key >= half.seen {
        return HIDDEN;
    }
    return biased(raw * half.scale, half.query, key, LOG2_E);
}

// Write a square of either half of the columns, which lie where the scores do, as elements of the output.
fn write_squares(half: Half, head: u32, col: u32, share: f32) {
    workgroupBarrier();
    for (var i = 0u; i < 2u; i++) {
        let at = half.row * LONG + half.odd * 4u + i * 2u;
        put_out(head, half.query, half.odd * (WIDTH / 2u) + col + i * 8u, scores[at] * share, scores[at + 1u] * share);
    }
    workgroupBarrier();
}

@compute @workgroup_size(THREADS)
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
#if OWN_LENGTHS
    last = min(last, lengths[head / ITEM_HEADS]);
#endif
    let steps = (last + KEYS - 1u) / KEYS;
    let keys = head / GROUP;
    let end = keys_of(head);
    let row = thread / 2u;
    let query = first_row + row;
    let seen = seen_keys(head, min(query, S - 1u));
    let half = Half(row, thread % 2u, query, seen, seen_keys(head, first_row), inverseSqrt(f32(D)) * LOG2_E);
    // Where the pair's rows begin, in scores and in weights; which half of keys and of columns is the subgroup's.
    let strip = thread / 64u * 32u * LONG;
    let light = thread / 64u * 32u * LIGHT;
    let side = thread / 32u % 2u;

    if thread == 0u {
        atomicStore(&exceeded[0], 0u);
    }
    for (var i = 0u; i < ROWS * 4u / THREADS; i++) {
        let e = i * THREADS + thread;
        put_eight(e / 4u * QUERY_ROW + e % 4u, eight_of_q(head, first_row + e / 4u, 0u + e % 4u * 8u));
    }
    workgroupBarrier();
    let q00 = coopLoadT<coop_mat16x16<f16, A>>(&stage[((thread / 64u * 32u + 0u) * QUERY_ROW + 0u) * PIECES], QUERY_ROW * PIECES);
    let q01 = coopLoadT<coop_mat16x16<f16, A>>(&stage[((thread / 64u * 32u + 16u) * QUERY_ROW + 0u) * PIECES], QUERY_ROW * PIECES);
#if SQUARE1
    let q10 = coopLoadT<coop_mat16x16<f16, A>>(&stage[((thread / 64u * 32u + 0u) * QUERY_ROW + 2u) * PIECES], QUERY_ROW * PIECES);
    let q11 = coopLoadT<coop_mat16x16<f16, A>>(&stage[((thread / 64u * 32u + 16u) * QUERY_ROW + 2u) * PIECES], QUERY_ROW * PIECES);
#endif
    workgroupBarrier();
#if SQUARE2
    for (var i = 0u; i < ROWS * 4u / THREADS; i++) {
        let e = i * THREADS + thread;
        put_eight(e / 4u * QUERY_ROW + e % 4u, eight_of_q(head, first_row + e / 4u, 32u + e % 4u * 8u));
    }
    workgroupBarrier();
    let q20 = coopLoadT<coop_mat16x16<f16, A>>(&stage[((thread / 64u * 32u + 0u) * QUERY_ROW + 0u) * PIECES], QUERY_ROW * PIECES);
    let q21 = coopLoadT<coop_mat16x16<f16, A>>(&stage[((thread / 64u * 32u + 16u) * QUERY_ROW + 0u) * PIECES], QUERY_ROW * PIECES);
#endif
#if SQUARE3
    let q30 = coopLoadT<coop_mat16x16<f16, A>>(&stage[((thread / 64u * 32u + 0u) * QUERY_ROW + 2u) * PIECES], QUERY_ROW * PIECES);
    let q31 = coopLoadT<coop_mat16x16<f16, A>>(&stage[((thread / 64u * 32u + 16u) * QUERY_ROW + 2u) * PIECES], QUERY_ROW * PIECES);
#endif
#if SQUARE2
    workgroupBarrier();
#endif
#if SQUARE4
    for (var i = 0u; i < ROWS * 4u / THREADS; i++) {
        let e = i * THREADS + thread;
        put_eight(e / 4u * QUERY_ROW + e % 4u, eight_of_q(head, first_row + e / 4u, 64u + e % 4u * 8u));
    }
    workgroupBarrier();
    let q40 = coopLoadT<coop_mat16x16<f16, A>>(&stage[((thread / 64u * 32u + 0u) * QUERY_ROW + 0u) * PIECES], QUERY_ROW * PIECES);
    let q41 = coopLoadT<coop_mat16x16<f16, A>>(&stage[((thread / 64u * 32u + 16u) * QUERY_ROW + 0u) * PIECES], QUERY_ROW * PIECES);
#endif
#if SQUARE5
    let q50 = coopLoadT<coop_mat16x16<f16, A>>(&stage[((thread / 64u * 32u + 0u) * QUERY_ROW + 2u) * PIECES], QUERY_ROW * PIECES);
    let q51 = coopLoadT<coop_mat16x16<f16, A>>(&stage[((thread / 64u * 32u + 16u) * QUERY_ROW + 2u) * PIECES], QUERY_ROW * PIECES);
#endif
#if SQUARE4
    workgroupBarrier();
#endif
#if SQUARE6
    for (var i = 0u; i < ROWS * 4u / THREADS; i++) {
        let e = i * THREADS + thread;
        put_eight(e / 4u * QUERY_ROW + e % 4u, eight_of_q(head, first_row + e / 4u, 96u + e % 4u * 8u));
    }
    workgroupBarrier();
    let q60 = coopLoadT<coop_mat16x16<f16, A>>(&stage[((thread / 64u * 32u + 0u) * QUERY_ROW + 0u) * PIECES], QUERY_ROW * PIECES);
    let q61 = coopLoadT<coop_mat16x16<f16, A>>(&stage[((thread / 64u * 32u + 16u) * QUERY_ROW + 0u) * PIECES], QUERY_ROW * PIECES);
#endif
#if SQUARE7
    let q70 = coopLoadT<coop_mat16x16<f16, A>>(&stage[((thread / 64u * 32u + 0u) * QUERY_ROW + 2u) * PIECES], QUERY_ROW * PIECES);
    let q71 = coopLoadT<coop_mat16x16<f16, A>>(&stage[((thread / 64u * 32u + 16u) * QUERY_ROW + 2u) * PIECES], QUERY_ROW * PIECES);
#endif
#if SQUARE6
    workgroupBarrier();
#endif
    var o00 = coop_mat16x16<f32, C>();
    var o10 = coop_mat16x16<f32, C>();
#if COLUMN1
    var o01 = coop_mat16x16<f32, C>();
    var o11 = coop_mat16x16<f32, C>();
#endif
#if COLUMN2
    var o02 = coop_mat16x16<f32, C>();
    var o12 = coop_mat16x16<f32, C>();
#endif
#if COLUMN3
    var o03 = coop_mat16x16<f32, C>();
    var o13 = coop_mat16x16<f32, C>();
#endif
    var sum = 0.0;
    // Tiles whose maxima are looked for.
    var scanned = min(steps, 1u);

    for (var attempt = 0u; attempt < 2u; attempt++) {
        var highest = HIDDEN;
        for (var t = 0u; t < scanned; t++) {
            workgroupBarrier();
            put_staged(0u, thread, key_eight(keys, t * KEYS, thread));
#if FETCH1
            put_staged(0u, thread + THREADS, key_eight(keys, t * KEYS, thread + THREADS));
#endif
            workgroupBarrier();
            var upper_first = coop_mat16x16<f32, C>();
            var lower_first = coop_mat16x16<f32, C>();
            let k_first0 = coopLoad<coop_mat16x16<f16, B>>(&stage[(side * 16u * ROW + 0u) * PIECES], ROW * PIECES);
            upper_first = coopMultiplyAdd(q00, k_first0, upper_first);
            lower_first = coopMultiplyAdd(q01, k_first0, lower_first);
#if SQUARE1
            let k_first1 = coopLoad<coop_mat16x16<f16, B>>(&stage[(side * 16u * ROW + 2u) * PIECES], ROW * PIECES);
            upper_first = coopMultiplyAdd(q10, k_first1, upper_first);
            lower_first = coopMultiplyAdd(q11, k_first1, lower_first);
#endif
#if SQUARE2
            let k_first2 = coopLoad<coop_mat16x16<f16, B>>(&stage[(side * 16u * ROW + 4u) * PIECES], ROW * PIECES);
            upper_first = coopMultiplyAdd(q20, k_first2, upper_first);
            lower_first = coopMultiplyAdd(q21, k_first2, lower_first);
#endif
#if SQUARE3
            let k_first3 = coopLoad<coop_mat16x16<f16, B>>(&stage[(side * 16u * ROW + 6u) * PIECES], ROW * PIECES);
            upper_first = coopMultiplyAdd(q30, k_first3, upper_first);
            lower_first = coopMultiplyAdd(q31, k_first3, lower_first);
#endif
#if SQUARE4
            let k_first4 = coopLoad<coop_mat16x16<f16, B>>(&stage[(side * 16u * ROW + 8u) * PIECES], ROW * PIECES);
            upper_first = coopMultiplyAdd(q40, k_first4, upper_first);
            lower_first = coopMultiplyAdd(q41, k_first4, lower_first);
#endif
#if SQUARE5
            let k_first5 = coopLoad<coop_mat16x16<f16, B>>(&stage[(side * 16u * ROW + 10u) * PIECES], ROW * PIECES);
            upper_first = coopMultiplyAdd(q50, k_first5, upper_first);
            lower_first = coopMultiplyAdd(q51, k_first5, lower_first);
#endif
#if SQUARE6
            let k_first6 = coopLoad<coop_mat16x16<f16, B>>(&stage[(side * 16u * ROW + 12u) * PIECES], ROW * PIECES);
            upper_first = coopMultiplyAdd(q60, k_first6, upper_first);
            lower_first = coopMultiplyAdd(q61, k_first6, lower_first);
#endif
#if SQUARE7
            let k_first7 = coopLoad<coop_mat16x16<f16, B>>(&stage[(side * 16u * ROW + 14u) * PIECES], ROW * PIECES);
            upper_first = coopMultiplyAdd(q70, k_first7, upper_first);
            lower_first = coopMultiplyAdd(q71, k_first7, lower_first);
#endif
            coopStoreT(upper_first, &scores[strip + side * 4u], LONG);
            coopStoreT(lower_first, &scores[strip + 16u * LONG + side * 4u], LONG);
            workgroupBarrier();
            highest = max(highest, highest_of(half, t * KEYS));
        }
        // Of the row's two threads.
        let top = max(highest, subgroupShuffleXor(highest, 1u)) + ROOM;
        var exceeds = false;
        sum = 0.0;
        o00 = coop_mat16x16<f32, C>();
        o10 = coop_mat16x16<f32, C>();
#if COLUMN1
        o01 = coop_mat16x16<f32, C>();
        o11 = coop_mat16x16<f32, C>();
#endif
#if COLUMN2
        o02 = coop_mat16x16<f32, C>();
        o12 = coop_mat16x16<f32, C>();
#endif
#if COLUMN3
        o03 = coop_mat16x16<f32, C>();
        o13 = coop_mat16x16<f32, C>();
#endif
        workgroupBarrier();
        put_staged(0u, thread, key_eight(keys, 0u, thread));
#if FETCH1
        put_staged(0u, thread + THREADS, key_eight(keys, 0u, thread + THREADS));
#endif
        var value0 = value_eight(keys, 0u, end, thread);
#if FETCH1
        var value1 = value_eight(keys, 0u, end, thread + THREADS);
#endif
        var key0 = Eight();
#if FETCH1
        var key1 = Eight();
#endif
        workgroupBarrier();

        for (var t = 0u; t < steps; t++) {
            if t + 1u < steps {
                key0 = key_eight(keys, (t + 1u) * KEYS, thread);
#if FETCH1
                key1 = key_eight(keys, (t + 1u) * KEYS, thread + THREADS);
#endif
            }
            var upper = coop_mat16x16<f32, C>();
            var lower = coop_mat16x16<f32, C>();
            let k0 = coopLoad<coop_mat16x16<f16, B>>(&stage[(side * 16u * ROW + 0u) * PIECES], ROW * PIECES);
            upper = coopMultiplyAdd(q00, k0, upper);
            lower = coopMultiplyAdd(q01, k0, lower);
#if SQUARE1
            let k1 = coopLoad<coop_mat16x16<f16, B>>(&stage[(side * 16u * ROW + 2u) * PIECES], ROW * PIECES);
            upper = coopMultiplyAdd(q10, k1, upper);
            lower = coopMultiplyAdd(q11, k1, lower);
#endif
#if SQUARE2
            let k2 = coopLoad<coop_mat16x16<f16, B>>(&stage[(side * 16u * ROW + 4u) * PIECES], ROW * PIECES);
            upper = coopMultiplyAdd(q20, k2, upper);
            lower = coopMultiplyAdd(q21, k2, lower);
#endif
#if SQUARE3
            let k3 = coopLoad<coop_mat16x16<f16, B>>(&stage[(side * 16u * ROW + 6u) * PIECES], ROW * PIECES);
            upper = coopMultiplyAdd(q30, k3, upper);
            lower = coopMultiplyAdd(q31, k3, lower);
#endif
#if SQUARE4
            let k4 = coopLoad<coop_mat16x16<f16, B>>(&stage[(side * 16u * ROW + 8u) * PIECES], ROW * PIECES);
            upper = coopMultiplyAdd(q40, k4, upper);
            lower = coopMultiplyAdd(q41, k4, lower);
#endif
#if SQUARE5
            let k5 = coopLoad<coop_mat16x16<f16, B>>(&stage[(side * 16u * ROW + 10u) * PIECES], ROW * PIECES);
            upper = coopMultiplyAdd(q50, k5, upper);
            lower = coopMultiplyAdd(q51, k5, lower);
#endif
#if SQUARE6
            let k6 = coopLoad<coop_mat16x16<f16, B>>(&stage[(side * 16u * ROW + 12u) * PIECES], ROW * PIECES);
            upper = coopMultiplyAdd(q60, k6, upper);
            lower = coopMultiplyAdd(q61, k6, lower);
#endif
#if SQUARE7
            let k7 = coopLoad<coop_mat16x16<f16, B>>(&stage[(side * 16u * ROW + 14u) * PIECES], ROW * PIECES);
            upper = coopMultiplyAdd(q70, k7, upper);
            lower = coopMultiplyAdd(q71, k7, lower);
#endif
            coopStoreT(upper, &scores[strip + side * 4u], LONG);
            coopStoreT(lower, &scores[strip + 16u * LONG + side * 4u], LONG);
            workgroupBarrier();
            put_staged(VALUES, thread, value0);
#if FETCH1
            put_staged(VALUES, thread + THREADS, value1);
#endif
            let found = weigh(half, t * KEYS, top);
            exceeds = exceeds || found.x > top + GROWTH;
            sum += found.y;
            put_staged(0u, thread, key0);
#if FETCH1
            put_staged(0u, thread + THREADS, key1);
#endif
            workgroupBarrier();
            if t + 1u < steps {
                value0 = value_eight(keys, (t + 1u) * KEYS, end, thread);
#if FETCH1
                value1 = value_eight(keys, (t + 1u) * KEYS, end, thread + THREADS);
#endif
            }
            let p00 = coopLoadT<coop_mat16x16<f16, A>>(&weights[light + 0u * LIGHT + 0u], LIGHT);
            let p10 = coopLoadT<coop_mat16x16<f16, A>>(&weights[light + 16u * LIGHT + 0u], LIGHT);
            let v00 = coopLoadT<coop_mat16x16<f16, B>>(&stage[(VALUES + 0u * ROW + side * (EIGHTS / 2u) + 0u) * PIECES], ROW * PIECES);
#if COLUMN1
            let v01 = coopLoadT<coop_mat16x16<f16, B>>(&stage[(VALUES + 0u * ROW + side * (EIGHTS / 2u) + 2u) * PIECES], ROW * PIECES);
#endif
#if COLUMN2
            let v02 = coopLoadT<coop_mat16x16<f16, B>>(&stage[(VALUES + 0u * ROW + side * (EIGHTS / 2u) + 4u) * PIECES], ROW * PIECES);
#endif
#if COLUMN3
            let v03 = coopLoadT<coop_mat16x16<f16, B>>(&stage[(VALUES + 0u * ROW + side * (EIGHTS / 2u) + 6u) * PIECES], ROW * PIECES);
#endif
            o00 = coopMultiplyAdd(p00, v00, o00);
            o10 = coopMultiplyAdd(p10, v00, o10);
#if COLUMN1
            o01 = coopMultiplyAdd(p00, v01, o01);
            o11 = coopMultiplyAdd(p10, v01, o11);
#endif
#if COLUMN2
            o02 = coopMultiplyAdd(p00, v02, o02);
            o12 = coopMultiplyAdd(p10, v02, o12);
#endif
#if COLUMN3
            o03 = coopMultiplyAdd(p00, v03, o03);
            o13 = coopMultiplyAdd(p10, v03, o13);
#endif
            let p01 = coopLoadT<coop_mat16x16<f16, A>>(&weights[light + 0u * LIGHT + 4u], LIGHT);
            let p11 = coopLoadT<coop_mat16x16<f16, A>>(&weights[light + 16u * LIGHT + 4u], LIGHT);
            let v10 = coopLoadT<coop_mat16x16<f16, B>>(&stage[(VALUES + 16u * ROW + side * (EIGHTS / 2u) + 0u) * PIECES], ROW * PIECES);
#if COLUMN1
            let v11 = coopLoadT<coop_mat16x16<f16, B>>(&stage[(VALUES + 16u * ROW + side * (EIGHTS / 2u) + 2u) * PIECES], ROW * PIECES);
#endif
#if COLUMN2
            let v12 = coopLoadT<coop_mat16x16<f16, B>>(&stage[(VALUES + 16u * ROW + side * (EIGHTS / 2u) + 4u) * PIECES], ROW * PIECES);
#endif
#if COLUMN3
            let v13 = coopLoadT<coop_mat16x16<f16, B>>(&stage[(VALUES + 16u * ROW + side * (EIGHTS / 2u) + 6u) * PIECES], ROW * PIECES);
#endif
            o00 = coopMultiplyAdd(p01, v10, o00);
            o10 = coopMultiplyAdd(p11, v10, o10);
#if COLUMN1
            o01 = coopMultiplyAdd(p01, v11, o01);
            o11 = coopMultiplyAdd(p11, v11, o11);
#endif
#if COLUMN2
            o02 = coopMultiplyAdd(p01, v12, o02);
            o12 = coopMultiplyAdd(p11, v12, o12);
#endif
#if COLUMN3
            o03 = coopMultiplyAdd(p01, v13, o03);
            o13 = coopMultiplyAdd(p11, v13, o13);
#endif
        }

        if exceeds {
            atomicStore(&exceeded[0], 1u);
        }
        if workgroupUniformLoad(&exceeded[0]) == 0u {
            break;
        }
        scanned = steps;
    }

    let total = sum + subgroupShuffleXor(sum, 1u);
    // A row that sees no key has sum zero and output zero.
    let share = select(1.0 / total, 0.0, total == 0.0);
    coopStoreT(o00, &scores[strip + 0u * LONG + side * 4u], LONG);
    coopStoreT(o10, &scores[strip + 16u * LONG + side * 4u], LONG);
    write_squares(half, head, 0u, share);
#if COLUMN1
    coopStoreT(o01, &scores[strip + 0u * LONG + side * 4u], LONG);
    coopStoreT(o11, &scores[strip + 16u * LONG + side * 4u], LONG);
    write_squares(half, head, 16u, share);
#endif
#if COLUMN2
    coopStoreT(o02, &scores[strip + 0u * LONG + side * 4u], LONG);
    coopStoreT(o12, &scores[strip + 16u * LONG + side * 4u], LONG);
    write_squares(half, head, 32u, share);
#endif
#if COLUMN3
    coopStoreT(o03, &scores[strip + 0u * LONG + side * 4u], LONG);
    coopStoreT(o13, &scores[strip + 16u * LONG + side * 4u], LONG);
    write_squares(half, head, 48u, share);
#endif
}
