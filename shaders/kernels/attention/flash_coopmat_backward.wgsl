enable wgpu_cooperative_matrix;
// Scaled dot-product attention, backward, on matrix units: against `flash`, a subgroup multiplies 16×16 matrices of f16 as a whole and
// sums in f32. The definition is in core/src/suite/workloads/attention; what is known of such matrices stands in flash_coopmat.wgsl.
//
// As in `flash`, one kernel is both passes. A workgroup owns rows of one head, keys where OF_KEYS and queries otherwise, and walks over the
// other rows in tiles. Scores are products of own and other rows, slopes (gradients of the probabilities) those of own and other values:
// K, Q, V and dO where keys are owned, and Q, K, dO and V where queries are. From both come the probabilities and the gradients of the
// scores, which multiply the other values for dV, and the other rows for dK or dQ.
//
// Four subgroups share 32 own rows: of two the side is scores and of two slopes, and of either side each has half of a tile's rows. So a
// subgroup keeps one operand of 32 rows in matrices for the whole kernel, and what is loaded is multiplied twice. Then the sides are dV
// and dK, and the halves those of their columns. Where queries are owned there is one sum: the sides are halves of a tile's rows, and are
// added up at the end. A matrix does not tell which thread has which element, so scores and slopes pass through workgroup memory.
//
// A probability is at most one and rounds to f16 without harm. Gradients of scores stay without the scale, which would make small numbers
// smaller: sums get it.
//
// The validator takes a call's result for one that may differ within a workgroup: what decides how often matrices are multiplied is
// written out. There are matrices for 16 columns of head_dim each, as many as there are such, and for columns of a half.

#import attention/common
#import attention/eights_backward
#import attention/stage

// Rows of slopes stand behind those of scores, and gradients of scores behind probabilities, which only keys need.
const SLOPES: u32 = OWN * LONG;
const GRADIENTS: u32 = select(0u, OWN * LIGHT, OF_KEYS);
const VALUES: u32 = TILE * ROW;
// Own rows and values pass through the same place, 32 columns at a time.
const OWN_ROW: u32 = 5u;
const STAGED: u32 = max(2u * TILE * ROW, 2u * OWN * OWN_ROW);

var<workgroup> scores: array<vec4<f32>, 2u * OWN * LONG>;
var<workgroup> weights: array<vec4<f16>, GRADIENTS + OWN * LIGHT>;
// Where keys are owned, of a tile's queries the log-sum-exps, by which exponents to base two are, and then the deltas.
#if OF_KEYS
var<workgroup> numbers: array<vec4<f32>, TILE / 2u>;
#endif

fn number_of(head: u32, query: u32, is_delta: bool) -> f32 {
    if query >= S {
        return 0.0;
    }
    if is_delta {
        return delta[head * S + query];
    }
    return lse[head * S + query] * LOG2_E;
}

// What each of the first threads looks up of a tile of queries that begins with this one.
fn four_numbers(head: u32, first: u32, thread: u32) -> vec4<f32> {
    let query = first + thread % (TILE / 4u) * 4u;
    let is_delta = thread >= TILE / 4u;
    return vec4<f32>(
        number_of(head, query, is_delta),
        number_of(head, query + 1u, is_delta),
        number_of(head, query + 2u, is_delta),
        number_of(head, query + 3u, is_delta),
    );
}

// What a thread knows of its quarter of an own row.
struct Quarter {
    // Among the workgroup's and among all.
    row: u32,
    own: u32,
    // Its first vector of four in a tile; the other is the next but one.
    first: u32,
    // Keys that the head has, and the unit of scores as exponents of two.
    keys: u32,
    scale: f32,
    // Where queries are owned, the row's own.
    lse: f32,
    delta: f32,
}

// Make probabilities and gradients of scores of a tile that begins with this row.
fn weigh(quarter: Quarter, tile: u32, whole: bool) {
    for (var i = 0u; i < TILE / 16u; i++) {
        let x = quarter.first + i * 2u;
        let score = scores[quarter.row * LONG + x];
        let slope = scores[SLOPES + quarter.row * LONG + x];
#if OF_KEYS
        let top = numbers[x];
        let middle = numbers[TILE / 4u + x];
#else
        let top = vec4<f32>(quarter.lse);
        let middle = vec4<f32>(quarter.delta);
#endif
        var weight = vec4<f32>();
        if !BIASED && whole {
            weight = exp2(fma(score, vec4<f32>(quarter.scale), -top));
        } else {
            let other = tile + x * 4u;
            weight = vec4<f32>(
                weight_of(quarter, score.x, other, top.x),
                weight_of(quarter, score.y, other + 1u, top.y),
                weight_of(quarter, score.z, other + 2u, top.z),
                weight_of(quarter, score.w, other + 3u, top.w),
            );
        }
#if OF_KEYS
        weights[quarter.row * LIGHT + x] = vec4<f16>(weight);
#endif
        weights[GRADIENTS + quarter.row * LIGHT + x] = vec4<f16>(weight * (slope - middle));
    }
}

