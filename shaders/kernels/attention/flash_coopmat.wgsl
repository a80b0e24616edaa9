enable wgpu_cooperative_matrix;
// Scaled dot-product attention, forward, on matrix units: against `flash`, a subgroup multiplies 16×16 matrices of f16 as a
// whole and sums in f32. The definition is in core/src/suite/workloads/attention. Cooperative matrices are an extension of
// native wgpu; shaders/src/matrix.rs spells them for browsers.
//
// Four subgroups of 32 own ROWS query rows and walk over the keys in tiles of KEYS. A matrix does not tell which thread has
// which element, so that what goes by rows passes through workgroup memory: scores become weights there, one thread a row,
// and sums of values lie there between the tiles, to be scaled down when a row's maximum rises.
//
// The validator takes a call's result for one that may differ within a workgroup: what decides how often matrices are
// multiplied is written out. The T in the names of loads and stores means rows that lie one after the other; keys are taken
// as columns.

#import attention/common

@group(0) @binding(0) var<storage, read> q: array<elem>;
@group(0) @binding(1) var<storage, read> k: array<elem>;
@group(0) @binding(2) var<storage, read> v: array<elem>;
@group(0) @binding(3) var<storage, read_write> out: array<elem>;

const LOG2_E: f32 = 1.4426950408889634;
const PADDING: u32 = 8u;
// Elements from one staged row to the next: of 16-bit floats padded, so that neighbours start in different memory banks.
const WIDE: u32 = WIDTH + PADDING;
const LONG: u32 = KEYS + PADDING;
const BANDS: u32 = ROWS / 16u;

var<workgroup> queries: array<f16, ROWS * WIDE>;
// Keys while scores are computed, values afterwards.
var<workgroup> stage: array<f16, KEYS * WIDE>;
var<workgroup> scores: array<f32, ROWS * KEYS>;
var<workgroup> weights: array<f16, ROWS * LONG>;
var<workgroup> sums: array<f32, ROWS * WIDTH>;
var<workgroup> rescale: array<f32, ROWS>;

@compute @workgroup_size(128)
fn attention_flash_coopmat(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_id) subgroup: u32,
) {
    let blocks = (S + ROWS - 1u) / ROWS;
    let flat = group.y * groups.x + group.x;
    let head = flat / blocks;
    if head >= HEADS {
        return;
    }
    let first_row = flat % blocks * ROWS;
    // Keys that the last row sees.
    var last = T;
    if CAUSAL {
        last = min(T, max(min(first_row + ROWS, S) + T, S) - S);
    }
#when OWN_LENGTHS     last = min(last, lengths[head / ITEM_HEADS]);
    let first_key = head / GROUP * T;
    let scale = inverseSqrt(f32(D)) * LOG2_E;
    // Of the row that has this thread's number, where there is one.
    let query = first_row + thread;
    let seen = seen_keys(head, min(query, S - 1u));
    var top = HIDDEN;
    var sum = 0.0;

    for (var e = thread; e < ROWS * WIDTH; e += 128u) {
        let row = first_row + e / WIDTH;
        let col = e % WIDTH;
        var x = f16();
        if row < S && col < D {
            x = q[(head * S + row) * D + col];
        }
        queries[e / WIDTH * WIDE + col] = x;
        sums[e] = 0.0;
    }

    for (var key = 0u; key < last; key += KEYS) {
        for (var e = thread; e < KEYS * WIDTH; e += 128u) {
            let row = key + e / WIDTH;
            let col = e % WIDTH;
            var x = f16();
            if row < T && col < D {
                x = k[(first_key + row) * D + col];
            }
            stage[e / WIDTH * WIDE + col] = x;
        }
        workgroupBarrier();
        for (var i = 0u; i < BANDS * (KEYS / 16u) / 4u; i++) {
            let tile = i * 4u + subgroup;
            let row = tile % BANDS * 16u;
            let col = tile / BANDS * 16u;
            var product = coop_mat16x16<f32, C>();
            for (var x = 0u; x < WIDTH; x += 16u) {
                let left = coopLoadT<coop_mat16x16<f16, A>>(&queries[row * WIDE + x], WIDE);
                let right = coopLoad<coop_mat16x16<f16, B>>(&stage[col * WIDE + x], WIDE);
                product = coopMultiplyAdd(left, right, product);
            }
            coopStoreT(product, &scores[row * KEYS + col], KEYS);
        }
        workgroupBarrier();

        if thread < ROWS {
            let before = top;
            for (var j = 0u; j < KEYS; j++) {
                var score = HIDDEN;
                if key + j < seen {
                    score = biased(scores[thread * KEYS + j] * scale, query, key + j, LOG2_E);
                }
                scores[thread * KEYS + j] = score;
                top = max(top, score);
            }
            let shrink = exp2(before - top);
            sum *= shrink;
            for (var j = 0u; j < KEYS; j++) {
                let score = scores[thread * KEYS + j];
                let weight = select(0.0, exp2(score - top), score > HIDDEN);
                sum += weight;
                weights[thread * LONG + j] = f16(weight);
            }
            rescale[thread] = shrink;
        }
        for (var e = thread; e < KEYS * WIDTH; e += 128u) {
            let row = key + e / WIDTH;
            let col = e % WIDTH;
            var x = f16();
            if row < T && col < D {
                x = v[(first_key + row) * D + col];
            }
            stage[e / WIDTH * WIDE + col] = x;
        }
        workgroupBarrier();
        for (var e = thread; e < ROWS * WIDTH; e += 128u) {
            sums[e] *= rescale[e / WIDTH];
        }
        workgroupBarrier();
        for (var i = 0u; i < BANDS * (WIDTH / 16u) / 4u; i++) {
            let tile = i * 4u + subgroup;
            let row = tile % BANDS * 16u;
            let col = tile / BANDS * 16u;
            var total = coopLoadT<coop_mat16x16<f32, C>>(&sums[row * WIDTH + col], WIDTH);
            for (var j = 0u; j < KEYS; j += 16u) {
                let left = coopLoadT<coop_mat16x16<f16, A>>(&weights[row * LONG + j], LONG);
                let right = coopLoadT<coop_mat16x16<f16, B>>(&stage[j * WIDE + col], WIDE);
                total = coopMultiplyAdd(left, right, total);
            }
            coopStoreT(total, &sums[row * WIDTH + col], WIDTH);
        }
        workgroupBarrier();
    }

    // A row that sees no key has sum zero and output zero.
    workgroupBarrier();
    if thread < ROWS {
        rescale[thread] = select(0.0, 1.0 / sum, sum > 0.0);
    }
    workgroupBarrier();
    for (var e = thread; e < ROWS * WIDTH; e += 128u) {
        let row = first_row + e / WIDTH;
        let col = e % WIDTH;
        if row < S && col < D {
            out[(head * S + row) * D + col] = f16(sums[e] * rescale[e / WIDTH]);
        }
    }
}
