// Complex numbers of a transform, and its roots of unity. The table is described in core/workloads/src/ops/fft/roots.rs.

fn product(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
    return vec2<f32>(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

// Root k of a power of two, with the sign of the transform.
fn root(order: u32, k: u32) -> vec2<f32> {
    let found = roots[order + k];
    return vec2<f32>(found.x, select(found.y, -found.y, INVERSE));
}