fn weight_of(quarter: Quarter, raw: f32, other: u32, top: f32) -> f32 {
    let query = select(quarter.own, other, OF_KEYS);
    let key = select(other, quarter.own, OF_KEYS);
    if query >= S || key >= min(visible(query), quarter.keys) {
        return 0.0;
    }
    let score = biased(raw * quarter.scale, query, key, LOG2_E);
    return select(exp2(score - top), 0.0, score == HIDDEN);
}

// Write a square of either half of the columns of either sum, which lie where scores and slopes do.
fn write_squares(head: u32, first: u32, col: u32, thread: u32) {
    workgroupBarrier();
    let scale = inverseSqrt(f32(D));
#if OF_KEYS
    let row = thread / 2u % OWN;
    let half = thread % 2u;
    for (var i = 0u; i < 2u; i++) {
        let at = thread / 2u * LONG + half * 4u + i * 2u;
        let column = half * (WIDTH / 2u) + col + i * 8u;
        if thread / 2u < OWN {
            put_value_gradient(head, first + row, column, scores[at], scores[at + 1u]);
        } else {
            put_gradient(head, first + row, column, scores[at] * scale, scores[at + 1u] * scale);
        }
    }
#else
    let at = thread / 4u * LONG + thread % 4u * 2u;
    let column = thread % 4u / 2u * (WIDTH / 2u) + col + thread % 2u * 8u;
    let low = (scores[at] + scores[SLOPES + at]) * scale;
    let high = (scores[at + 1u] + scores[SLOPES + at + 1u]) * scale;
    put_gradient(head, first + thread / 4u, column, low, high);
#endif
    workgroupBarrier();
}

