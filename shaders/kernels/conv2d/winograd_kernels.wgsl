// Filters of 3 × 3, transformed for Winograd's GEMMs, one per pair of channels: see core/workloads/src/ops/conv2d/winograd.rs.

#import conv2d/common
#import lib/launch

@group(0) @binding(0) var<storage, read> w: array<elem>;
@group(0) @binding(1) var<storage, read_write> kernels: array<f32>;

const PAIRS: u32 = GROUPS * TO_C * FROM_C;

// Transforms three values to four, along a row or a column.
fn spread_out(x: vec3<f32>) -> vec4<f32> {
    let ends = x.x + x.z;
    return vec4<f32>(x.x, 0.5 * (ends + x.y), 0.5 * (ends - x.y), x.z);
}

@compute @workgroup_size(THREADS)
fn conv2d_winograd_kernels(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = flat_group(workgroup, workgroups) * THREADS + lane;
    if index >= PAIRS {
        return;
    }
    let m = index / FROM_C;
    let c = index % FROM_C;
    let group = m / TO_C;
    let own = m % TO_C;
    var rows = array<vec4<f32>, 3>();
    for (var i = 0u; i < 3u; i++) {
        rows[i] = spread_out(vec3<f32>(
            f32(w[weight_at(group, own, c, 3u * i)]),
            f32(w[weight_at(group, own, c, 3u * i + 1u)]),
            f32(w[weight_at(group, own, c, 3u * i + 2u)]),
        ));
    }
    for (var j = 0u; j < 4u; j++) {
        let column = spread_out(vec3<f32>(rows[0][j], rows[1][j], rows[2][j]));
        kernels[j * PAIRS + index] = column.x;
        kernels[(4u + j) * PAIRS + index] = column.y;
        kernels[(8u + j) * PAIRS + index] = column.z;
        kernels[(12u + j) * PAIRS + index] = column.w;
    }
}
