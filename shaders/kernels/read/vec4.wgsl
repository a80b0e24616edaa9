// Read: a workgroup sums one chunk, each thread vector after vector. The definition is in core/workloads/src/ops/read.rs.

#import lib/launch
#import read/common

@compute @workgroup_size(THREADS)
fn read_vec4(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let chunk = flat_group(group, groups);
    let begin = chunk * CHUNK_VECTORS;
    if begin >= VECTORS {
        return;
    }
    var sum = vec4<f32>();
    if begin + CHUNK_VECTORS <= N / PER_VECTOR {
        for (var v = begin + lane; v < begin + CHUNK_VECTORS; v += THREADS) {
            sum += widened(x[v]);
        }
    } else {
        for (var v = begin + lane; v < begin + CHUNK_VECTORS; v += THREADS) {
            sum += last_vector(v);
        }
    }
    write_sum(chunk, lane, sum);
}
