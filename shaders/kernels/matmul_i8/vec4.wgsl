// Words of A and B for tiled int8 GEMMs, four at a time. WHOLE: all tiles are whole, and there are no bounds checks.

@group(0) @binding(0) var<storage, read> a: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> b: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> a_scale: array<f32>;
@group(0) @binding(3) var<storage, read> b_scale: array<f32>;

// Words at .. at + 3 of a row of a matrix, zeros outside; `at` is a multiple of four.
#block vec4_of(MATRIX, HEIGHT)
    if !WHOLE && (row >= HEIGHT || at >= WORDS) {
        return vec4<u32>();
    }
    let i = row * WORDS + at;
    if WORDS % 4u == 0u {
        return MATRIX[i / 4u];
    }
    var x = vec4<u32>();
    x.x = MATRIX[i / 4u][i % 4u];
    if at + 1u < WORDS { x.y = MATRIX[(i + 1u) / 4u][(i + 1u) % 4u]; }
    if at + 2u < WORDS { x.z = MATRIX[(i + 2u) / 4u][(i + 2u) % 4u]; }
    if at + 3u < WORDS { x.w = MATRIX[(i + 3u) / 4u][(i + 3u) % 4u]; }
    return x;
#end

fn vec4_of_a(row: u32, at: u32) -> vec4<u32> {
    #emit vec4_of(a, M)
}

fn vec4_of_b(row: u32, at: u32) -> vec4<u32> {
    #emit vec4_of(b, N)
}
