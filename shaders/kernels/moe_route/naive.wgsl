// Experts and weights of tokens, one token per thread. The definition is in core/workloads/src/ops/moe_route.

#import lib/launch
#import moe_route/entries

@group(0) @binding(0) var<storage, read> logits: array<elem>;
@group(0) @binding(1) var<storage, read_write> weights: array<f32>;
@group(0) @binding(2) var<storage, read_write> experts: array<u32>;

@compute @workgroup_size(THREADS)
fn moe_route_naive(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let token = flat_group(group, groups) * THREADS + thread;
    if token >= TOKENS {
        return;
    }
    let base = token * EXPERTS;
    var last = entry();
    var top = 0.0;
    var sum = 0.0;
    for (var choice = 0u; choice < CHOICES; choice++) {
        var best = entry();
        for (var expert = 0u; expert < EXPERTS; expert++) {
            let one = entry_of(f32(logits[base + expert]), expert);
            // Of those after the last choice, the first.
            if choice == 0u || precedes(last, one) {
                best = earlier(best, one);
            }
        }
        if choice == 0u {
            top = logit_of(best);
        }
        let share = exp(logit_of(best) - top);
        sum += share;
        weights[token * CHOICES + choice] = share;
        experts[token * CHOICES + choice] = expert_of(best);
        last = best;
    }
    if !RENORMALISED {
        sum = 0.0;
        for (var expert = 0u; expert < EXPERTS; expert++) {
            sum += exp(f32(logits[base + expert]) - top);
        }
    }
    for (var choice = 0u; choice < CHOICES; choice++) {
        let share = weights[token * CHOICES + choice] / sum;
        weights[token * CHOICES + choice] = select(share, top, is_nan(top));
    }
}
