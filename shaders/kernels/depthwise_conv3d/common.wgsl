// Index arithmetic of both layouts, for kernels with one element per thread.

fn image_index(n: u32, c: u32, z: u32, y: u32, at: u32) -> u32 {
    if CHANNELS_LAST {
        return (((n * ID + z) * IH + y) * IW + at) * C + c;
    }
    return (((n * C + c) * ID + z) * IH + y) * IW + at;
}

fn out_index(n: u32, c: u32, z: u32, y: u32, at: u32) -> u32 {
    if CHANNELS_LAST {
        return (((n * OD + z) * OH + y) * OW + at) * C + c;
    }
    return (((n * C + c) * OD + z) * OH + y) * OW + at;
}

fn tap_index(c: u32, i: u32, j: u32, k: u32) -> u32 {
    if CHANNELS_LAST {
        return ((i * KH + j) * KW + k) * C + c;
    }
    return ((c * KD + i) * KH + j) * KW + k;
}

// Image or example, channel and position of an element.
struct Place {
    n: u32,
    c: u32,
    z: u32,
    y: u32,
    at: u32,
}

fn place_of(index: u32, depth: u32, height: u32, width: u32) -> Place {
    if CHANNELS_LAST {
        let rest = index / C;
        return Place(rest / (depth * height * width), index % C, rest / (height * width) % depth, rest / width % height,
            rest % width);
    }
    let plane = index / (height * width);
    return Place(plane / depth / C, plane / depth % C, plane % depth, index / width % height, index % width);
}
