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

// Weight of a pixel in an output.
fn weight_in(pixel: u32, at: u32, extent: u32, outputs: u32) -> f32 {
    let beside = taps(at, extent, outputs);
    return select(0.0, 1.0 - beside.weight, beside.first == pixel) + select(0.0, beside.weight, beside.second == pixel);
}

// First output around a pixel, and one past the last.
fn around(pixel: u32, extent: u32, outputs: u32) -> vec2<u32> {
    if NEAREST {
        let end = (pixel + 1u) * outputs;
        return vec2<u32>((pixel * outputs + extent - 1u) / extent, (end + extent - 1u) / extent);
    }
    let first = (max(2u * outputs * pixel, outputs + extent) - (outputs + extent)) / (2u * extent);
    let last = (max(outputs * (2u * pixel + 3u), extent) - extent) / (2u * extent);
    return vec2<u32>(first, min(last + 1u, outputs));
}
