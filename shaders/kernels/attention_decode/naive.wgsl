// Attention of one token per sequence, without optimisations. The definition is in core/workloads/src/ops/attention_decode.
//
// attention_decode_naive  one workgroup per head of queries: scores to device memory, softmax, weighted sum

#import attention_decode/cache
#import lib/launch
#import lib/lowest
#import lib/reduce

@group(0) @binding(0) var<storage, read> q: array<elem>;
@group(0) @binding(1) var<storage, read> k: array<elem>;
@group(0) @binding(2) var<storage, read> v: array<elem>;
@group(0) @binding(3) var<storage, read> table: array<u32>;
@group(0) @binding(4) var<storage, read> lengths: array<u32>;
@group(0) @binding(5) var<storage, read_write> scores: array<f32>;
@group(0) @binding(6) var<storage, read_write> out: array<elem>;

@compute @workgroup_size(ROW_THREADS)
fn attention_decode_naive(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = flat_group(group, groups);
    if row >= SEQUENCES * HEADS {
        return;
    }
    let sequence = row / HEADS;
    let key_head = row % HEADS / (HEADS / KEY_HEADS);
    let length = lengths[sequence];
    let base = row * T;
    let scale = inverseSqrt(f32(D));
    var top = LOWEST;
    for (var j = lane; j < length; j += ROW_THREADS) {
        let at = cache_at(sequence, j, key_head);
        var product = 0.0;
        for (var x = 0u; x < D; x++) {
            product += f32(q[row * D + x]) * f32(k[at + x]);
        }
        scores[base + j] = product * scale;
        top = max(top, product * scale);
    }
    top = row_max(lane, top);
    var sum = 0.0;
    for (var j = lane; j < length; j += ROW_THREADS) {
        let weight = exp(scores[base + j] - top);
        scores[base + j] = weight;
        sum += weight;
    }
    sum = row_sum(lane, sum);
    // Each thread needs the weights of all threads.
    storageBarrier();
    for (var x = lane; x < D; x += ROW_THREADS) {
        var total = 0.0;
        for (var j = 0u; j < length; j++) {
            total += scores[base + j] * f32(v[cache_at(sequence, j, key_head) + x]);
        }
        out[row * D + x] = elem(select(0.0, total / sum, length > 0u));
    }
}
