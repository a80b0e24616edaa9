// Overlap of boxes with corners (x, y) and (z, w). Every step but the product with THRESHOLD is exact for the suite's boxes.

// Index of the box with a rank.
fn box_of(rank: u32) -> u32 {
#if SCORED
    return order[rank];
#else
    return rank;
#endif
}

fn area_of(a: vec4<f32>) -> f32 {
    return (a.z - a.x) * (a.w - a.y);
}

fn overlaps(a: vec4<f32>, area: f32, b: vec4<f32>, other: f32) -> bool {
    let sides = max(min(a.zw, b.zw) - max(a.xy, b.xy), vec2<f32>());
    let inter = sides.x * sides.y;
    return inter > THRESHOLD * (area + other - inter);
}
