// A token of each row from its K largest logits in falling order, by one thread a row. The definition is in
// core/workloads/src/ops/sample.rs.

#import lib/launch
#import sample/weight

@group(0) @binding(0) var<storage, read> values: array<elem>;
@group(0) @binding(1) var<storage, read> indices: array<u32>;
@group(0) @binding(2) var<storage, read> u: array<f32>;
@group(0) @binding(3) var<storage, read_write> token: array<u32>;
@group(0) @binding(4) var<storage, read_write> probability: array<f32>;

@compute @workgroup_size(THREADS)
fn sample_naive(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = flat_group(group, groups) * THREADS + thread;
    if row >= ROWS {
        return;
    }
    let base = row * K;
    let top = f32(values[base]);
    if !is_finite(top) {
        token[row] = indices[base];
        probability[row] = not_a_number(top);
        return;
    }
    var sum = 0.0;
    for (var i = 0u; i < K; i++) {
        sum += weight(f32(values[base + i]), top);
    }
    var kept = 0u;
    var total = 0.0;
    while kept < K && (kept == 0u || ALL_P || total < TOP_P * sum) {
        let more = weight(f32(values[base + kept]), top);
        if more < MIN_P {
            break;
        }
        total += more;
        kept++;
    }
    var place = 0u;
    var upto = weight(top, top);
    while place + 1u < kept && upto <= u[row] * total {
        place++;
        upto += weight(f32(values[base + place]), top);
    }
    token[row] = indices[base + place];
    probability[row] = weight(f32(values[base + place]), top) / total;
}
