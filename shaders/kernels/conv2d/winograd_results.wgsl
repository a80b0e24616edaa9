// Tiles of 2 × 2 results from the sums of Winograd's GEMMs: see core/workloads/src/ops/conv2d/winograd.rs.

#import conv2d/common
#import conv2d/epilogue
#import conv2d/winograd
#import lib/launch

@group(0) @binding(0) var<storage, read> products: array<f32>;
@group(0) @binding(1) var<storage, read_write> result: array<elem>;
#if BIAS
@group(0) @binding(2) var<storage, read> bias: array<elem>;
#endif

const CHANNELS: u32 = GROUPS * TO_C;

// Transforms four values to two, along a row or a column.
fn together(x: vec4<f32>) -> vec2<f32> {
    return vec2<f32>(x.x + x.y + x.z, x.y - x.z - x.w);
}

fn store(channel: u32, image: u32, row: u32, column: u32, sum: f32) {
    if row < TO_H && column < TO_W {
        let at = result_at(channel / TO_C, channel % TO_C, image, row * TO_W + column);
        result[at] = elem(epilogue(channel, sum));
    }
}

@compute @workgroup_size(THREADS)
fn conv2d_winograd_results(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = flat_group(workgroup, workgroups) * THREADS + lane;
    if index >= CHANNELS * TILES {
        return;
    }
    let thing = of_thread(index, CHANNELS);
    let at = element_of(thing.x, thing.y, TO_C);
    var rows = array<vec2<f32>, 4>();
    for (var i = 0u; i < 4u; i++) {
        rows[i] = together(vec4<f32>(
            products[4u * i * (CHANNELS * TILES) + at],
            products[(4u * i + 1u) * (CHANNELS * TILES) + at],
            products[(4u * i + 2u) * (CHANNELS * TILES) + at],
            products[(4u * i + 3u) * (CHANNELS * TILES) + at],
        ));
    }
    let left = together(vec4<f32>(rows[0].x, rows[1].x, rows[2].x, rows[3].x));
    let right = together(vec4<f32>(rows[0].y, rows[1].y, rows[2].y, rows[3].y));
    let corner = corner_of(thing.y);
    store(thing.x, corner.x, corner.y, corner.z, left.x);
    store(thing.x, corner.x, corner.y, corner.z + 1u, right.x);
    store(thing.x, corner.x, corner.y + 1u, corner.z, left.y);
    store(thing.x, corner.x, corner.y + 1u, corner.z + 1u, right.y);
}
