// Products of matrices, one for each of BATCH: C of M × N is A of M × K times B of K × N. C is stored row by row; so are A and
// B, unless A_BY_COLUMN or B_BY_COLUMN. Here: bindings, and vectors of A and B as they are stored.

#import lib/product_order

@group(0) @binding(0) var<storage, read> a: array<vec4<elem>>;
@group(0) @binding(1) var<storage, read> b: array<vec4<elem>>;

// Elements col .. col + 3 of a stored row of A, zeros outside; col is a multiple of four.
fn four_of_a(batch: u32, row: u32, col: u32) -> vec4<elem> {
    var x = vec4<elem>();
    if row >= A_HEIGHT || col >= A_WIDTH {
        return x;
    }
    let at = (batch * A_HEIGHT + row) * A_WIDTH + col;
    if A_WIDTH % 4u == 0u {
        return a[at / 4u];
    }
    x.x = a[at / 4u][at % 4u];
    if col + 1u < A_WIDTH { x.y = a[(at + 1u) / 4u][(at + 1u) % 4u]; }
    if col + 2u < A_WIDTH { x.z = a[(at + 2u) / 4u][(at + 2u) % 4u]; }
    if col + 3u < A_WIDTH { x.w = a[(at + 3u) / 4u][(at + 3u) % 4u]; }
    return x;
}

// The same of B.
fn four_of_b(batch: u32, row: u32, col: u32) -> vec4<elem> {
    var x = vec4<elem>();
    if row >= B_HEIGHT || col >= B_WIDTH {
        return x;
    }
    let at = (batch * B_HEIGHT + row) * B_WIDTH + col;
    if B_WIDTH % 4u == 0u {
        return b[at / 4u];
    }
    x.x = b[at / 4u][at % 4u];
    if col + 1u < B_WIDTH { x.y = b[(at + 1u) / 4u][(at + 1u) % 4u]; }
    if col + 2u < B_WIDTH { x.z = b[(at + 2u) / 4u][(at + 2u) % 4u]; }
    if col + 3u < B_WIDTH { x.w = b[(at + 3u) / 4u][(at + 3u) % 4u]; }
    return x;
}
