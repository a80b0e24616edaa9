// Positions of the source under a tap, around four positions of the result, for implicit GEMMs. A row of filters is a channel of
// the result, and a term a channel of the source at a tap.

#import conv2d/common

const TERMS: u32 = FROM_C * TAPS;
const POSITIONS: u32 = IMAGES * TO;

// Four positions of the result, known to a thread for all steps: their images, and the coordinates under the first tap.
struct Known {
    image: vec4<u32>,
    z: vec4<u32>,
    y: vec4<u32>,
    x: vec4<u32>,
}

// Positions of the source under a tap, and whether they exist.
struct Under {
    at: vec4<u32>,
    there: vec4<bool>,
}

fn known_around(positions: vec4<u32>) -> Known {
    var known: Known;
    for (var i = 0u; i < 4u; i++) {
        let at = first_under(positions[i] % TO);
        known.image[i] = positions[i] / TO;
        known.z[i] = at.x;
        known.y[i] = at.y;
        known.x[i] = at.z;
    }
    return known;
}

fn under(known: Known, tap: u32) -> Under {
    let by = tap_at(tap) * DILATION;
    var z = known.z;
    var y = known.y;
    var x = known.x;
    var there = vec4<bool>(true);
    if BACK {
        z -= vec4<u32>(by.x);
        y -= vec4<u32>(by.y);
        x -= vec4<u32>(by.z);
        let stride = vec4<u32>(STRIDE);
        there = (z % stride + y % stride + x % stride) == vec4<u32>();
        z /= stride;
        y /= stride;
        x /= stride;
    } else {
        z += vec4<u32>(by.x);
        y += vec4<u32>(by.y);
        x += vec4<u32>(by.z);
    }
    there = there & (known.image < vec4<u32>(IMAGES)) & (z < vec4<u32>(FROM_D)) & (y < vec4<u32>(FROM_H)) & (x < vec4<u32>(FROM_W));
    return Under((z * FROM_H + y) * FROM_W + x, there);
}
