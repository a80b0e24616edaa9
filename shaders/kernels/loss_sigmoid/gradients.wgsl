// Gradient of one set of embeddings from the slopes and the other set, by tiles. The definition is in
// core/workloads/src/ops/loss_sigmoid.

#import lib/launch
#import loss_sigmoid/tile

@group(0) @binding(0) var<storage, read> slopes: array<f32>;
@group(0) @binding(1) var<storage, read> temperature: array<f32>;
@group(0) @binding(2) var<storage, read> other: array<elem>;
@group(0) @binding(3) var<storage, read_write> gradient: array<elem>;

fn left(row: u32, term: u32) -> f32 {
    if row < N && term < N {
        return slopes[select(row * N + term, term * N + row, BY_COLUMNS)];
    }
    return 0.0;
}

fn right(term: u32, column: u32) -> f32 {
    if term < N && column < D {
        return f32(other[term * D + column]);
    }
    return 0.0;
}

@compute @workgroup_size(256)
fn loss_sigmoid_gradient(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let tile = flat_group(group, groups);
    if tile >= TILES {
        return;
    }
    let corner = vec2<u32>(tile / ACROSS, tile % ACROSS) * TILE;
    var sums = tile_product(corner.x, corner.y, thread);
    for (var i = 0u; i < 16u; i++) {
        let row = corner.x + thread / 16u * 4u + i / 4u;
        let column = corner.y + thread % 16u * 4u + i % 4u;
        if row < N && column < D {
            gradient[row * D + column] = elem(temperature[0] * sums[i / 4u][i % 4u]);
        }
    }
}
