// Gradients of WIDTH columns of logits from column FIRST on, by tiles, in f32. The definition is in
// core/workloads/src/ops/linear_cross_entropy.

#import lib/launch
#import lib/product_order
#import linear_cross_entropy/slope
#import loss_sigmoid/tile

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> w: array<elem>;
@group(0) @binding(2) var<storage, read> targets: array<u32>;
@group(0) @binding(3) var<storage, read> lse: array<f32>;
@group(0) @binding(4) var<storage, read> dloss: array<f32>;
@group(0) @binding(5) var<storage, read_write> slopes: array<f32>;

const ACROSS: u32 = (WIDTH + TILE - 1u) / TILE;
const DOWN: u32 = (ROWS + TILE - 1u) / TILE;

fn left(row: u32, term: u32) -> f32 {
    if row < ROWS && term < DEPTH {
        return f32(x[row * DEPTH + term]);
    }
    return 0.0;
}

fn right(term: u32, column: u32) -> f32 {
    if column < WIDTH && term < DEPTH {
        return f32(w[(FIRST + column) * DEPTH + term]);
    }
    return 0.0;
}

@compute @workgroup_size(THREADS)
fn linear_cross_entropy_slopes(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let index = flat_group(group, groups);
    if index >= ACROSS * DOWN {
        return;
    }
    let tile = tile_at(index, ACROSS, DOWN) * TILE;
    var dots = tile_product(tile.y, tile.x, thread);
    for (var i = 0u; i < 16u; i++) {
        let row = tile.y + thread / 16u * 4u + i / 4u;
        let column = tile.x + thread % 16u * 4u + i % 4u;
        if row < ROWS && column < WIDTH {
            slopes[row * WIDTH + column] =
                slope_of(FIRST + column, targets[row], dots[i / 4u][i % 4u], lse[row], dloss[row]);
        }
    }
}
