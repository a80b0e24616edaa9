// Implicit GEMM of filters and pixels: tiles of both in workgroup memory, sums in registers. The definition is in
// core/workloads/src/ops/conv2d.

#import conv2d/epilogue
#import conv2d/pixels
#import lib/launch

@group(0) @binding(2) var<storage, read_write> result: array<elem>;
#if BIAS
@group(0) @binding(3) var<storage, read> bias: array<elem>;
#endif
#if NORMALISED
@group(0) @binding(4) var<storage, read> mean: array<f32>;
@group(0) @binding(5) var<storage, read> variance: array<f32>;
@group(0) @binding(6) var<storage, read> gamma: array<elem>;
@group(0) @binding(7) var<storage, read> beta: array<elem>;
#endif

fn store_column(group: u32, row: u32, column: u32, sums: vec4<f32>) {
    if column >= POSITIONS {
        return;
    }
    let at = result_at(group, row, column / TO, column % TO);
    let apart = select(TO, 1u, LAST);
    let channel = group * TO_C + row;
    if row < TO_C { result[at] = elem(epilogue(channel, sums.x)); }
    if row + 1u < TO_C { result[at + apart] = elem(epilogue(channel + 1u, sums.y)); }
    if row + 2u < TO_C { result[at + 2u * apart] = elem(epilogue(channel + 2u, sums.z)); }
    if row + 3u < TO_C { result[at + 3u * apart] = elem(epilogue(channel + 3u, sums.w)); }
}

fn store_tile(group: u32, row: u32, column: u32, slot: u32, tile: mat4x4<f32>) {
    store_column(group, row, column + column_of(slot, 0u), tile[0]);
    store_column(group, row, column + column_of(slot, 1u), tile[1]);
    store_column(group, row, column + column_of(slot, 2u), tile[2]);
    store_column(group, row, column + column_of(slot, 3u), tile[3]);
}

@compute @workgroup_size(256)
fn conv2d_implicit(
    @builtin(workgroup_id) workgroup: vec3<u32>,
    @builtin(num_workgroups) workgroups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = tile_of(flat_group(workgroup, workgroups));
    if at.x >= GROUPS {
        return;
    }
    tile_product(at.x, at.yz, 0u, TERMS, lane);
}
