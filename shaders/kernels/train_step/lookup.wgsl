// Hashed features of a sample plus the table's row of its category, in pieces. The definition is in
// core/workloads/src/ops/train_step.

#import lib/launch
#import lib/pieces{WIDTH}

@group(0) @binding(0) var<storage, read> hashed: array<stored>;
@group(0) @binding(1) var<storage, read> category: array<u32>;
@group(0) @binding(2) var<storage, read> table: array<stored>;
@group(0) @binding(3) var<storage, read_write> x: array<stored>;

@compute @workgroup_size(THREADS)
fn train_step_lookup(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at < COUNT {
        x[at] = hashed[at] + table[category[at / PIECES] * PIECES + at % PIECES];
    }
}
