enable wgpu_cooperative_matrix;
// Scaled dot-product attention, backward, on matrix units: a subgroup multiplies 16×16 matrices of f16 and sums in f32. The
// definition is in core/workloads/src/ops/attention. For the properties of matrices see flash_coopmat.wgsl.
//
// One kernel is both passes. A workgroup owns rows of a head, keys where OF_KEYS and queries otherwise, and loops over the other
// rows in tiles. Scores are products of own and other rows. Slopes (gradients of probabilities) are products of own and other
// values. Rows and values are K, Q, V and dO where keys are owned, and Q, K, dO and V where queries are. Probabilities and
// gradients of scores follow from both. They multiply the other values for dV, and the other rows for dK or dQ.
//
// Four subgroups share 32 own rows. Two compute scores and two compute slopes, each for half of a tile's rows. A subgroup then
// keeps one operand of 32 rows in matrices for the whole kernel, and loaded matrices are multiplied twice. For the sums, the
// sides are dV and dK, and the halves are those of their columns. Where queries are owned there is one sum: the sides are halves
// of a tile's rows, and are added at the end. The layout of a matrix among threads is opaque, so scores and slopes pass through
// workgroup memory.
//
// A probability is at most one and rounds to f16 without harm. Gradients of scores stay unscaled, because the scale could
// underflow. Sums are scaled.
//
// The validator assumes that a call's result may differ within a workgroup. Conditions around matrix products are therefore
// inlined. There is a matrix per 16 columns of head_dim, and per 16 columns of a half.

#import attention/common
#import attention/f16x8_backward
#import attention/stage

// Rows of slopes follow those of scores, and gradients of scores follow probabilities, which only owned keys need.
const SLOPES: u32 = OWN * LONG;
const GRADIENTS: u32 = select(0u, OWN * LIGHT, OF_KEYS);
const VALUES: u32 = TILE * ROW;
// Own rows and values pass through the stage, 32 columns at a time.
const OWN_ROW: u32 = 5u;
const STAGED: u32 = max(2u * TILE * ROW, 2u * OWN * OWN_ROW);

var<workgroup> scores: array<vec4<f32>, 2u * OWN * LONG>;
var<workgroup> weights: array<vec4<f16>, GRADIENTS + OWN * LIGHT>;
// Where keys are owned: log-sum-exps of a tile's queries to base two, then their deltas.
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

// Numbers that each of the first threads looks up, of the tile of queries that begins at row `first`.
fn numbers_of(head: u32, first: u32, thread: u32) -> vec4<f32> {
    let query = first + thread % (TILE / 4u) * 4u;
    let is_delta = thread >= TILE / 4u;
    return vec4<f32>(
        number_of(head, query, is_delta),
        number_of(head, query + 1u, is_delta),
        number_of(head, query + 2u, is_delta),
        number_of(head, query + 3u, is_delta),
    );
}

// A thread's quarter of an own row.
struct Quarter {
    // Index in the workgroup, and index among all rows.
    row: u32,
    own: u32,
    // Its first vector of four in a tile; the other is two further.
    first: u32,
    // Number of keys of the head, and unit of scores as exponents of two.
    keys: u32,
    scale: f32,
    // Where queries are owned: numbers of the row.
    lse: f32,
    delta: f32,
}

// Converts scores and slopes of the tile that begins at row `tile` to probabilities and gradients of scores. All loads come first:
// a store between them would delay the next one.
fn weigh(quarter: Quarter, tile: u32, whole: bool) {
    #emit load_scores(0)
    #emit load_scores(1)
    let weight0 = weights_of(quarter, score0, tile + x0 * 4u, top0, whole);
    let weight1 = weights_of(quarter, score1, tile + x1 * 4u, top1, whole);
    #emit store_weights(0)
    #emit store_weights(1)
}

// Loads the thread's vector of scores and slopes of one half of a tile.
#block load_scores(I)
    let x{I} = quarter.first + {I}u * 2u;
    let score{I} = scores[quarter.row * LONG + x{I}];
    let slope{I} = scores[SLOPES + quarter.row * LONG + x{I}];
#if OF_KEYS
    let top{I} = numbers[x{I}];
    let middle{I} = numbers[TILE / 4u + x{I}];
