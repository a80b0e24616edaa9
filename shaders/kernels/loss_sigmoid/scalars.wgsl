// Gradients of temperature and bias from the partial sums of workgroups, side by side.

#import lib/parts

@group(0) @binding(1) var<storage, read_write> dtemperature: array<f32>;
@group(0) @binding(2) var<storage, read_write> dbias: array<f32>;

@compute @workgroup_size(32, DOWN)
fn loss_sigmoid_scalars(@builtin(local_invocation_id) local: vec3<u32>) {
    let sum = parts_sum(local.x, local);
    if local.y == 0u && local.x == 0u {
        dtemperature[0] = sum;
    } else if local.y == 0u && local.x == 1u {
        dbias[0] = sum;
    }
}
