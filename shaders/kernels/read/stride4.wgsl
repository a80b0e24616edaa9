// Read: four independent loads are in flight per thread before the first is added. The definition is in
// core/workloads/src/ops/read.rs.

#import lib/launch
#import read/common

@compute @workgroup_size(THREADS)
fn read_stride4(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let chunk = flat_group(group, groups);
    let begin = chunk * CHUNK_VECTORS;
    if begin >= VECTORS {
        return;
    }
    var s0 = vec4<f32>();
    var s1 = vec4<f32>();
    var s2 = vec4<f32>();
    var s3 = vec4<f32>();
    if begin + CHUNK_VECTORS <= N / PER_VECTOR {
        for (var v = begin + lane; v < begin + CHUNK_VECTORS; v += 4u * THREADS) {
            let v0 = x[v];
            let v1 = x[v + THREADS];
            let v2 = x[v + 2u * THREADS];
            let v3 = x[v + 3u * THREADS];
            s0 += widened(v0);
            s1 += widened(v1);
            s2 += widened(v2);
            s3 += widened(v3);
        }
    } else {
        for (var v = begin + lane; v < begin + CHUNK_VECTORS; v += THREADS) {
            s0 += last_vector(v);
        }
    }
    write_sum(chunk, lane, (s0 + s1) + (s2 + s3));
}
