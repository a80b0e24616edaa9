// Dropout, the four elements of a counter per thread: every random word is used. The definition is in
// core/workloads/src/ops/dropout.
//
// dropout_stored       stores the mask: a word per counter, a byte of it per element
// dropout_by_mask      drops the same elements again, by the mask
// dropout_regenerated  without a mask

#import dropout/elements{WIDTH}
#import lib/launch
#import lib/philox

@group(0) @binding(1) var<storage, read> seed: array<u32>;
@group(0) @binding(3) var<storage, read_write> mask: array<u32>;
// Binding of the backward pass.
@group(0) @binding(1) var<storage, read> kept: array<u32>;

fn draw(counter: u32) -> vec4<bool> {
    let words = philox(vec4<u32>(counter, 0u, 0u, 0u), vec2<u32>(seed[0], seed[1]));
    return words >= vec4<u32>(THRESHOLD);
}

fn drop_others(counter: u32, which: vec4<bool>) {
    store_vec4(counter, select(vec4<f32>(), FACTOR * load_vec4(counter), which));
}

@compute @workgroup_size(THREADS)
fn dropout_stored(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let counter = flat_group(group, groups) * THREADS + lane;
    if counter >= COUNT {
        return;
    }
    let which = draw(counter);
    drop_others(counter, which);
    let bytes = select(vec4<u32>(), vec4<u32>(1u, 1u << 8u, 1u << 16u, 1u << 24u), which);
    mask[counter] = bytes.x | bytes.y | bytes.z | bytes.w;
}

@compute @workgroup_size(THREADS)
fn dropout_by_mask(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let counter = flat_group(group, groups) * THREADS + lane;
    if counter < COUNT {
        let bytes = vec4<u32>(kept[counter]) & vec4<u32>(0xffu, 0xffu << 8u, 0xffu << 16u, 0xffu << 24u);
        drop_others(counter, bytes != vec4<u32>());
    }
}

@compute @workgroup_size(THREADS)
fn dropout_regenerated(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let counter = flat_group(group, groups) * THREADS + lane;
    if counter < COUNT {
        drop_others(counter, draw(counter));
    }
}
