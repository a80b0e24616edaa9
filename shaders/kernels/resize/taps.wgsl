// Places of a resized image among the pixels of the input. The definition is in core/workloads/src/ops/resize/taps.rs.

#import lib/pixels

// Both pixels beside an output along an extent, and the weight of the second.
struct Taps {
    first: u32,
    second: u32,
    weight: f32,
}

fn taps(at: u32, extent: u32, outputs: u32) -> Taps {
    if NEAREST {
        let pixel = at * extent / outputs;
        return Taps(pixel, pixel, 0.0);
    }
    // The place in units of half an output, which are whole.
    let place = max((2u * at + 1u) * extent, outputs) - outputs;
    let first = place / (2u * outputs);
    return Taps(first, min(first + 1u, extent - 1u), f32(place % (2u * outputs)) / f32(2u * outputs));
}

// Weight of a pixel in one of its outputs: one less their distance.
fn weight_in(pixel: u32, at: u32, extent: u32, outputs: u32) -> f32 {
    if NEAREST {
        return 1.0;
    }
    let unit = 2u * outputs;
    let place = min(max((2u * at + 1u) * extent, outputs) - outputs, (extent - 1u) * unit);
    let apart = max(place, pixel * unit) - min(place, pixel * unit);
    return f32(unit - min(apart, unit)) / f32(unit);
}

// First output with a weight of a pixel, and one past the last.
fn around(pixel: u32, extent: u32, outputs: u32) -> vec2<u32> {
    if NEAREST {
        let end = (pixel + 1u) * outputs;
        return vec2<u32>((pixel * outputs + extent - 1u) / extent, (end + extent - 1u) / extent);
    }
    let first = (max(2u * outputs * pixel + extent, outputs) - outputs) / (2u * extent);
    let end = (outputs * (2u * pixel + 3u) + extent - 1u) / (2u * extent);
    return vec2<u32>(first, min(end, outputs));
}
