// Four neighbours along the head dim, zeros outside. The importing kernel declares `x`, with its element type by WIDTH.

// Four elements of a token's row of `x`.
fn quad_of_x(sequence: u32, token: u32, head: u32, d: u32) -> vec4<f32> {
    if token >= S || d >= D {
        return vec4<f32>();
    }
    let at = ((sequence * S + token) * HEADS + head) * D + d;
#if WIDTH == 4
    return vec4<f32>(x[at / 4u]);
#else
    // A row's last elements may be fewer than four.
    let last = at - d + D - 1u;
    let four = vec4<elem>(x[at], x[min(at + 1u, last)], x[min(at + 2u, last)], x[min(at + 3u, last)]);
    return select(vec4<f32>(), vec4<f32>(four), vec4<u32>(d) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(D));
#endif
}
