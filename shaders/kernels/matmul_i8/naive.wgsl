// int8 GEMM, one output element per thread, words read from device memory and multiplied number by number. The definition is in
// core/workloads/src/ops/matmul_i8.rs.

#import lib/launch

@group(0) @binding(0) var<storage, read> a: array<u32>;
@group(0) @binding(1) var<storage, read> b: array<u32>;
@group(0) @binding(2) var<storage, read> a_scale: array<f32>;
@group(0) @binding(3) var<storage, read> b_scale: array<f32>;
@group(0) @binding(4) var<storage, read_write> c: array<elem>;

// Number at a place of a word.
fn number(word: u32, place: u32) -> i32 {
    return extractBits(bitcast<i32>(word), 8u * place, 8u);
}

@compute @workgroup_size(16, 16)
fn matmul_i8_naive(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
) {
    let across = (N + 15u) / 16u;
    let index = flat_group(group, groups);
    let row = index / across * 16u + local.y;
    let col = index % across * 16u + local.x;
    if row >= M || col >= N {
        return;
    }
    var sum = 0;
    for (var i = 0u; i < WORDS; i++) {
        let left = a[row * WORDS + i];
        let right = b[col * WORDS + i];
        sum += number(left, 0u) * number(right, 0u);
        sum += number(left, 1u) * number(right, 1u);
        sum += number(left, 2u) * number(right, 2u);
        sum += number(left, 3u) * number(right, 3u);
    }
    c[row * N + col] = elem(a_scale[row] * b_scale[col] * f32(sum));
}
