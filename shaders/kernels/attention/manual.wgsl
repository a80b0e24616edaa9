// Scaled dot-product attention, forward, with the score matrix in device memory. The definition is in
// core/workloads/src/ops/attention.
//
// attention_scores   S×T products of 16×16 tiles, scores to device memory
// attention_softmax  one workgroup per row, in place

#import attention/common //= FORM: #import attention/scores
#import lib/launch
#import lib/reduce

@group(0) @binding(0) var<storage, read_write> scores: array<f32>;
// Bindings of attention_softmax.
#if KEEPS_LSE
@group(0) @binding(LSE_AT) var<storage, read_write> lse: array<f32>;
#endif
// Bindings of attention_scores.
@group(0) @binding(1) var<storage, read> q: array<elem>;
@group(0) @binding(2) var<storage, read> k: array<elem>;

var<workgroup> tile_a: array<f32, TILE * TILE>;
var<workgroup> tile_b: array<f32, TILE * TILE>;

@compute @workgroup_size(TILE, TILE)
fn attention_scores(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
) {
    let across = (T + TILE - 1u) / TILE;
    let down = (S + TILE - 1u) / TILE;
    let flat = flat_group(group, groups);
    let head = flat / (across * down);
    if head >= HEADS {
        return;
    }
    let first_row = flat / across % down * TILE;
    let first_col = flat % across * TILE;
    let row = first_row + local.y;
    let col = first_col + local.x;
    var sum = 0.0;
    for (var x = 0u; x < D; x += TILE) {
        let slot = local.y * TILE + local.x;
        var a = 0.0;
        var b = 0.0;
        if x + local.x < D {
            if row < S {
                a = f32(q[(head * S + row) * D + x + local.x]);
            }
            // K is read along its rows too, so that neighbouring threads read neighbours.
            if first_col + local.y < T {
                b = f32(k[(head / GROUP * T + first_col + local.y) * D + x + local.x]);
            }
        }
        tile_a[slot] = a;
        tile_b[slot] = b;
        workgroupBarrier();
        for (var i = 0u; i < TILE; i++) {
            sum += tile_a[local.y * TILE + i] * tile_b[local.x * TILE + i];
        }
        workgroupBarrier();
    }
    if row < S && col < T { //+ CHANGES: sum = changed(sum, slope_of(head), row, col);
        scores[(head * S + row) * T + col] = biased(sum * inverseSqrt(f32(D)), row, col, 1.0);
    }
}

@compute @workgroup_size(ROW_THREADS)
fn attention_softmax(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = flat_group(group, groups);
    if row >= HEADS * S {
        return;
    }
    let seen = seen_keys(row / S, row % S);
    let start = window_start(row % S);
    let base = row * T;
    var top = HIDDEN;
    for (var j = start + lane; j < seen; j += ROW_THREADS) {
        top = max(top, scores[base + j]);
    }
    top = row_max(lane, top);
    var sum = 0.0;
    for (var j = start + lane; j < seen; j += ROW_THREADS) {
        let weight = select(exp(scores[base + j] - top), 0.0, scores[base + j] == HIDDEN);
        scores[base + j] = weight;
        sum += weight;
    }
    sum = row_sum(lane, sum); //+ SINKS: let of_keys = sum; sum = with_sink(row / S, top, of_keys);
#if KEEPS_LSE
    if lane == 0u { lse[row] = select(top + log(sum), 0.0, sum == 0.0); } //= SINKS: if lane == 0u { lse[row] = log_with_sink(row / S, top, of_keys); }
#endif
    for (var j = lane; j < T; j += ROW_THREADS) {
        // A row without a visible key has sum zero.
        if j < start || j >= seen || sum == 0.0 {
            scores[base + j] = 0.0;
        } else {
            scores[base + j] /= sum;
        }
    }
}
