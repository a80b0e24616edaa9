// Places of taps among the pixels of an image. The definition is in core/workloads/src/ops/deform_conv2d.rs.

#include "lib/launch.cuh"

// Four pixels beside a tap, by index among all pixels, with their weights. A pixel outside has an index that may be read.
struct Beside {
    u64 pixels[4];
    float weights[4];
    bool inside[4];
};

// Pixel below or at a place, and the distance from it. A place outside, or NaN, has neither.
struct Place {
    int low;
    float over;
    bool inside;
};

__device__ __forceinline__ Place place_of(float at, int pixels) {
    Place place;
    place.inside = at > -1.0f && at < (float)pixels;
    const float within = place.inside ? at : 0.0f;
    place.low = (int)floorf(within);
    place.over = within - floorf(within);
    return place;
}

// Pixels of a tap of result `row`, which counts through all images. Both offsets of a tap lie side by side.
__device__ __forceinline__ Beside beside(const float* __restrict__ offset, u64 row, unsigned tap) {
    const float2 own = __ldg(reinterpret_cast<const float2*>(offset) + row * (K * K) + tap);
    const int y = (int)(row / OUT_W % OUT_H * S + tap / K) - (int)P, x = (int)(row % OUT_W * S + tap % K) - (int)P;
    const Place down = place_of((float)y + own.x, H), across = place_of((float)x + own.y, W);
    const u64 image = row / ((u64)OUT_H * OUT_W) * H;
    Beside found;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int pixel_y = down.low + i / 2, pixel_x = across.low + i % 2;
        found.inside[i] = down.inside && across.inside && pixel_y >= 0 && pixel_y < (int)H && pixel_x >= 0 && pixel_x < (int)W;
        found.pixels[i] = found.inside[i] ? (image + pixel_y) * W + pixel_x : 0;
        found.weights[i] = (i / 2 ? down.over : 1.0f - down.over) * (i % 2 ? across.over : 1.0f - across.over);
    }
    return found;
}
