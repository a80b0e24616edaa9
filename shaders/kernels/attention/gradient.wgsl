// A product of attention's backward pass, in 16×16 tiles. The definition is in core/src/suite/workloads/attention.rs.

#import lib/launch

@group(0) @binding(0) var<storage, read_write> left: array<f32>;
@group(0) @binding(1) var<storage, read> right: array<elem>;
@group(0) @binding(2) var<storage, read_write> gradient: array<elem>;

var<workgroup> tile_a: array<f32, TILE * TILE>;
var<workgroup> tile_b: array<f32, TILE * TILE>;

// gradient[ROWS × D] = left · right with `left` [ROWS × INNER], or stored as [INNER × ROWS] when TRANSPOSED.
@compute @workgroup_size(TILE, TILE)
fn attention_gradient(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
) {
    let across = (D + TILE - 1u) / TILE;
    let down = (ROWS + TILE - 1u) / TILE;
    let flat = flat_group(group, groups);
    let head = flat / (across * down);
    if head >= HEADS {
        return;
    }
    let first_row = flat / across % down * TILE;
    let row = first_row + local.y;
    let col = flat % across * TILE + local.x;
    var sum = 0.0;
    for (var j = 0u; j < INNER; j += TILE) {
        var a = 0.0;
        var b = 0.0;
        if TRANSPOSED {
            // Along the rows of what is stored; the product reads the tile the other way.
            if j + local.y < INNER && first_row + local.x < ROWS {
                a = left[(head * INNER + j + local.y) * ROWS + first_row + local.x];
            }
        } else if row < ROWS && j + local.x < INNER {
            a = left[(head * ROWS + row) * INNER + j + local.x];
        }
        if j + local.y < INNER && col < D {
            b = f32(right[(head * INNER + j + local.y) * D + col]);
        }
        let slot = local.y * TILE + local.x;
        tile_a[slot] = a;
        tile_b[slot] = b;
        workgroupBarrier();
        for (var i = 0u; i < TILE; i++) {
            sum += tile_a[select(local.y * TILE + i, i * TILE + local.y, TRANSPOSED)] * tile_b[i * TILE + local.x];
        }
        workgroupBarrier();
    }
    if row < ROWS && col < D {
        gradient[(head * ROWS + row) * D + col] = elem(sum);
    }
}
