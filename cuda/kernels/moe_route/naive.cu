// Experts and weights of tokens, one token per thread. The definition is in core/workloads/src/ops/moe_route.

#include "lib/launch.cuh"
#include "moe_route/entries.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    moe_route_naive(const elem* __restrict__ logits, float* __restrict__ weights, unsigned* __restrict__ experts) {
    const u64 token = flat_workgroup() * THREADS + threadIdx.x;
    if (token >= TOKENS) return;
    logits += token * EXPERTS;
    weights += token * CHOICES;
    experts += token * CHOICES;
    entry last = 0;
    float top = 0.0f, sum = 0.0f;
    for (unsigned choice = 0; choice < CHOICES; choice++) {
        entry best = 0;
        for (unsigned expert = 0; expert < EXPERTS; expert++) {
            const entry one = entry_of(load(logits[expert]), expert);
            // Of those after the last choice, the first.
            if (choice == 0 || one < last) best = earlier(best, one);
        }
        if (choice == 0) top = logit_of(best);
        const float share = expf(logit_of(best) - top);
        sum += share;
        weights[choice] = share;
        experts[choice] = expert_of(best);
        last = best;
    }
#if !RENORMALISED
    sum = 0.0f;
    for (unsigned expert = 0; expert < EXPERTS; expert++) sum += expf(load(logits[expert]) - top);
#endif
    for (unsigned choice = 0; choice < CHOICES; choice++) weights[choice] /= sum;
}
