// Places of taps among the pixels of an image. The definition is in core/workloads/src/ops/deform_conv2d.rs.

#import lib/nan

// Four pixels beside a tap, by index among all pixels, with their weights. A pixel outside has an index that may be read.
struct Beside {
    pixels: vec4<u32>,
    weights: vec4<f32>,
    inside: vec4<bool>,
}

// Pixels of a tap of result `row`, which counts through all images, with the tap's own offsets. A place that is NaN is outside.
fn beside(own: vec2<f32>, row: u32, tap: u32) -> Beside {
    let start = vec2<i32>(vec2<u32>(row / OUT_W % OUT_H, row % OUT_W) * S + vec2<u32>(tap / K, tap % K)) - vec2<i32>(i32(P));
    let place = vec2<f32>(start) + own;
    let extents = vec2<f32>(f32(H), f32(W));
    let some = all(place > vec2<f32>(-1.0)) && all(place < extents) && !is_nan(place.x) && !is_nan(place.y);
    let within = select(vec2<f32>(), place, some);
    let low = vec2<i32>(floor(within));
    let over = within - floor(within);
    let rows = low.x + vec4<i32>(0, 0, 1, 1);
    let columns = low.y + vec4<i32>(0, 1, 0, 1);
    let none = vec4<i32>();
    let inside = (rows >= none) & (rows < vec4<i32>(i32(H))) & (columns >= none) & (columns < vec4<i32>(i32(W))) & vec4<bool>(some);
    let first = row / (OUT_H * OUT_W) * H;
    let pixels = (vec4<u32>(first) + vec4<u32>(max(rows, none))) * W + vec4<u32>(max(columns, none));
    let down = vec4<f32>(1.0 - over.x, 1.0 - over.x, over.x, over.x);
    let across = vec4<f32>(1.0 - over.y, over.y, 1.0 - over.y, over.y);
    return Beside(select(vec4<u32>(), pixels, inside), down * across, inside);
}
