// Last stage of attention_decode's `split`.
//
// attention_decode_combine  a workgroup per row of the output: weighted sum of the parts of its sequence

#import lib/launch
#import lib/lowest

@group(0) @binding(0) var<storage, read> parts: array<f32>;
@group(0) @binding(1) var<storage, read> numbers: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<elem>;

@compute @workgroup_size(THREADS)
fn attention_decode_combine(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = flat_group(group, groups);
    if row >= ROWS {
        return;
    }
    let first = row * SPLITS;
    var top = LOWEST;
    for (var i = first; i < first + SPLITS; i++) {
        top = max(top, numbers[2u * i]);
    }
    var total = 0.0;
    for (var i = first; i < first + SPLITS; i++) {
        total += numbers[2u * i + 1u] * exp2(numbers[2u * i] - top);
    }
    for (var x = thread; x < D; x += THREADS) {
        var sum = 0.0;
        for (var i = first; i < first + SPLITS; i++) {
            sum += parts[i * D + x] * exp2(numbers[2u * i] - top);
        }
        // An empty sequence has no weights.
        out[row * D + x] = elem(select(sum / total, 0.0, total == 0.0));
    }
}
