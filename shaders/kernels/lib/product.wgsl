// Bindings and layouts of GEMMs, one for each of BATCH: C of M × N is A of M × K times B of K × N. C is row-major, and so are A
// and B, unless A_TRANSPOSED or B_TRANSPOSED.

#import lib/product_order

@group(0) @binding(0) var<storage, read> a: array<vec4<elem>>;
@group(0) @binding(1) var<storage, read> b: array<vec4<elem>>;

// Elements col .. col + 3 of a stored row of a matrix, zeros outside; col is a multiple of four.
#block vec4_of(MATRIX, HEIGHT, LENGTH)
    var x = vec4<elem>();
    if row >= HEIGHT || col >= LENGTH {
        return x;
    }
    let at = (batch * HEIGHT + row) * LENGTH + col;
    if LENGTH % 4u == 0u {
        return MATRIX[at / 4u];
    }
    x.x = MATRIX[at / 4u][at % 4u];
    if col + 1u < LENGTH { x.y = MATRIX[(at + 1u) / 4u][(at + 1u) % 4u]; }
    if col + 2u < LENGTH { x.z = MATRIX[(at + 2u) / 4u][(at + 2u) % 4u]; }
    if col + 3u < LENGTH { x.w = MATRIX[(at + 3u) / 4u][(at + 3u) % 4u]; }
    return x;
#end

fn vec4_of_a(batch: u32, row: u32, col: u32) -> vec4<elem> {
    #emit vec4_of(a, A_HEIGHT, A_WIDTH)
}

fn vec4_of_b(batch: u32, row: u32, col: u32) -> vec4<elem> {
    #emit vec4_of(b, B_HEIGHT, B_WIDTH)
}