#else
    let top{I} = vec4<f32>(quarter.lse);
    let middle{I} = vec4<f32>(quarter.delta);
#endif
#end

// Stores the probabilities of keys, and the gradients of scores.
#block store_weights(I)
#if OF_KEYS
    weights[quarter.row * LIGHT + x{I}] = vec4<f16>(weight{I});
#endif
    weights[GRADIENTS + quarter.row * LIGHT + x{I}] = vec4<f16>(weight{I} * (slope{I} - middle{I}));
#end

// Probabilities of four scores, the first of row `other`.
fn weights_of(quarter: Quarter, score: vec4<f32>, other: u32, top: vec4<f32>, whole: bool) -> vec4<f32> {
    if !BIASED && whole {
        return exp2(fma(score, vec4<f32>(quarter.scale), -top));
    }
    return vec4<f32>(
        weight_of(quarter, score.x, other, top.x),
        weight_of(quarter, score.y, other + 1u, top.y),
        weight_of(quarter, score.z, other + 2u, top.z),
        weight_of(quarter, score.w, other + 3u, top.w),
    );
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

// Stores a 16×16 tile of each half of the columns of either sum, from the memory of scores and slopes.
fn write_tiles(head: u32, first: u32, col: u32, thread: u32) {
    workgroupBarrier();
    let scale = inverseSqrt(f32(D));
#if OF_KEYS
    let row = thread / 2u % OWN;
    let half = thread % 2u;
    for (var i = 0u; i < 2u; i++) {
        let at = thread / 2u * LONG + half * 4u + i * 2u;
        let column = half * (WIDTH / 2u) + col + i * 8u;
        if thread / 2u < OWN {
            store_value_gradient(head, first + row, column, scores[at], scores[at + 1u]);
        } else {
            store_gradient(head, first + row, column, scores[at] * scale, scores[at + 1u] * scale);
        }
    }
#else
    let at = thread / 4u * LONG + thread % 4u * 2u;
    let column = thread % 4u / 2u * (WIDTH / 2u) + col + thread % 2u * 8u;
    let low = (scores[at] + scores[SLOPES + at]) * scale;
    let high = (scores[at + 1u] + scores[SLOPES + at + 1u]) * scale;
    store_gradient(head, first + thread / 4u, column, low, high);
#endif
    workgroupBarrier();
}

// Stages 32 columns of own rows, and of their values or gradients, from COLUMN.
#block stage_own(COLUMN)
    store_f16x8(thread / 4u * OWN_ROW + thread % 4u, own_f16x8(head, first + thread / 4u, own_end, COLUMN + thread % 4u * 8u));
    store_f16x8((OWN + thread / 4u) * OWN_ROW + thread % 4u, own_value_f16x8(head, first + thread / 4u, own_end, COLUMN + thread % 4u * 8u));
    workgroupBarrier();
#end

// Loads the subgroup's own rows of 16 columns, from vector VEC8 of a staged row.
#block load_own(I, VEC8)
    let own{I}0 = coopLoadT<coop_mat16x16<f16, A>>(&stage[((side * OWN + strip + 0u) * OWN_ROW + VEC8) * PIECES], OWN_ROW * PIECES);
    let own{I}1 = coopLoadT<coop_mat16x16<f16, A>>(&stage[((side * OWN + strip + 16u) * OWN_ROW + VEC8) * PIECES], OWN_ROW * PIECES);
#end

// Adds the products of 16 columns to the scores, from vector VEC8 of a row.
#block add_scores(I, VEC8)
    let other{I} = coopLoad<coop_mat16x16<f16, B>>(&stage[(side * VALUES + half * 16u * ROW + VEC8) * PIECES], ROW * PIECES);
    upper = coopMultiplyAdd(own{I}0, other{I}, upper);
    lower = coopMultiplyAdd(own{I}1, other{I}, lower);
#end

// Loads a thread's vectors of the tile that begins at row FIRST.
#block fetch(ROW_NAME, VALUE_NAME, I, HEAD, FIRST, AT)
    {ROW_NAME}{I} = other_tile_f16x8(HEAD, FIRST, other_end, AT);
    {VALUE_NAME}{I} = other_value_tile_f16x8(HEAD, FIRST, other_end, AT);
#end

// Loads all vectors of the thread.
#block fetch_all(ROW_NAME, VALUE_NAME, HEAD, FIRST)
    #emit fetch(ROW_NAME, VALUE_NAME, 0, HEAD, FIRST, thread)
#if FETCH1
    #emit fetch(ROW_NAME, VALUE_NAME, 1, HEAD, FIRST, thread + THREADS)
#endif
#if FETCH2
    #emit fetch(ROW_NAME, VALUE_NAME, 2, HEAD, FIRST, thread + 2u * THREADS)
#endif
#if FETCH3
    #emit fetch(ROW_NAME, VALUE_NAME, 3, HEAD, FIRST, thread + 3u * THREADS)
#endif
#end

// Stages two vectors.
#block stage_two(I, AT)
    stage_f16x8(0u, AT, row{I});
    stage_f16x8(VALUES, AT, value{I});
#end

// Stages the tile that `fetch_all` loaded.
#block stage_fetched
    #emit stage_two(0, thread)
#if FETCH1
    #emit stage_two(1, thread + THREADS)
#endif
#if FETCH2
    #emit stage_two(2, thread + 2u * THREADS)
#endif
#if FETCH3
    #emit stage_two(3, thread + 3u * THREADS)
#endif
#if OF_KEYS
    if thread < TILE / 2u {
        numbers[thread] = four;
    }
#endif
#end

// Loads 16 columns of the rows to add, from vector VEC8 of a row.
#block load_added(COLUMN, I, FIRST, VEC8)
    let added{COLUMN}{I} = coopLoadT<coop_mat16x16<f16, B>>(&stage[(added + FIRST * ROW + VEC8) * PIECES], ROW * PIECES);
#end

// Adds 16 weighted columns to their sums.
#block add_column(COLUMN, I)
    sum0{COLUMN} = coopMultiplyAdd(weight0{I}, added{COLUMN}{I}, sum0{COLUMN});
    sum1{COLUMN} = coopMultiplyAdd(weight1{I}, added{COLUMN}{I}, sum1{COLUMN});
#end

// Adds 16 weighted rows to the sums, from FIRST, which is vector FOUR of the weights.
#block add_weighted(I, FIRST, FOUR)
    let weight0{I} = coopLoadT<coop_mat16x16<f16, A>>(&weights[factors + 0u * LIGHT + FOUR], LIGHT);
    let weight1{I} = coopLoadT<coop_mat16x16<f16, A>>(&weights[factors + 16u * LIGHT + FOUR], LIGHT);
    #emit load_added(0, I, FIRST, 0u)
#if COLUMN1
    #emit load_added(1, I, FIRST, 2u)
#endif
#if COLUMN2
    #emit load_added(2, I, FIRST, 4u)
#endif
#if COLUMN3
    #emit load_added(3, I, FIRST, 6u)
#endif
    #emit add_column(0, I)
#if COLUMN1
    #emit add_column(1, I)
#endif
#if COLUMN2
    #emit add_column(2, I)
#endif
#if COLUMN3
    #emit add_column(3, I)
#endif
#end

// Sums of 16 columns.
#block zero_sums(I)
    var sum0{I} = coop_mat16x16<f32, C>();
    var sum1{I} = coop_mat16x16<f32, C>();
#end

// Stores 16 columns, from COLUMN of the subgroup.
#block write_column(I, COLUMN)
    coopStoreT(sum0{I}, &scores[side * SLOPES + (strip + 0u) * LONG + half * 4u], LONG);
    coopStoreT(sum1{I}, &scores[side * SLOPES + (strip + 16u) * LONG + half * 4u], LONG);
    write_tiles(head, first, COLUMN, thread);
#end

@compute @workgroup_size(THREADS)
fn attention_flash_coopmat_backward(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let blocks = (OWN_LENGTH + OWN - 1u) / OWN;
    let flat = group.y * groups.x + group.x;
    // Heads of the owned rows and of the first of the others. Where keys are owned, GROUP heads of queries share one of keys.
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
    // Under a causal mask the last queries see the most keys, and the first keys are seen by the most queries: they come first.
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
    // Tiles of a head, without those whose queries do not see the workgroup's keys, or whose keys its queries do not see.
#if OF_KEYS
    let skipped = select(0u, (max(first + S, T) - T) / TILE, CAUSAL);
    let tiles = (S + TILE - 1u) / TILE - skipped;
#endif
    // No query sees keys beyond the length.
#if OF_KEYS
    let steps = select(0u, tiles * GROUP, first < keys);
#else
    let last = select(keys, min(keys, max(min(first + OWN, S) + T, S) - S), CAUSAL);
    let steps = (last + TILE - 1u) / TILE;
#endif

    // Begin of the subgroup's rows in scores; its side and its half.
    let strip = thread / 128u * 32u;
    let side = thread / 64u % 2u;
    let half = thread / 32u % 2u;
    // Operands of the subgroup's sums: weights of its rows, and the columns that they multiply.
#if OF_KEYS
    let factors = side * GRADIENTS + strip * LIGHT;
    let added = (1u - side) * VALUES + half * (ROW_VEC8 / 2u);
#else
    let factors = strip * LIGHT + side * 4u;
    let added = side * 16u * ROW + half * (ROW_VEC8 / 2u);
#endif
    let row = thread / 2u % OWN;
    var quarter = Quarter(row, first + row, thread / (2u * OWN) * (TILE / 8u) + thread % 2u, keys, inverseSqrt(f32(D)) * LOG2_E, 0.0, 0.0);
#if !OF_KEYS
    quarter.lse = number_of(head, first + row, false);
    quarter.delta = number_of(head, first + row, true);
#endif

    #emit stage_own(0u)
    #emit load_own(0, 0u)
#if D_TILE1
    #emit load_own(1, 2u)
#endif
    workgroupBarrier();
#if D_TILE2
    #emit stage_own(32u)
    #emit load_own(2, 0u)
#if D_TILE3
    #emit load_own(3, 2u)
#endif
    workgroupBarrier();
#endif
#if D_TILE4
    #emit stage_own(64u)
    #emit load_own(4, 0u)
#if D_TILE5
    #emit load_own(5, 2u)
#endif
    workgroupBarrier();
#endif
#if D_TILE6
    #emit stage_own(96u)
    #emit load_own(6, 0u)
#if D_TILE7
    #emit load_own(7, 2u)
#endif
    workgroupBarrier();
#endif
    #emit zero_sums(0)
#if COLUMN1
    #emit zero_sums(1)
#endif
#if COLUMN2
    #emit zero_sums(2)
#endif
#if COLUMN3
    #emit zero_sums(3)
#endif
    // The first tile. If there is none, valid memory is read and not used.
#if OF_KEYS
    let begin = skipped * TILE;
#else
    let begin = 0u;
#endif
    #emit fetch_all(var row, var value, other_head, begin)
#if OF_KEYS
    var four = numbers_of(other_head, begin, thread);
#endif
    #emit stage_fetched
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
            #emit fetch_all(row, value, next_head, next)
#if OF_KEYS
            if thread < TILE / 2u {
                four = numbers_of(next_head, next, thread);
            }
#endif
        }
        var upper = coop_mat16x16<f32, C>();
        var lower = coop_mat16x16<f32, C>();
        #emit add_scores(0, 0u)
#if D_TILE1
        #emit add_scores(1, 2u)
#endif
#if D_TILE2
        #emit add_scores(2, 4u)
#endif
#if D_TILE3
        #emit add_scores(3, 6u)
#endif
#if D_TILE4
        #emit add_scores(4, 8u)
#endif
#if D_TILE5
        #emit add_scores(5, 10u)
#endif
#if D_TILE6
        #emit add_scores(6, 12u)
#endif
#if D_TILE7
        #emit add_scores(7, 14u)
#endif
        coopStoreT(upper, &scores[side * SLOPES + strip * LONG + half * 4u], LONG);
        coopStoreT(lower, &scores[side * SLOPES + (strip + 16u) * LONG + half * 4u], LONG);
        workgroupBarrier();
        weigh(quarter, tile, whole);
        workgroupBarrier();
        #emit add_weighted(0, 0u, 0u)
#if OF_KEYS
        #emit add_weighted(1, 16u, 4u)
#endif
        workgroupBarrier();
        #emit stage_fetched
        workgroupBarrier();
    }

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
