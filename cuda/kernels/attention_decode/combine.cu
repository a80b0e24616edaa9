// The last stage of attention_decode's `split`.
//
// attention_decode_combine  a block per row of the output weighs the parts of its sequence and adds them up

#include "lib/launch.cuh"

extern "C" __global__ void attention_decode_combine(const float* __restrict__ parts, const float* __restrict__ numbers,
                                                    elem* __restrict__ out) {
    const u64 row = flat_workgroup();
    if (row >= ROWS) return;
    const float* const of_row = numbers + row * SPLITS * 2;
    float highest = negative_infinity(), total = 0.0f;
    for (unsigned i = 0; i < SPLITS; i++) highest = fmaxf(highest, of_row[2 * i]);
    // Without a token all are -inf, and the sum is zero.
    const float base = highest == negative_infinity() ? 0.0f : highest;
    for (unsigned i = 0; i < SPLITS; i++) total = fmaf(of_row[2 * i + 1], exp2f(of_row[2 * i] - base), total);
    for (unsigned x = threadIdx.x; x < D; x += THREADS) {
        float sum = 0.0f;
        for (unsigned i = 0; i < SPLITS; i++) {
            sum = fmaf(parts[(row * SPLITS + i) * D + x], exp2f(of_row[2 * i] - base), sum);
        }
        out[row * D + x] = to_elem(total > 0.0f ? sum / total : 0.0f);
    }
}
