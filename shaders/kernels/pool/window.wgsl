// Windows of a pooling. The definition is in core/workloads/src/ops/pool/mod.rs.

#import lib/pixels

// First pixel of a window along an extent, and one past its last.
fn window(at: u32, extent: u32, outputs: u32, kernel: u32) -> vec2<u32> {
    if ADAPTIVE {
        return vec2<u32>(at * extent / outputs, ((at + 1u) * extent + outputs - 1u) / outputs);
    }
    let begin = at * STRIDE;
    return vec2<u32>(max(begin, PAD) - PAD, min(begin + kernel - PAD, extent));
}

// First window that contains a pixel, and one past the last.
fn around(pixel: u32, extent: u32, outputs: u32, kernel: u32) -> vec2<u32> {
    if ADAPTIVE {
        return vec2<u32>(pixel * outputs / extent, ((pixel + 1u) * outputs + extent - 1u) / extent);
    }
    let reach = pixel + PAD;
    var first = 0u;
    if reach >= kernel {
        first = (reach - kernel) / STRIDE + 1u;
    }
    return vec2<u32>(first, min(reach / STRIDE + 1u, outputs));
}
