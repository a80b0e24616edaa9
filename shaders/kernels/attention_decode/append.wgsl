// Appends new tokens in a stage of its own, before `naive` and `split`. The definition is in
// core/workloads/src/ops/attention_decode.
//
// attention_decode_append  one thread per element of the new keys and values

#import attention_decode/cache
#import lib/launch

@group(0) @binding(0) var<storage, read_write> k: array<elem>;
@group(0) @binding(1) var<storage, read_write> v: array<elem>;
@group(0) @binding(2) var<storage, read> new_k: array<elem>;
@group(0) @binding(3) var<storage, read> new_v: array<elem>;
@group(0) @binding(4) var<storage, read> table: array<u32>;
@group(0) @binding(5) var<storage, read> lengths: array<u32>;

@compute @workgroup_size(THREADS)
fn attention_decode_append(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let index = flat_group(group, groups) * THREADS + thread;
    let sequence = index / (KEY_HEADS * D);
    if sequence < SEQUENCES && lengths[sequence] > 0u {
        append(sequence, index / D % KEY_HEADS, index % D);
    }
}
