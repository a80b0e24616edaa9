// Rows of a table copied by index, one element per thread. The definition is in core/workloads/src/ops/embedding.

#import lib/launch

@group(0) @binding(0) var<storage, read> index: array<u32>;
@group(0) @binding(1) var<storage, read> table: array<elem>;
@group(0) @binding(2) var<storage, read_write> out: array<elem>;

@compute @workgroup_size(THREADS)
fn embedding_naive(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at < COUNT {
        out[at] = table[index[at / COLUMNS] * COLUMNS + at % COLUMNS];
    }
}
