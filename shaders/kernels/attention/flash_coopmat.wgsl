enable wgpu_cooperative_matrix;
// Scaled dot-product attention, forward, on matrix units: a subgroup multiplies 16×16 matrices of f16 and sums in f32. The
// definition is in core/workloads/src/ops/attention. Cooperative matrices are an extension of native wgpu; shaders/src/matrix.rs
// translates them for browsers.
//
// Each pair of subgroups of 32 owns 32 query rows. One multiplies the first half of a tile of 32 keys and the first half of the
// values' columns, the other the second halves, so that loaded matrices are multiplied twice. Four pairs walk together over the
// keys. Queries and accumulators stay in matrices for the whole kernel. The layout of a matrix among threads is opaque, so scores
// pass through workgroup memory to become weights, by two threads per row. The next keys and values are in flight meanwhile.
//
// Weights are relative to a row's maximum over the first tile, with headroom: f16 and f32 hold all of them while no score of the
// row exceeds it by more than 2 to the 21. Otherwise, which is rare, a loop over all keys finds the true maxima, and the work is
// repeated. A step has two barriers and does not rescale the accumulators.
//
// The validator assumes that a call's result may differ within a workgroup. Conditions around matrix products are therefore
// inlined. Loops have the one form that browsers can prove to end. In names of loads and stores, T means row-major; keys are
// loaded by columns. There is a matrix per 16 columns of head_dim.
//
// Measurements: docs/notebook/2026-11-28-kernel-notes.md.

#import attention/common
#import attention/f16x8
#import attention/stage

// Exponents of two of the largest weight of the first tile, and of the largest number in f16.
const ROOM: f32 = 6.0;
const GROWTH: f32 = 15.0;
// Of keys, then of values.
const TILE: u32 = KEYS;
const VALUES: u32 = KEYS * ROW;
// Queries pass through the stage, 32 columns at a time.
const QUERY_ROW: u32 = 5u;
const STAGED: u32 = max(2u * KEYS * ROW, ROWS * QUERY_ROW);

var<workgroup> scores: array<vec4<f32>, ROWS * LONG>;
var<workgroup> weights: array<vec4<f16>, ROWS * LIGHT>;
// Whether a weight was too large. Atomic, because sources with matrices declare Vulkan's memory model: a plain variable that
// other threads wrote may be cached, and naga marks no access as shared. The first of four: matrices must begin at multiples of
// 16 bytes, and drivers guarantee that only if workgroup memory has nothing smaller.
var<workgroup> exceeded: array<atomic<u32>, 4>;

// A thread's half of a row: every other vector of four.
struct Half {
    row: u32,
    odd: u32,
    query: u32,
    // Number of keys that the row sees, and number that all rows of the workgroup see.
    seen: u32,
    all_see: u32,
    scale: f32,
}

