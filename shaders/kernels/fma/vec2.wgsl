// Fused multiply-adds on four accumulators of two elements. The definition is in
// core/workloads/src/ops/fma.rs.

#import fma/common
#import lib/launch

#emit sixteen(vec2<elem>)

@compute @workgroup_size(THREADS)
fn fma_vec2(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = flat_group(group, groups) * THREADS + lane;
    if index >= N {
        return;
    }
    let factor = vec2<elem>(a[index * 2u], a[index * 2u + 1u]);
    let b0 = vec2<elem>(b[index * 8u], b[index * 8u + 1u]);
    let b1 = vec2<elem>(b[index * 8u + 2u], b[index * 8u + 3u]);
    let b2 = vec2<elem>(b[index * 8u + 4u], b[index * 8u + 5u]);
    let b3 = vec2<elem>(b[index * 8u + 6u], b[index * 8u + 7u]);
    var x0 = b0;
    var x1 = b1;
    var x2 = b2;
    var x3 = b3;
    for (var round = 0u; round < K / 16u; round++) {
        x0 = sixteen(x0, factor, b0);
        x1 = sixteen(x1, factor, b1);
        x2 = sixteen(x2, factor, b2);
        x3 = sixteen(x3, factor, b3);
    }
    for (var round = 0u; round < K % 16u; round++) {
        x0 = fma(x0, factor, b0);
        x1 = fma(x1, factor, b1);
        x2 = fma(x2, factor, b2);
        x3 = fma(x3, factor, b3);
    }
    let sum = (vec2<f32>(x0) + vec2<f32>(x1)) + (vec2<f32>(x2) + vec2<f32>(x3));
    out[index] = sum.x + sum.y;
}
