// Tiles of 4 × 4 pixels, transformed for Winograd's GEMMs: see core/workloads/src/ops/conv2d/winograd.rs.

#import conv2d/common
#import conv2d/winograd
#import lib/launch

@group(0) @binding(0) var<storage, read> source: array<elem>;
@group(0) @binding(1) var<storage, read_write> pixels: array<f32>;

const CHANNELS: u32 = GROUPS * FROM_C;

fn pixel(channel: u32, image: u32, row: u32, column: u32) -> f32 {
    if row >= FROM_H || column >= FROM_W {
        return 0.0;
    }
    return f32(source[source_at(channel / FROM_C, channel % FROM_C, image, row * FROM_W + column)]);
}

// Differences along a row or a column.
fn apart(x: vec4<f32>) -> vec4<f32> {
    return vec4<f32>(x.x - x.z, x.y + x.z, x.z - x.y, x.y - x.w);
}

@compute @workgroup_size(THREADS)
fn conv2d_winograd_pixels(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = flat_group(workgroup, workgroups) * THREADS + lane;
    if index >= CHANNELS * TILES {
        return;
    }
    let thing = of_thread(index, CHANNELS);
    let corner = corner_of(thing.y);
    // Coordinates before the image wrap around and exceed its extent.
    let row = corner.y - PAD;
    let column = corner.z - PAD;
    var rows = array<vec4<f32>, 4>();
    for (var i = 0u; i < 4u; i++) {
        rows[i] = apart(vec4<f32>(
            pixel(thing.x, corner.x, row + i, column),
            pixel(thing.x, corner.x, row + i, column + 1u),
            pixel(thing.x, corner.x, row + i, column + 2u),
            pixel(thing.x, corner.x, row + i, column + 3u),
        ));
    }
    let at = element_of(thing.x, thing.y, FROM_C);
    for (var j = 0u; j < 4u; j++) {
        let down = apart(vec4<f32>(rows[0][j], rows[1][j], rows[2][j], rows[3][j]));
        pixels[j * (CHANNELS * TILES) + at] = down.x;
        pixels[(4u + j) * (CHANNELS * TILES) + at] = down.y;
        pixels[(8u + j) * (CHANNELS * TILES) + at] = down.z;
        pixels[(12u + j) * (CHANNELS * TILES) + at] = down.w;
    }
}
