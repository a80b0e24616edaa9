// A window of a hash embedding's output cleared, sixteen bytes a thread: OWNED groups from FIRST on, a multiple of four. Buffers are whole
// vectors long.

#import lib/launch

@group(0) @binding(0) var<storage, read_write> out: array<vec4<u32>>;

@compute @workgroup_size(THREADS)
fn hash_embedding_zero(
    @builtin(workgroup_id) block: vec3<u32>,
    @builtin(num_workgroups) blocks: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = flat_group(block, blocks) * THREADS + lane;
    if index < (OWNED * DIM + 3u) / 4u {
        out[FIRST * DIM / 4u + index] = vec4<u32>();
    }
}
