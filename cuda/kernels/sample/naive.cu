// A token of each row from its K largest logits in falling order, by one thread a row. The definition is in
// core/workloads/src/ops/sample.rs.

#include "sample/weight.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    sample_naive(const elem* __restrict__ values, const unsigned* __restrict__ indices, const float* __restrict__ u,
                 unsigned* __restrict__ token, float* __restrict__ probability) {
    const u64 row = flat_workgroup() * THREADS + threadIdx.x;
    if (row >= ROWS) return;
    const elem* const own = values + row * K;
    const unsigned* const places = indices + row * K;
    const float top = load(own[0]);
    if (!is_finite(top)) {
        token[row] = places[0];
        probability[row] = not_a_number();
        return;
    }
    float sum = 0.0f;
    for (unsigned i = 0; i < K; i++) sum += weight(load(own[i]), top);
    unsigned kept = 0;
    float total = 0.0f;
    while (kept < K && (kept == 0 || ALL_P || total < TOP_P * sum)) {
        const float more = weight(load(own[kept]), top);
        if (more < MIN_P) break;
        total += more;
        kept++;
    }
    unsigned place = 0;
    float upto = weight(top, top);
    while (place + 1 < kept && upto <= u[row] * total) {
        place++;
        upto += weight(load(own[place]), top);
    }
    token[row] = places[place];
    probability[row] = weight(load(own[place]), top) / total;
}
