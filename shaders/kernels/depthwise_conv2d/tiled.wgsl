// Depthwise 2-D convolution, forward: a workgroup stages the input patch of an output tile in workgroup memory. The definition is
// in core/workloads/src/ops/depthwise_conv2d.rs.

#import depthwise_conv2d/common
#import lib/launch

var<workgroup> patch_tile: array<f32, PATCH_H * PATCH_W * TILE_C>;

@compute @workgroup_size(THREADS)
fn depthwise_conv2d_tiled(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let across = (OW + TILE_W - 1u) / TILE_W;
    let down = (OH + TILE_H - 1u) / TILE_H;
    let deep = (C + TILE_C - 1u) / TILE_C;
    let flat = flat_group(group, groups);
    let n = flat / (across * down * deep);
    if n >= N {
        return;
    }
    let first_c = flat / (across * down) % deep * TILE_C;
    let first_row = flat / across % down * TILE_H;
    let first_col = flat % across * TILE_W;

    for (var e = lane; e < PATCH_H * PATCH_W * TILE_C; e += THREADS) {
        let c = first_c + e % TILE_C;
        let y = first_row * STRIDE + e / (TILE_C * PATCH_W) - PAD;
        let at = first_col * STRIDE + e / TILE_C % PATCH_W - PAD;
        var value = 0.0;
        if c < C && y < H && at < W {
            value = f32(x[pixel(n, c, y, at)]);
        }
        patch_tile[e] = value;
    }
    workgroupBarrier();

    for (var e = lane; e < TILE_H * TILE_W * TILE_C; e += THREADS) {
        let c = e % TILE_C;
        let col = e / TILE_C % TILE_W;
        let row = e / (TILE_C * TILE_W);
        if first_c + c >= C || first_row + row >= OH || first_col + col >= OW {
            continue;
        }
        var sum = 0.0;
        for (var i = 0u; i < KH; i++) {
            for (var j = 0u; j < KW; j++) {
                let near = (row * STRIDE + i * DILATION) * PATCH_W + col * STRIDE + j * DILATION;
                sum += patch_tile[near * TILE_C + c] * f32(w[tap(first_c + c, i, j)]);
            }
        }
        let y = first_row + row;
        let at = first_col + col;
        if NHWC {
            out[((n * OH + y) * OW + at) * C + first_c + c] = elem(sum);
        } else {
            out[((n * C + first_c + c) * OH + y) * OW + at] = elem(sum);
        }
    }
}
