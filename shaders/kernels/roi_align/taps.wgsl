// Places of samples among the pixels of an image. The definition is in core/workloads/src/ops/roi_align.rs.

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> boxes: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> index: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<elem>;

// Both pixels beside a sample along an extent, and the weight of the second. A sample outside has pixels that may be read.
struct Tap {
    low: u32,
    high: u32,
    weight: f32,
    inside: bool,
}

// Sample `at` of a box from `start` to `end`.
fn tap(start: f32, end: f32, at: u32, pixels: u32) -> Tap {
    let place = start - 0.5 + (f32(at) + 0.5) * ((end - start) * SAMPLE);
    let inside = place >= -1.0 && place <= f32(pixels);
    let within = select(0.0, max(place, 0.0), inside);
    let low = min(u32(within), pixels - 1u);
    let high = min(low + 1u, pixels - 1u);
    return Tap(low, high, select(within - f32(low), 0.0, low == high), inside);
}

// Rows and columns of the samples of a bin.
struct Taps {
    rows: array<Tap, S>,
    columns: array<Tap, S>,
}

fn taps_of(box: vec4<f32>, bin: u32) -> Taps {
    var taps: Taps;
    for (var i = 0u; i < S; i++) {
        taps.rows[i] = tap(box.y, box.w, bin / P * S + i, H);
        taps.columns[i] = tap(box.x, box.z, bin % P * S + i, W);
    }
    return taps;
}

// Two neighbours of a row, weighed.
fn between(row: u32, column: Tap) -> f32 {
    return (1.0 - column.weight) * f32(x[row + column.low]) + column.weight * f32(x[row + column.high]);
}
