// Index arithmetic of both layouts, and the epilogue, for the variants of conv2d. Element indices fit into 32 bits.

#include "lib/elem.cuh"

constexpr unsigned TAPS = KD * KH * KW;
constexpr unsigned FROM = FROM_D * FROM_H * FROM_W, TO = TO_D * TO_H * TO_W;

// Depth, row and column of a tap.
__device__ __forceinline__ uint3 tap_at(unsigned tap) {
    if constexpr (KD == 1) return make_uint3(0, tap / KW, tap % KW);
    return make_uint3(tap / (KH * KW), tap / KW % KH, tap % KW);
}

// Index of the weight from a channel of the source to one of the result, both within their group.
__device__ __forceinline__ unsigned weight_at(unsigned group, unsigned to, unsigned from, unsigned tap) {
    const unsigned m = group * OUT_C + (BACK ? from : to), c = BACK ? to : from;
    return LAST ? (m * TAPS + tap) * IN_C + c : (m * IN_C + c) * TAPS + tap;
}

// Index of an element of the result (channel within the group, position in its image).
__device__ __forceinline__ unsigned result_at(unsigned group, unsigned channel, unsigned image, unsigned position) {
    return LAST ? (image * TO + position) * (GROUPS * TO_C) + group * TO_C + channel
                : ((image * GROUPS + group) * TO_C + channel) * TO + position;
}

// Index of an element of the source.
__device__ __forceinline__ unsigned source_at(unsigned group, unsigned channel, unsigned image, unsigned position) {
    return LAST ? (image * FROM + position) * (GROUPS * FROM_C) + group * FROM_C + channel
                : ((image * GROUPS + group) * FROM_C + channel) * FROM + position;
}

// Position of the result: its image, and depth, row and column of the source under the first tap. Coordinates before the source
// wrap around and exceed its extent.
struct Known {
    unsigned image;
    uint3 at;
};

__device__ __forceinline__ Known known_at(unsigned image, const uint3& at) {
    if constexpr (BACK) return {image, make_uint3(at.x + PAD_D, at.y + PAD, at.z + PAD)};
    return {image, make_uint3(at.x * STRIDE - PAD_D, at.y * STRIDE - PAD, at.z * STRIDE - PAD)};
}

__device__ __forceinline__ Known known_of(unsigned column) {
    const unsigned position = column % TO;
    uint3 at = make_uint3(0, position / TO_W, position % TO_W);
    if constexpr (TO_D > 1) at = make_uint3(position / (TO_H * TO_W), position / TO_W % TO_H, position % TO_W);
    return known_at(column / TO, at);
}

// Advances the position by a constant number, without a division each time.
template <unsigned by>
struct Walk {
    unsigned image;
    uint3 at;

    __device__ __forceinline__ explicit Walk(unsigned column)
        : image(column / TO),
          at(make_uint3(column / (TO_H * TO_W) % TO_D, column / TO_W % TO_H, column % TO_W)) {}

    __device__ __forceinline__ Known known() const { return known_at(image, at); }

    __device__ __forceinline__ void advance() {
        at.z += by % TO_W;
        at.y += by / TO_W % TO_H;
        at.x += by / (TO_H * TO_W) % TO_D;
        image += by / TO;
        if (at.z >= TO_W) at.z -= TO_W, at.y++;
        if (at.y >= TO_H) at.y -= TO_H, at.x++;
        if (at.x >= TO_D) at.x -= TO_D, image++;
    }
};

// Position of the source under a tap, and whether it exists.
struct Under {
    unsigned position;
    bool there;
};

__device__ __forceinline__ Under under(const Known& known, const uint3& tap) {
    unsigned z, y, x;
    bool there = known.image < IMAGES;
    if constexpr (BACK) {
        z = known.at.x - tap.x * DILATION;
        y = known.at.y - tap.y * DILATION;
        x = known.at.z - tap.z * DILATION;
        if constexpr (STRIDE > 1) {
            there = there && z % STRIDE == 0 && y % STRIDE == 0 && x % STRIDE == 0;
            z /= STRIDE;
            y /= STRIDE;
            x /= STRIDE;
        }
    } else {
        z = known.at.x + tap.x * DILATION;
        y = known.at.y + tap.y * DILATION;
        x = known.at.z + tap.z * DILATION;
    }
    there = there && z < FROM_D && y < FROM_H && x < FROM_W;
    return {(z * FROM_H + y) * FROM_W + x, there};
}

// Epilogue of an output channel: adds the bias, normalises, and applies ReLU.
struct Epilogue {
    const elem* bias;
#if NORMALISED
    const float* mean;
    const float* variance;
    const elem* gamma;
    const elem* beta;
#endif
    __device__ __forceinline__ float operator()(unsigned channel, float sum) const {
        if constexpr (BIAS) sum += load(bias[channel]);
#if NORMALISED
        const float scaled = (sum - mean[channel]) / sqrtf(variance[channel] + EPS);
        sum = scaled * load(gamma[channel]) + load(beta[channel]);
#endif
        if constexpr (RELU) sum = relu(sum);
        return sum;
    }
};
