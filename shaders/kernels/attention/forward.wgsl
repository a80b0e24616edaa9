// Scaled dot-product attention, forward, for the set-up of the backward pass: any head_dim, no matrix of scores. The definition
// is in core/workloads/src/ops/attention.
//
// attention_forward  a workgroup per query: output and log-sum-exp by an online softmax over tiles of keys, one key per thread

#import attention/common //= FORM: #import attention/scores
#import lib/launch
#import lib/reduce

@group(0) @binding(0) var<storage, read> q: array<elem>;
@group(0) @binding(1) var<storage, read> k: array<elem>;
@group(0) @binding(2) var<storage, read> v: array<elem>;
@group(0) @binding(3) var<storage, read_write> out: array<elem>;
@group(0) @binding(4) var<storage, read_write> lse: array<f32>;

var<workgroup> weights: array<f32, ROW_THREADS>;

@compute @workgroup_size(ROW_THREADS)
fn attention_forward(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = flat_group(group, groups);
    if row >= HEADS * S {
        return;
    }
    let first_key = row / S / GROUP * T;
    let seen = seen_keys(row / S, row % S);
    let scale = inverseSqrt(f32(D));
    var top = HIDDEN;
    var sum = 0.0;
    var sums: array<f32, COLUMNS>;
    for (var first = window_start(row % S); first < seen; first += ROW_THREADS) {
        var score = HIDDEN;
        if first + lane < seen {
            var product = 0.0;
            for (var x = 0u; x < D; x++) {
                product += f32(q[row * D + x]) * f32(k[(first_key + first + lane) * D + x]);
            } //+ CHANGES: product = changed(product, slope_of(row / S), row % S, first + lane);
            score = biased(product * scale, row % S, first + lane, 1.0);
        }
        let before = top;
        // Its barriers also end the reads of the previous tile's weights.
        top = max(top, row_max(lane, score));
        let weight = select(exp(score - top), 0.0, score == HIDDEN);
        weights[lane] = weight;
        let shrink = exp(before - top);
        sum = sum * shrink + row_sum(lane, weight);
        for (var c = 0u; c < COLUMNS; c++) {
            let x = lane + c * ROW_THREADS;
            if x < D {
                var total = sums[c] * shrink;
                for (var i = 0u; i < min(ROW_THREADS, seen - first); i++) {
                    total += weights[i] * f32(v[(first_key + first + i) * D + x]);
                }
                sums[c] = total;
            }
        }
    } //+ SINKS: let logarithm = log_with_sink(row / S, top, sum); sum = with_sink(row / S, top, sum);
    for (var c = 0u; c < COLUMNS; c++) {
        let x = lane + c * ROW_THREADS;
        if x < D {
            out[row * D + x] = elem(select(sums[c] / sum, 0.0, sum == 0.0));
        }
    }
    if lane == 0u {
        // A row without a visible key has no probabilities. Zero is stored for its logarithm, and never read.
        lse[row] = select(top + log(sum), 0.0, sum == 0.0); //= SINKS: lse[row] = logarithm;
    }
}
