// GEMM of attention's backward pass, in 16×16 tiles. The definition is in core/workloads/src/ops/attention.
//
// The queries of the GROUP heads with the same keys are contiguous: the keys see them as one head's.

#import lib/launch

const QUERIES: u32 = GROUP * S;

@group(0) @binding(0) var<storage, read_write> left: array<f32>;
@group(0) @binding(1) var<storage, read> right: array<elem>;
@group(0) @binding(2) var<storage, read_write> gradient: array<elem>;

var<workgroup> tile_a: array<f32, TILE * TILE>;
var<workgroup> tile_b: array<f32, TILE * TILE>;

// gradient[T × D] = leftᵀ · right for left [QUERIES × T]: gradients of keys or values from all queries.
@compute @workgroup_size(TILE, TILE)
fn attention_gradient(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_id) local: vec3<u32>,
) {
    let across = (D + TILE - 1u) / TILE;
    let down = (T + TILE - 1u) / TILE;
    let flat = flat_group(group, groups);
    let head = flat / (across * down);
    if head >= HEADS / GROUP {
        return;
    }
    let first_row = flat / across % down * TILE;
    let row = first_row + local.y;
    let col = flat % across * TILE + local.x;
    var sum = 0.0;
    for (var i = 0u; i < QUERIES; i += TILE) {
        var a = 0.0;
        var b = 0.0;
        // Along the stored rows; the product reads the tile transposed.
        if i + local.y < QUERIES && first_row + local.x < T {
            a = left[(head * QUERIES + i + local.y) * T + first_row + local.x];
        }
        if i + local.y < QUERIES && col < D {
            b = f32(right[(head * QUERIES + i + local.y) * D + col]);
        }
        let slot = local.y * TILE + local.x;
        tile_a[slot] = a;
        tile_b[slot] = b;
        workgroupBarrier();
        for (var x = 0u; x < TILE; x++) {
            sum += tile_a[x * TILE + local.y] * tile_b[x * TILE + local.x];
        }
        workgroupBarrier();
    }
    if row < T && col < D {
        gradient[(head * T + row) * D + col] = elem(sum);
    }
}
