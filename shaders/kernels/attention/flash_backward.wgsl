// Backward kernels of attention that recompute probabilities from the log-sum-exp of each row. The definition is in
// core/workloads/src/ops/attention.
//
// A workgroup owns 64 rows of a head: queries, or keys where OF_KEYS. It loops over the other rows in tiles of 32. Scores are
// products of own and other rows. Gradients of probabilities are products of own and other values. Rows and values are Q, K, dO
// and V where queries are owned, and K, Q, V and dO where keys are.
//
// 16×16 threads. Thread (x, y) computes scores of own rows 4y..4y+3 with other rows x and x+16 of a tile. It sums columns 4(x +
// 16j).. of the same own rows' gradients in registers.

#import attention/common //= FORM: #import attention/scores
#import lib/launch

@group(0) @binding(0) var<storage, read> own: array<elem>;
@group(0) @binding(1) var<storage, read> own_value: array<elem>;
@group(0) @binding(2) var<storage, read> other: array<elem>;
@group(0) @binding(3) var<storage, read> other_value: array<elem>;
@group(0) @binding(4) var<storage, read> lse: array<f32>;
@group(0) @binding(5) var<storage, read> delta: array<f32>;
@group(0) @binding(6) var<storage, read_write> gradient: array<elem>;
@group(0) @binding(7) var<storage, read_write> value_gradient: array<elem>;

const OWN_LENGTH: u32 = select(S, T, OF_KEYS);
const OTHER_LENGTH: u32 = select(T, S, OF_KEYS);
const QUARTER: u32 = DEPTH / 4u;
const WIDTH: u32 = COLUMNS * 16u;
const STRIDE: u32 = OTHERS + 1u;
// Begins in the stage: own rows, own values, other rows, other values.
const VALUES_OF_OWN: u32 = OWN * QUARTER;
const OTHER_ROWS: u32 = 2u * OWN * QUARTER;
const VALUES_OF_OTHERS: u32 = (2u * OWN + OTHERS) * QUARTER;

// Factors between own and other rows: probabilities, or gradients of the scores.
var<workgroup> factors: array<f32, OWN * STRIDE>;
// All four operands while scores are computed, then the rows to sum.
var<workgroup> stage: array<vec4<f32>, STAGED>;

fn load_own(head: u32, row: u32, col: u32) -> vec4<f32> {
    var x = vec4<f32>();
    if row < OWN_LENGTH {
        for (var e = 0u; e < 4u; e++) {
            if col + e < D { x[e] = f32(own[(head * OWN_LENGTH + row) * D + col + e]); }
        }
    }
    return x;
}

fn load_own_value(head: u32, row: u32, col: u32) -> vec4<f32> {
    var x = vec4<f32>();
    if row < OWN_LENGTH {
        for (var e = 0u; e < 4u; e++) {
            if col + e < D { x[e] = f32(own_value[(head * OWN_LENGTH + row) * D + col + e]); }
        }
    }
    return x;
}

// Zeros from row `end` on, where memory may hold NaN.
fn load_other(head: u32, row: u32, end: u32, col: u32) -> vec4<f32> {
    var x = vec4<f32>();
    if row < end {
        for (var e = 0u; e < 4u; e++) {
            if col + e < D { x[e] = f32(other[(head * OTHER_LENGTH + row) * D + col + e]); }
        }
    }
    return x;
}

fn load_other_value(head: u32, row: u32, col: u32) -> vec4<f32> {
    var x = vec4<f32>();
    if row < OTHER_LENGTH {
        for (var e = 0u; e < 4u; e++) {
            if col + e < D { x[e] = f32(other_value[(head * OTHER_LENGTH + row) * D + col + e]); }
        }
    }
    return x;
}

// Heads of the rows, first rows of the tiles, end of the other rows, and thread.
struct Tile {
    own_head: u32,
    other_head: u32,
    first_own: u32,
    first_other: u32,
    end_other: u32,
    lane: u32,
}