@compute @workgroup_size(THREADS)
fn attention_flash_coopmat_backward(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let blocks = (OWN_LENGTH + OWN - 1u) / OWN;
    let flat = group.y * groups.x + group.x;
    // Of the owned rows, and the first of the others: where keys are owned, GROUP heads of queries share one of keys.
    let head = flat / blocks;
#if OF_KEYS
    let other_head = head * GROUP;
    if head >= HEADS / GROUP {
#else
    let other_head = head / GROUP;
    if head >= HEADS {
#endif
        return;
    }
    // Under a causal mask the last queries see most, and the first keys are seen by most: they begin first.
    let first = select(flat % blocks, blocks - 1u - flat % blocks, CAUSAL && !OF_KEYS) * OWN;
    var keys = T;
#if OWN_LENGTHS
#if OF_KEYS
    keys = min(T, lengths[head * GROUP / ITEM_HEADS]);
#else
    keys = min(T, lengths[head / ITEM_HEADS]);
#endif
#endif
    let own_end = select(OWN_LENGTH, keys, OF_KEYS);
    let other_end = select(keys, OTHER_LENGTH, OF_KEYS);
    // Tiles of a head, of which those are left out whose queries do not see the workgroup's keys or whose keys its queries do not see.
#if OF_KEYS
    let skipped = select(0u, (max(first + S, T) - T) / TILE, CAUSAL);
    let tiles = (S + TILE - 1u) / TILE - skipped;
#endif
    // Keys beyond the length are seen by no query.
#if OF_KEYS
    let steps = select(0u, tiles * GROUP, first < keys);
#else
    let last = select(keys, min(keys, max(min(first + OWN, S) + T, S) - S), CAUSAL);
    let steps = (last + TILE - 1u) / TILE;
#endif

    // Where the subgroup's rows begin in scores; its side and its half.
    let strip = thread / 128u * 32u;
    let side = thread / 64u % 2u;
    let half = thread / 32u % 2u;
    // Its operands of the sums: weights of its rows, and the columns that they multiply.
#if OF_KEYS
    let factors = side * GRADIENTS + strip * LIGHT;
    let added = (1u - side) * VALUES + half * (EIGHTS / 2u);
#else
    let factors = strip * LIGHT + side * 4u;
    let added = side * 16u * ROW + half * (EIGHTS / 2u);
#endif
    let row = thread / 2u % OWN;
    var quarter = Quarter(row, first + row, thread / (2u * OWN) * (TILE / 8u) + thread % 2u, keys, inverseSqrt(f32(D)) * LOG2_E, 0.0, 0.0);
#if !OF_KEYS
    quarter.lse = number_of(head, first + row, false);
    quarter.delta = number_of(head, first + row, true);
#endif

    put_eight(thread / 4u * OWN_ROW + thread % 4u, own_eight(head, first + thread / 4u, own_end, 0u + thread % 4u * 8u));
    put_eight((OWN + thread / 4u) * OWN_ROW + thread % 4u, own_value_eight(head, first + thread / 4u, own_end, 0u + thread % 4u * 8u));
    workgroupBarrier();
    let own00 = coopLoadT<coop_mat16x16<f16, A>>(&stage[((side * OWN + strip + 0u) * OWN_ROW + 0u) * PIECES], OWN_ROW * PIECES);
    let own01 = coopLoadT<coop_mat16x16<f16, A>>(&stage[((side * OWN + strip + 16u) * OWN_ROW + 0u) * PIECES], OWN_ROW * PIECES);
#if SQUARE1
    let own10 = coopLoadT<coop_mat16x16<f16, A>>(&stage[((side * OWN + strip + 0u) * OWN_ROW + 2u) * PIECES], OWN_ROW * PIECES);
    let own11 = coopLoadT<coop_mat16x16<f16, A>>(&stage[((side * OWN + strip + 16u) * OWN_ROW + 2u) * PIECES], OWN_ROW * PIECES);
#endif
    workgroupBarrier();
#if SQUARE2
    put_eight(thread / 4u * OWN_ROW + thread % 4u, own_eight(head, first + thread / 4u, own_end, 32u + thread % 4u * 8u));
    put_eight((OWN + thread / 4u) * OWN_ROW + thread % 4u, own_value_eight(head, first + thread / 4u, own_end, 32u + thread % 4u * 8u));
    workgroupBarrier();
    let own20 = coopLoadT<coop_mat16x16<f16, A>>(&stage[((side * OWN + strip + 0u) * OWN_ROW + 0u) * PIECES], OWN_ROW * PIECES);
    let own21 = coopLoadT<coop_mat16x16<f16, A>>(&stage[((side * OWN + strip + 16u) * OWN_ROW + 0u) * PIECES], OWN_ROW * PIECES);
#endif
#if SQUARE3
    let own30 = coopLoadT<coop_mat16x16<f16, A>>(&stage[((side * OWN + strip + 0u) * OWN_ROW + 2u) * PIECES], OWN_ROW * PIECES);
    let own31 = coopLoadT<coop_mat16x16<f16, A>>(&stage[((side * OWN + strip + 16u) * OWN_ROW + 2u) * PIECES], OWN_ROW * PIECES);
#endif
#if SQUARE2
    workgroupBarrier();
#endif
#if SQUARE4
    put_eight(thread / 4u * OWN_ROW + thread % 4u, own_eight(head, first + thread / 4u, own_end, 64u + thread % 4u * 8u));
    put_eight((OWN + thread / 4u) * OWN_ROW + thread % 4u, own_value_eight(head, first + thread / 4u, own_end, 64u + thread % 4u * 8u));
    workgroupBarrier();
    let own40 = coopLoadT<coop_mat16x16<f16, A>>(&stage[((side * OWN + strip + 0u) * OWN_ROW + 0u) * PIECES], OWN_ROW * PIECES);
    let own41 = coopLoadT<coop_mat16x16<f16, A>>(&stage[((side * OWN + strip + 16u) * OWN_ROW + 0u) * PIECES], OWN_ROW * PIECES);
#endif
#if SQUARE5
    let own50 = coopLoadT<coop_mat16x16<f16, A>>(&stage[((side * OWN + strip + 0u) * OWN_ROW + 2u) * PIECES], OWN_ROW * PIECES);
    let own51 = coopLoadT<coop_mat16x16<f16, A>>(&stage[((side * OWN + strip + 16u) * OWN_ROW + 2u) * PIECES], OWN_ROW * PIECES);
#endif
#if SQUARE4
    workgroupBarrier();
#endif
#if SQUARE6
    put_eight(thread / 4u * OWN_ROW + thread % 4u, own_eight(head, first + thread / 4u, own_end, 96u + thread % 4u * 8u));
    put_eight((OWN + thread / 4u) * OWN_ROW + thread % 4u, own_value_eight(head, first + thread / 4u, own_end, 96u + thread % 4u * 8u));
    workgroupBarrier();
    let own60 = coopLoadT<coop_mat16x16<f16, A>>(&stage[((side * OWN + strip + 0u) * OWN_ROW + 0u) * PIECES], OWN_ROW * PIECES);
    let own61 = coopLoadT<coop_mat16x16<f16, A>>(&stage[((side * OWN + strip + 16u) * OWN_ROW + 0u) * PIECES], OWN_ROW * PIECES);
#endif
#if SQUARE7
    let own70 = coopLoadT<coop_mat16x16<f16, A>>(&stage[((side * OWN + strip + 0u) * OWN_ROW + 2u) * PIECES], OWN_ROW * PIECES);
    let own71 = coopLoadT<coop_mat16x16<f16, A>>(&stage[((side * OWN + strip + 16u) * OWN_ROW + 2u) * PIECES], OWN_ROW * PIECES);
#endif
#if SQUARE6
    workgroupBarrier();
#endif
    var sum00 = coop_mat16x16<f32, C>();
    var sum10 = coop_mat16x16<f32, C>();
#if COLUMN1
    var sum01 = coop_mat16x16<f32, C>();
    var sum11 = coop_mat16x16<f32, C>();
#endif
#if COLUMN2
    var sum02 = coop_mat16x16<f32, C>();
    var sum12 = coop_mat16x16<f32, C>();
#endif
#if COLUMN3
    var sum03 = coop_mat16x16<f32, C>();
    var sum13 = coop_mat16x16<f32, C>();
#endif
    // The first tile; where there is none, what is looked at belongs to none but is there.
#if OF_KEYS
    let begin = skipped * TILE;
#else
    let begin = 0u;
#endif
    var row0 = other_tile_eight(other_head, begin, other_end, thread);
    var value0 = other_value_tile_eight(other_head, begin, other_end, thread);
#if FETCH1
    var row1 = other_tile_eight(other_head, begin, other_end, thread + THREADS);
    var value1 = other_value_tile_eight(other_head, begin, other_end, thread + THREADS);
#endif
#if FETCH2
    var row2 = other_tile_eight(other_head, begin, other_end, thread + 2u * THREADS);
    var value2 = other_value_tile_eight(other_head, begin, other_end, thread + 2u * THREADS);
#endif
#if FETCH3
    var row3 = other_tile_eight(other_head, begin, other_end, thread + 3u * THREADS);
    var value3 = other_value_tile_eight(other_head, begin, other_end, thread + 3u * THREADS);
#endif
#if OF_KEYS
    var four = four_numbers(other_head, begin, thread);
#endif
    put_staged(0u, thread, row0);
    put_staged(VALUES, thread, value0);
#if FETCH1
    put_staged(0u, thread + THREADS, row1);
    put_staged(VALUES, thread + THREADS, value1);
#endif
#if FETCH2
    put_staged(0u, thread + 2u * THREADS, row2);
    put_staged(VALUES, thread + 2u * THREADS, value2);
#endif
#if FETCH3
    put_staged(0u, thread + 3u * THREADS, row3);
    put_staged(VALUES, thread + 3u * THREADS, value3);
#endif
#if OF_KEYS
    if thread < TILE / 2u {
        numbers[thread] = four;
    }
#endif
    workgroupBarrier();

    for (var t = 0u; t < steps; t++) {
#if OF_KEYS
        let tile = (skipped + t % tiles) * TILE;
        let whole = first + OWN <= min(visible(tile), keys) && tile + TILE <= S;
#else
        let tile = t * TILE;
        let whole = tile + TILE <= min(visible(first), keys);
#endif
        if t + 1u < steps {
#if OF_KEYS
            let next_head = other_head + (t + 1u) / tiles;
            let next = (skipped + (t + 1u) % tiles) * TILE;
#else
            let next_head = other_head;
            let next = (t + 1u) * TILE;
#endif
            row0 = other_tile_eight(next_head, next, other_end, thread);
            value0 = other_value_tile_eight(next_head, next, other_end, thread);
#if FETCH1
            row1 = other_tile_eight(next_head, next, other_end, thread + THREADS);
            value1 = other_value_tile_eight(next_head, next, other_end, thread + THREADS);
#endif
#if FETCH2
            row2 = other_tile_eight(next_head, next, other_end, thread + 2u * THREADS);
            value2 = other_value_tile_eight(next_head, next, other_end, thread + 2u * THREADS);
#endif
#if FETCH3
            row3 = other_tile_eight(next_head, next, other_end, thread + 3u * THREADS);
            value3 = other_value_tile_eight(next_head, next, other_end, thread + 3u * THREADS);
#endif
#if OF_KEYS
            if thread < TILE / 2u {
                four = four_numbers(next_head, next, thread);
            }
#endif
        }
        var upper = coop_mat16x16<f32, C>();
        var lower = coop_mat16x16<f32, C>();
        let other0 = coopLoad<coop_mat16x16<f16, B>>(&stage[(side * VALUES + half * 16u * ROW + 0u) * PIECES], ROW * PIECES);
        upper = coopMultiplyAdd(own00, other0, upper);
        lower = coopMultiplyAdd(own01, other0, lower);
#if SQUARE1
        let other1 = coopLoad<coop_mat16x16<f16, B>>(&stage[(side * VALUES + half * 16u * ROW + 2u) * PIECES], ROW * PIECES);
        upper = coopMultiplyAdd(own10, other1, upper);
        lower = coopMultiplyAdd(own11, other1, lower);
#endif
#if SQUARE2
        let other2 = coopLoad<coop_mat16x16<f16, B>>(&stage[(side * VALUES + half * 16u * ROW + 4u) * PIECES], ROW * PIECES);
        upper = coopMultiplyAdd(own20, other2, upper);
        lower = coopMultiplyAdd(own21, other2, lower);
#endif
#if SQUARE3
        let other3 = coopLoad<coop_mat16x16<f16, B>>(&stage[(side * VALUES + half * 16u * ROW + 6u) * PIECES], ROW * PIECES);
        upper = coopMultiplyAdd(own30, other3, upper);
        lower = coopMultiplyAdd(own31, other3, lower);
#endif
#if SQUARE4
        let other4 = coopLoad<coop_mat16x16<f16, B>>(&stage[(side * VALUES + half * 16u * ROW + 8u) * PIECES], ROW * PIECES);
        upper = coopMultiplyAdd(own40, other4, upper);
        lower = coopMultiplyAdd(own41, other4, lower);
#endif
#if SQUARE5
        let other5 = coopLoad<coop_mat16x16<f16, B>>(&stage[(side * VALUES + half * 16u * ROW + 10u) * PIECES], ROW * PIECES);
        upper = coopMultiplyAdd(own50, other5, upper);
        lower = coopMultiplyAdd(own51, other5, lower);
#endif
#if SQUARE6
        let other6 = coopLoad<coop_mat16x16<f16, B>>(&stage[(side * VALUES + half * 16u * ROW + 12u) * PIECES], ROW * PIECES);
        upper = coopMultiplyAdd(own60, other6, upper);
        lower = coopMultiplyAdd(own61, other6, lower);
#endif
#if SQUARE7
        let other7 = coopLoad<coop_mat16x16<f16, B>>(&stage[(side * VALUES + half * 16u * ROW + 14u) * PIECES], ROW * PIECES);
        upper = coopMultiplyAdd(own70, other7, upper);
        lower = coopMultiplyAdd(own71, other7, lower);
#endif
        coopStoreT(upper, &scores[side * SLOPES + strip * LONG + half * 4u], LONG);
        coopStoreT(lower, &scores[side * SLOPES + (strip + 16u) * LONG + half * 4u], LONG);
        workgroupBarrier();
        weigh(quarter, tile, whole);
        workgroupBarrier();
        let weight00 = coopLoadT<coop_mat16x16<f16, A>>(&weights[factors + 0u * LIGHT + 0u], LIGHT);
        let weight10 = coopLoadT<coop_mat16x16<f16, A>>(&weights[factors + 16u * LIGHT + 0u], LIGHT);
        let added00 = coopLoadT<coop_mat16x16<f16, B>>(&stage[(added + 0u * ROW + 0u) * PIECES], ROW * PIECES);
#if COLUMN1
        let added10 = coopLoadT<coop_mat16x16<f16, B>>(&stage[(added + 0u * ROW + 2u) * PIECES], ROW * PIECES);
#endif
#if COLUMN2
        let added20 = coopLoadT<coop_mat16x16<f16, B>>(&stage[(added + 0u * ROW + 4u) * PIECES], ROW * PIECES);
#endif
#if COLUMN3
        let added30 = coopLoadT<coop_mat16x16<f16, B>>(&stage[(added + 0u * ROW + 6u) * PIECES], ROW * PIECES);
#endif
        sum00 = coopMultiplyAdd(weight00, added00, sum00);
        sum10 = coopMultiplyAdd(weight10, added00, sum10);
#if COLUMN1
        sum01 = coopMultiplyAdd(weight00, added10, sum01);
        sum11 = coopMultiplyAdd(weight10, added10, sum11);
#endif
#if COLUMN2
        sum02 = coopMultiplyAdd(weight00, added20, sum02);
        sum12 = coopMultiplyAdd(weight10, added20, sum12);
#endif
#if COLUMN3
        sum03 = coopMultiplyAdd(weight00, added30, sum03);
        sum13 = coopMultiplyAdd(weight10, added30, sum13);
#endif
#if OF_KEYS
        let weight01 = coopLoadT<coop_mat16x16<f16, A>>(&weights[factors + 0u * LIGHT + 4u], LIGHT);
        let weight11 = coopLoadT<coop_mat16x16<f16, A>>(&weights[factors + 16u * LIGHT + 4u], LIGHT);
        let added01 = coopLoadT<coop_mat16x16<f16, B>>(&stage[(added + 16u * ROW + 0u) * PIECES], ROW * PIECES);
#if COLUMN1
        let added11 = coopLoadT<coop_mat16x16<f16, B>>(&stage[(added + 16u * ROW + 2u) * PIECES], ROW * PIECES);
#endif
#if COLUMN2
        let added21 = coopLoadT<coop_mat16x16<f16, B>>(&stage[(added + 16u * ROW + 4u) * PIECES], ROW * PIECES);
#endif
#if COLUMN3
        let added31 = coopLoadT<coop_mat16x16<f16, B>>(&stage[(added + 16u * ROW + 6u) * PIECES], ROW * PIECES);
#endif
        sum00 = coopMultiplyAdd(weight01, added01, sum00);
        sum10 = coopMultiplyAdd(weight11, added01, sum10);
#if COLUMN1
        sum01 = coopMultiplyAdd(weight01, added11, sum01);
        sum11 = coopMultiplyAdd(weight11, added11, sum11);
#endif
#if COLUMN2
        sum02 = coopMultiplyAdd(weight01, added21, sum02);
        sum12 = coopMultiplyAdd(weight11, added21, sum12);
#endif
#if COLUMN3
        sum03 = coopMultiplyAdd(weight01, added31, sum03);
        sum13 = coopMultiplyAdd(weight11, added31, sum13);
#endif
#endif
        workgroupBarrier();
        put_staged(0u, thread, row0);
        put_staged(VALUES, thread, value0);
#if FETCH1
        put_staged(0u, thread + THREADS, row1);
        put_staged(VALUES, thread + THREADS, value1);
#endif
#if FETCH2
        put_staged(0u, thread + 2u * THREADS, row2);
        put_staged(VALUES, thread + 2u * THREADS, value2);
#endif
#if FETCH3
        put_staged(0u, thread + 3u * THREADS, row3);
        put_staged(VALUES, thread + 3u * THREADS, value3);
#endif
#if OF_KEYS
        if thread < TILE / 2u {
            numbers[thread] = four;
        }
#endif
        workgroupBarrier();
    }

    coopStoreT(sum00, &scores[side * SLOPES + (strip + 0u) * LONG + half * 4u], LONG);
    coopStoreT(sum10, &scores[side * SLOPES + (strip + 16u) * LONG + half * 4u], LONG);
    write_squares(head, first, 0u, thread);
#if COLUMN1
    coopStoreT(sum01, &scores[side * SLOPES + (strip + 0u) * LONG + half * 4u], LONG);
    coopStoreT(sum11, &scores[side * SLOPES + (strip + 16u) * LONG + half * 4u], LONG);
    write_squares(head, first, 16u, thread);
#endif
#if COLUMN2
    coopStoreT(sum02, &scores[side * SLOPES + (strip + 0u) * LONG + half * 4u], LONG);
    coopStoreT(sum12, &scores[side * SLOPES + (strip + 16u) * LONG + half * 4u], LONG);
    write_squares(head, first, 32u, thread);
#endif
#if COLUMN3
    coopStoreT(sum03, &scores[side * SLOPES + (strip + 0u) * LONG + half * 4u], LONG);
    coopStoreT(sum13, &scores[side * SLOPES + (strip + 16u) * LONG + half * 4u], LONG);
    write_squares(head, first, 48u, thread);
#endif
}
