// Gradients from those of WIDTH columns of logits and the other matrix, by tiles. The definition is in
// core/workloads/src/ops/linear_cross_entropy.
//
// linear_cross_entropy_gradient  stores LINES rows of a gradient from row TO on
// linear_cross_entropy_dx        the same with the sums of earlier columns, which are kept in f32
//
// Rows of the other matrix begin with row FROM. BY_COLUMNS: rows of the gradient belong to columns of logits.

#import lib/launch
#import lib/product_order
#import loss_sigmoid/tile

@group(0) @binding(0) var<storage, read> slopes: array<f32>;
@group(0) @binding(1) var<storage, read> other: array<elem>;
@group(0) @binding(2) var<storage, read_write> gradient: array<elem>;
@group(0) @binding(3) var<storage, read_write> sums: array<f32>;

const ACROSS: u32 = (LENGTH + TILE - 1u) / TILE;
const DOWN: u32 = (LINES + TILE - 1u) / TILE;

fn left(row: u32, term: u32) -> f32 {
    if row < LINES && term < DEPTH {
        return slopes[select(row * WIDTH + term, term * WIDTH + row, BY_COLUMNS)];
    }
    return 0.0;
}

fn right(term: u32, column: u32) -> f32 {
    if term < DEPTH && column < LENGTH {
        return f32(other[(FROM + term) * LENGTH + column]);
    }
    return 0.0;
}

@compute @workgroup_size(THREADS)
fn linear_cross_entropy_gradient(
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
        if row < LINES && column < LENGTH {
            gradient[(TO + row) * LENGTH + column] = elem(dots[i / 4u][i % 4u]);
        }
    }
}

@compute @workgroup_size(THREADS)
fn linear_cross_entropy_dx(
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
        if row < LINES && column < LENGTH {
            let at = row * LENGTH + column;
            var sum = dots[i / 4u][i % 4u];
            if FROM > 0u {
                sum += sums[at];
            }
            sums[at] = sum;
            gradient[at] = elem(sum);
        }
    }
}
