// Interpolated taps of a deformable convolution, in pieces of WIDTH channels: rows of a GEMM. The definition is in
// core/workloads/src/ops/deform_conv2d.rs.

#import deform_conv2d/places
#import lib/launch
#import lib/pieces{WIDTH}

@group(0) @binding(0) var<storage, read> x: array<stored>;
@group(0) @binding(1) var<storage, read> offset: array<vec2<f32>>;
@group(0) @binding(2) var<storage, read> mask: array<elem>;
@group(0) @binding(3) var<storage, read_write> taps: array<stored>;

const PIECES: u32 = C / WIDTH;

@compute @workgroup_size(THREADS)
fn deform_conv2d_taps(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at >= COUNT {
        return;
    }
    let number = at / PIECES;
    let channel = at % PIECES;
    let own = beside(offset[number], number / (K * K), number % (K * K));
    let share = f32(mask[number]);
    var sum = piece();
    for (var i = 0u; i < 4u; i++) {
        if own.inside[i] {
            sum += own.weights[i] * piece(x[own.pixels[i] * PIECES + channel]);
        }
    }
    taps[at] = stored(sum * share);
}