// Results of four own rows: two probabilities each, and the gradients of their scores.
fn of_tile(tile: Tile) -> array<vec4<f32>, 4> {
    let across = tile.lane % 16u;
    let down = tile.lane / 16u;
    var found: array<vec4<f32>, 4>;
    for (var x = 0u; x < D; x += DEPTH) {
        // Transposed in memory, so that the rows of neighbouring threads are neighbours.
        for (var e = tile.lane; e < OWN * QUARTER; e += 256u) {
            let row = tile.first_own + e / QUARTER;
            let col = x + e % QUARTER * 4u;
            let slot = e % QUARTER * OWN + e / QUARTER;
            stage[slot] = load_own(tile.own_head, row, col);
            stage[VALUES_OF_OWN + slot] = load_own_value(tile.own_head, row, col);
        }
        for (var e = tile.lane; e < OTHERS * QUARTER; e += 256u) {
            let row = tile.first_other + e / QUARTER;
            let col = x + e % QUARTER * 4u;
            let slot = e % QUARTER * OTHERS + e / QUARTER;
            stage[OTHER_ROWS + slot] = load_other(tile.other_head, row, tile.end_other, col);
            stage[VALUES_OF_OTHERS + slot] = load_other_value(tile.other_head, row, col);
        }
        workgroupBarrier();
        for (var c = 0u; c < QUARTER; c++) {
            let row0 = stage[OTHER_ROWS + c * OTHERS + across];
            let row1 = stage[OTHER_ROWS + c * OTHERS + across + 16u];
            let value0 = stage[VALUES_OF_OTHERS + c * OTHERS + across];
            let value1 = stage[VALUES_OF_OTHERS + c * OTHERS + across + 16u];
            for (var r = 0u; r < 4u; r++) {
                let row = stage[c * OWN + down * 4u + r];
                let value = stage[VALUES_OF_OWN + c * OWN + down * 4u + r];
                found[r] += vec4<f32>(dot(row, row0), dot(row, row1), dot(value, value0), dot(value, value1));
            }
        }
        workgroupBarrier();
    }
    for (var r = 0u; r < 4u; r++) {
        let row = tile.first_own + down * 4u + r;
        let left = weigh(tile, row, tile.first_other + across, found[r].xz);
        let right = weigh(tile, row, tile.first_other + across + 16u, found[r].yw);
        found[r] = vec4<f32>(left.x, right.x, left.y, right.y);
    }
    return found;
}

// Converts a product and the gradient of its probability to the probability and the gradient of the score.
fn weigh(tile: Tile, own_row: u32, other_row: u32, products: vec2<f32>) -> vec2<f32> {
    let query = select(own_row, other_row, OF_KEYS);
    let key = select(other_row, own_row, OF_KEYS);
    let head = select(tile.own_head, tile.other_head, OF_KEYS);
    if query >= S || !sees(head, query, key) {
        return vec2<f32>();
    }
    let at = head * S + query;
    let scale = inverseSqrt(f32(D));
    let score = biased(products.x * scale, query, key, 1.0); //= CHANGES: let bounded = capped(products.x); let score = biased(sloped(bounded, slope_of(head), query, key) * scale, query, key, 1.0);
    if score == HIDDEN {
        return vec2<f32>();
    }
    let probability = exp(score - lse[at]);
    return vec2<f32>(probability, probability * (products.y - delta[at]) * scale); //= CHANGES: return vec2<f32>(probability, probability * (products.y - delta[at]) * scale * slope_of_cap(bounded));
}

// Ends with a barrier, after which all factors of the tile are stored.
fn share(lane: u32, mine: array<vec2<f32>, 4>) {
    let at = lane / 16u * 4u * STRIDE + lane % 16u;
    for (var r = 0u; r < 4u; r++) {
        factors[at + r * STRIDE] = mine[r].x;
        factors[at + r * STRIDE + 16u] = mine[r].y;
    }
    workgroupBarrier();
}

// sums += factors · the other rows of the tile, or their values. Ends with a barrier, after which factors and stage are free.
fn add_rows(sums: ptr<function, array<vec4<f32>, 4u * COLUMNS>>, tile: Tile, values: bool) {
    let row = tile.lane / 16u * 4u;
    for (var first = 0u; first < OTHERS; first += VALUES) {
        for (var e = tile.lane; e < VALUES * WIDTH; e += 256u) {
            let added = tile.first_other + first + e / WIDTH;
            if values {
                stage[e] = load_other_value(tile.other_head, added, e % WIDTH * 4u);
            } else {
                stage[e] = load_other(tile.other_head, added, tile.end_other, e % WIDTH * 4u);
            }
        }
        workgroupBarrier();
        for (var i = 0u; i < VALUES; i++) {
            let f0 = factors[row * STRIDE + first + i];
            let f1 = factors[(row + 1u) * STRIDE + first + i];
            let f2 = factors[(row + 2u) * STRIDE + first + i];
            let f3 = factors[(row + 3u) * STRIDE + first + i];
            for (var j = 0u; j < COLUMNS; j++) {
                let value = stage[i * WIDTH + tile.lane % 16u + 16u * j];
                (*sums)[j] += f0 * value;
                (*sums)[COLUMNS + j] += f1 * value;
                (*sums)[2u * COLUMNS + j] += f2 * value;
                (*sums)[3u * COLUMNS + j] += f3 * value;
            }
        }
        workgroupBarrier();
    }
}