// Converts a tile's scores to weights against a maximum. Returns the maximum score, and the sum of the weights.
fn weigh(half: Half, key: u32, top: f32) -> vec2<f32> {
    var highest = HIDDEN;
    var sum = vec4<f32>();
    if !BIASED && key + KEYS <= half.all_see {
        // All loads come first: a store between them would delay the next one.
        let from_here = half.row * LONG + half.odd;
        let s0 = scores[from_here];
        let s1 = scores[from_here + 2u];
        let s2 = scores[from_here + 4u];
        let s3 = scores[from_here + 6u];
        let raw = max(max(s0, s1), max(s2, s3));
        highest = max(max(raw.x, raw.y), max(raw.z, raw.w)) * half.scale;
        let w0 = exp2(fma(s0, vec4<f32>(half.scale), vec4<f32>(-top)));
        let w1 = exp2(fma(s1, vec4<f32>(half.scale), vec4<f32>(-top)));
        let w2 = exp2(fma(s2, vec4<f32>(half.scale), vec4<f32>(-top)));
        let w3 = exp2(fma(s3, vec4<f32>(half.scale), vec4<f32>(-top)));
        sum = (w0 + w1) + (w2 + w3);
        let to = half.row * LIGHT + half.odd;
        weights[to] = vec4<f16>(w0);
        weights[to + 2u] = vec4<f16>(w1);
        weights[to + 4u] = vec4<f16>(w2);
        weights[to + 6u] = vec4<f16>(w3);
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

// Maximum score of a tile.
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

// Stores a 16×16 tile of each half of the columns, from the memory of the scores, as elements of the output.
fn write_tiles(half: Half, head: u32, col: u32, share: f32) {
    workgroupBarrier();
    for (var i = 0u; i < 2u; i++) {
        let at = half.row * LONG + half.odd * 4u + i * 2u;
        store_out(head, half.query, half.odd * (WIDTH / 2u) + col + i * 8u, scores[at] * share, scores[at + 1u] * share);
    }
    workgroupBarrier();
}

// Stages 32 columns of queries, from COLUMN.
#block stage_queries(COLUMN)
    for (var i = 0u; i < ROWS * 4u / THREADS; i++) {
        let e = i * THREADS + thread;
        store_f16x8(e / 4u * QUERY_ROW + e % 4u, f16x8_of_q(head, first_row + e / 4u, COLUMN + e % 4u * 8u));
    }
    workgroupBarrier();
#end

// Loads the pair's queries of 16 columns, from vector VEC8 of a staged row.
#block load_queries(I, VEC8)
    let q{I}0 = coopLoadT<coop_mat16x16<f16, A>>(&stage[((thread / 64u * 32u + 0u) * QUERY_ROW + VEC8) * PIECES], QUERY_ROW * PIECES);
    let q{I}1 = coopLoadT<coop_mat16x16<f16, A>>(&stage[((thread / 64u * 32u + 16u) * QUERY_ROW + VEC8) * PIECES], QUERY_ROW * PIECES);
#end

// Adds the products of 16 columns of queries and keys to the scores, from vector VEC8 of a row.
#block add_scores(UPPER, LOWER, KEY, I, VEC8)
    let {KEY}{I} = coopLoad<coop_mat16x16<f16, B>>(&stage[(side * 16u * ROW + VEC8) * PIECES], ROW * PIECES);
    UPPER = coopMultiplyAdd(q{I}0, {KEY}{I}, UPPER);
    LOWER = coopMultiplyAdd(q{I}1, {KEY}{I}, LOWER);
#end

// Stores the scores of the pair's queries and the subgroup's keys in workgroup memory.
#block score(UPPER, LOWER, KEY)
    var UPPER = coop_mat16x16<f32, C>();
    var LOWER = coop_mat16x16<f32, C>();
    #emit add_scores(UPPER, LOWER, KEY, 0, 0u)
#if D_TILE1
    #emit add_scores(UPPER, LOWER, KEY, 1, 2u)
#endif
#if D_TILE2
    #emit add_scores(UPPER, LOWER, KEY, 2, 4u)
#endif
#if D_TILE3
    #emit add_scores(UPPER, LOWER, KEY, 3, 6u)
#endif
#if D_TILE4
    #emit add_scores(UPPER, LOWER, KEY, 4, 8u)
#endif
#if D_TILE5
    #emit add_scores(UPPER, LOWER, KEY, 5, 10u)
#endif
#if D_TILE6
    #emit add_scores(UPPER, LOWER, KEY, 6, 12u)
#endif
#if D_TILE7
    #emit add_scores(UPPER, LOWER, KEY, 7, 14u)
#endif
    coopStoreT(UPPER, &scores[strip + side * 4u], LONG);
    coopStoreT(LOWER, &scores[strip + 16u * LONG + side * 4u], LONG);
#end

// Sums of 16 columns.
#block zero_sums(O, COLUMN)
    {O}0{COLUMN} = coop_mat16x16<f32, C>();
    {O}1{COLUMN} = coop_mat16x16<f32, C>();
#end

// Loads 16 columns of values, from vector VEC8 of a row.
#block load_values(I, FIRST, COLUMN, VEC8)
    let v{I}{COLUMN} = coopLoadT<coop_mat16x16<f16, B>>(&stage[(VALUES + FIRST * ROW + side * (ROW_VEC8 / 2u) + VEC8) * PIECES], ROW * PIECES);
#end

// Adds 16 weighted columns to their sums.
#block add_column(I, COLUMN)
    o0{COLUMN} = coopMultiplyAdd(p0{I}, v{I}{COLUMN}, o0{COLUMN});
    o1{COLUMN} = coopMultiplyAdd(p1{I}, v{I}{COLUMN}, o1{COLUMN});
#end

// Adds 16 weighted rows of values to the sums, from FIRST, which is vector FOUR of the weights.
#block add_values(I, FIRST, FOUR)
    let p0{I} = coopLoadT<coop_mat16x16<f16, A>>(&weights[light + 0u * LIGHT + FOUR], LIGHT);
    let p1{I} = coopLoadT<coop_mat16x16<f16, A>>(&weights[light + 16u * LIGHT + FOUR], LIGHT);
    #emit load_values(I, FIRST, 0, 0u)
#if COLUMN1
    #emit load_values(I, FIRST, 1, 2u)
#endif
#if COLUMN2
    #emit load_values(I, FIRST, 2, 4u)
#endif
#if COLUMN3
    #emit load_values(I, FIRST, 3, 6u)
#endif
    #emit add_column(I, 0)
#if COLUMN1
    #emit add_column(I, 1)
#endif
#if COLUMN2
    #emit add_column(I, 2)
#endif
#if COLUMN3
    #emit add_column(I, 3)
#endif
#end

// Loads the thread's vectors of the keys of a step.
#block fetch_keys(STEP)
    key0 = f16x8_of_k(keys, (STEP) * KEYS, thread);
#if FETCH1
    key1 = f16x8_of_k(keys, (STEP) * KEYS, thread + THREADS);
#endif
#end

// Loads the thread's vectors of the values of a step.
#block fetch_values(STEP)
    value0 = f16x8_of_v(keys, (STEP) * KEYS, end, thread);
#if FETCH1
    value1 = f16x8_of_v(keys, (STEP) * KEYS, end, thread + THREADS);
#endif
#end

// Stores 16 columns, from COLUMN of the subgroup.
#block write_column(I, COLUMN)
    coopStoreT(o0{I}, &scores[strip + 0u * LONG + side * 4u], LONG);
    coopStoreT(o1{I}, &scores[strip + 16u * LONG + side * 4u], LONG);
    write_tiles(half, head, COLUMN, share);
#end

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
    // Under a causal mask the last rows see the most keys, and come first.
    let first_row = select(flat % blocks, blocks - 1u - flat % blocks, CAUSAL) * ROWS;
    // Number of keys that the last row sees.
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
    // Begins of the pair's rows in scores and in weights; half of keys and of columns of the subgroup.
    let strip = thread / 64u * 32u * LONG;
    let light = thread / 64u * 32u * LIGHT;
    let side = thread / 32u % 2u;

    if thread == 0u {
        atomicStore(&exceeded[0], 0u);
    }
    #emit stage_queries(0u)
    #emit load_queries(0, 0u)
#if D_TILE1
    #emit load_queries(1, 2u)
#endif
    workgroupBarrier();
#if D_TILE2
    #emit stage_queries(32u)
    #emit load_queries(2, 0u)
#if D_TILE3
    #emit load_queries(3, 2u)
#endif
    workgroupBarrier();
#endif
#if D_TILE4
    #emit stage_queries(64u)
    #emit load_queries(4, 0u)
#if D_TILE5
    #emit load_queries(5, 2u)
#endif
    workgroupBarrier();
#endif
#if D_TILE6
    #emit stage_queries(96u)
    #emit load_queries(6, 0u)
#if D_TILE7
    #emit load_queries(7, 2u)
#endif
    workgroupBarrier();
#endif
    #emit zero_sums(var o, 0)
#if COLUMN1
    #emit zero_sums(var o, 1)
#endif
#if COLUMN2
    #emit zero_sums(var o, 2)
#endif
#if COLUMN3
    #emit zero_sums(var o, 3)
#endif
    var sum = 0.0;
    // Number of tiles to search for maxima.
    var scanned = min(steps, 1u);

    for (var attempt = 0u; attempt < 2u; attempt++) {
        var highest = HIDDEN;
        for (var t = 0u; t < scanned; t++) {
            workgroupBarrier();
            stage_f16x8(0u, thread, f16x8_of_k(keys, t * KEYS, thread));
#if FETCH1
            stage_f16x8(0u, thread + THREADS, f16x8_of_k(keys, t * KEYS, thread + THREADS));
#endif
            workgroupBarrier();
            #emit score(upper_first, lower_first, k_first)
            workgroupBarrier();
            highest = max(highest, highest_of(half, t * KEYS));
        }
        // Maximum over the row's two threads.
        let top = max(highest, subgroupShuffleXor(highest, 1u)) + ROOM;
        var exceeds = false;
        sum = 0.0;
        #emit zero_sums(o, 0)
#if COLUMN1
        #emit zero_sums(o, 1)
#endif
#if COLUMN2
        #emit zero_sums(o, 2)
#endif
#if COLUMN3
        #emit zero_sums(o, 3)
#endif
        workgroupBarrier();
        stage_f16x8(0u, thread, f16x8_of_k(keys, 0u, thread));
#if FETCH1
        stage_f16x8(0u, thread + THREADS, f16x8_of_k(keys, 0u, thread + THREADS));
#endif
        var value0 = f16x8_of_v(keys, 0u, end, thread);
#if FETCH1
        var value1 = f16x8_of_v(keys, 0u, end, thread + THREADS);
#endif
        var key0 = F16x8();
#if FETCH1
        var key1 = F16x8();
#endif
        workgroupBarrier();

        if 1u < steps {
            #emit fetch_keys(1u)
        }

        for (var t = 0u; t < steps; t++) {
            #emit score(upper, lower, k)
            workgroupBarrier();
            // Vectors are in flight for a whole step.
            stage_f16x8(VALUES, thread, value0);
#if FETCH1
            stage_f16x8(VALUES, thread + THREADS, value1);
#endif
            if t + 1u < steps {
                #emit fetch_values(t + 1u)
            }
            let found = weigh(half, t * KEYS, top);
            exceeds = exceeds || found.x > top + GROWTH;
            sum += found.y;
            stage_f16x8(0u, thread, key0);
#if FETCH1
            stage_f16x8(0u, thread + THREADS, key1);
#endif
            if t + 2u < steps {
                #emit fetch_keys(t + 2u)
            }
            workgroupBarrier();
            #emit add_values(0, 0u, 0u)
            #emit add_values(1, 16u, 4u)
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
    // A row without a visible key has sum zero and output zero.
    let share = select(1.0 / total, 0.0, total == 0.0);
    #emit write_column(0, 0u)
#if COLUMN1
    #emit write_column(1, 16u)
#endif
#if COLUMN2
    #emit write_column(2, 32u)
#endif
#if COLUMN3
    #emit write_column(3, 48u)
#endif
}
