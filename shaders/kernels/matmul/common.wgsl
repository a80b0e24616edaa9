// Shared by the variants of matmul: bindings, vectors of A and B with zeros outside, and the order of tiles.

@group(0) @binding(0) var<storage, read> a: array<vec4<elem>>;
@group(0) @binding(1) var<storage, read> b: array<vec4<elem>>;
@group(0) @binding(2) var<storage, read_write> c: array<elem>;

// Columns col .. col + 3 of a row of A; col is a multiple of four.
fn four_of_a(row: u32, col: u32) -> vec4<elem> {
    var x = vec4<elem>();
    if row >= M || col >= K {
        return x;
    }
    let at = row * K + col;
    if K % 4u == 0u {
        return a[at / 4u];
    }
    x.x = a[at / 4u][at % 4u];
    if col + 1u < K { x.y = a[(at + 1u) / 4u][(at + 1u) % 4u]; }
    if col + 2u < K { x.z = a[(at + 2u) / 4u][(at + 2u) % 4u]; }
    if col + 3u < K { x.w = a[(at + 3u) / 4u][(at + 3u) % 4u]; }
    return x;
}

// Columns col .. col + 3 of a row of B; col is a multiple of four.
fn four_of_b(row: u32, col: u32) -> vec4<elem> {
    var x = vec4<elem>();
    if row >= K || col >= N {
        return x;
    }
    let at = row * N + col;
    if N % 4u == 0u {
        return b[at / 4u];
    }
    x.x = b[at / 4u][at % 4u];
    if col + 1u < N { x.y = b[(at + 1u) / 4u][(at + 1u) % 4u]; }
    if col + 2u < N { x.z = b[(at + 2u) / 4u][(at + 2u) % 4u]; }
    if col + 3u < N { x.w = b[(at + 3u) / 4u][(at + 3u) % 4u]; }
    return x;
}

const BAND: u32 = 8u;

// Column and row of the index-th of across x down tiles. Tiles are taken column by column within bands of eight rows, so
// that workgroups that run together share rows of A and columns of B in the cache.
fn tile_at(index: u32, across: u32, down: u32) -> vec2<u32> {
    let first = index / (BAND * across) * BAND;
    let rows = min(BAND, down - first);
    let within = index % (BAND * across);
    return vec2<u32>(within / rows, first + within % rows);
}
