// Fused multiply-adds on eight accumulators of one element. The definition is in
// core/workloads/src/ops/fma.rs.

#import fma/common
#import lib/launch

#emit sixteen(elem)

@compute @workgroup_size(THREADS)
fn fma_scalar(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = flat_group(group, groups) * THREADS + lane;
    if index >= N {
        return;
    }
    let even = a[index * 2u];
    let odd = a[index * 2u + 1u];
    let b0 = b[index * 8u];
    let b1 = b[index * 8u + 1u];
    let b2 = b[index * 8u + 2u];
    let b3 = b[index * 8u + 3u];
    let b4 = b[index * 8u + 4u];
    let b5 = b[index * 8u + 5u];
    let b6 = b[index * 8u + 6u];
    let b7 = b[index * 8u + 7u];
    var x0 = b0;
    var x1 = b1;
    var x2 = b2;
    var x3 = b3;
    var x4 = b4;
    var x5 = b5;
    var x6 = b6;
    var x7 = b7;
    for (var round = 0u; round < K / 16u; round++) {
        x0 = sixteen(x0, even, b0);
        x1 = sixteen(x1, odd, b1);
        x2 = sixteen(x2, even, b2);
        x3 = sixteen(x3, odd, b3);
        x4 = sixteen(x4, even, b4);
        x5 = sixteen(x5, odd, b5);
        x6 = sixteen(x6, even, b6);
        x7 = sixteen(x7, odd, b7);
    }
    for (var round = 0u; round < K % 16u; round++) {
        x0 = fma(x0, even, b0);
        x1 = fma(x1, odd, b1);
        x2 = fma(x2, even, b2);
        x3 = fma(x3, odd, b3);
        x4 = fma(x4, even, b4);
        x5 = fma(x5, odd, b5);
        x6 = fma(x6, even, b6);
        x7 = fma(x7, odd, b7);
    }
    let left = (f32(x0) + f32(x1)) + (f32(x2) + f32(x3));
    let right = (f32(x4) + f32(x5)) + (f32(x6) + f32(x7));
    out[index] = left + right;
}
