// Depthwise 2-D convolution, forward: a block stages the input patch of an output tile in shared memory. The definition is in
// core/workloads/src/ops/depthwise_conv2d.rs.

#include "depthwise_conv2d/common.cuh"
#include "lib/launch.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    depthwise_conv2d_tiled(const elem* __restrict__ x, const elem* __restrict__ w, elem* __restrict__ out) {
    // The channel is the fastest index of tile and patch in both layouts. In nchw a tile has one channel.
    __shared__ float patch[PATCH_H * PATCH_W * TILE_C];
    constexpr unsigned tiles_c = (C + TILE_C - 1) / TILE_C;
    constexpr unsigned tiles_h = (OH + TILE_H - 1) / TILE_H;
    constexpr unsigned tiles_w = (OW + TILE_W - 1) / TILE_W;
    constexpr unsigned outputs = TILE_C * TILE_H * TILE_W;
    constexpr unsigned per_thread = (outputs + THREADS - 1) / THREADS;

    u64 tile = flat_workgroup();
    if (tile >= (u64)N * tiles_c * tiles_h * tiles_w) return;
    // Tiles follow the memory order too: blocks that run together then share cache lines and pages.
    unsigned c0;
    if constexpr (NHWC) {
        c0 = (unsigned)(tile % tiles_c) * TILE_C;
        tile /= tiles_c;
    }
    const unsigned x0 = (unsigned)(tile % tiles_w) * TILE_W;
    tile /= tiles_w;
    const unsigned y0 = (unsigned)(tile % tiles_h) * TILE_H;
    tile /= tiles_h;
    if constexpr (!NHWC) {
        c0 = (unsigned)(tile % tiles_c) * TILE_C;
        tile /= tiles_c;
    }
    const unsigned n = (unsigned)tile;

    for (unsigned i = threadIdx.x; i < PATCH_H * PATCH_W * TILE_C; i += THREADS) {
        const unsigned c = c0 + i % TILE_C;
        const unsigned ix = x0 * STRIDE + i / TILE_C % PATCH_W - PAD;
        const unsigned iy = y0 * STRIDE + i / (TILE_C * PATCH_W) - PAD;
        patch[i] = c < C && iy < H && ix < W ? load(x[image_index(n, c, iy, ix, H, W)]) : 0.0f;
    }
    __syncthreads();

    // TILE_C is a power of two and divides THREADS: all outputs of a thread lie in one channel.
    static_assert(THREADS % TILE_C == 0, "a thread's outputs must share their channel");
    const unsigned lane = threadIdx.x % TILE_C;
    if (c0 + lane >= C) return;
    float acc[per_thread];
#pragma unroll
    for (unsigned o = 0; o < per_thread; o++) acc[o] = 0.0f;
    for (unsigned i = 0; i < KH; i++) {
        for (unsigned j = 0; j < KW; j++) {
            const float tap = load(w[filter_index(c0 + lane, i, j)]);
#pragma unroll
            for (unsigned o = 0; o < per_thread; o++) {
                const unsigned place = (threadIdx.x + o * THREADS) / TILE_C;
                const unsigned px = place % TILE_W * STRIDE + j * DILATION;
                const unsigned py = place / TILE_W * STRIDE + i * DILATION;
                // The last iteration of a tile that THREADS does not divide reaches past it.
                if (outputs % THREADS == 0 || place < TILE_H * TILE_W) {
                    acc[o] = fmaf(patch[(py * PATCH_W + px) * TILE_C + lane], tap, acc[o]);
                }
            }
        }
    }
#pragma unroll
    for (unsigned o = 0; o < per_thread; o++) {
        const unsigned place = (threadIdx.x + o * THREADS) / TILE_C;
        const unsigned ox = x0 + place % TILE_W;
        const unsigned oy = y0 + place / TILE_W;
        if (place < TILE_H * TILE_W && oy < OH && ox < OW) {
            out[image_index(n, c0 + lane, oy, ox, OH, OW)] = to_elem(acc[o]);
        }
    }
}
