// Steps of the tokens of a chunk, for one head. The importing kernel declares `dt` and `heads`.

#import lib/nan
#import lib/softplus

// Steps, and sums of exponents up to each token. Tokens behind the last have steps of zero.
var<workgroup> steps: array<f32, CHUNK>;
var<workgroup> exponents: array<f32, CHUNK>;

// Least exponent of a token: its exponential is zero in f32.
const LEAST: f32 = -128.0;

// Fills both for the chunk that begins with token `first` of a sequence. All threads must call.
fn fill_steps(thread: u32, sequence: u32, head: u32, first: u32) {
    if thread < CHUNK {
        var step = 0.0;
        if first + thread < S {
            step = softplus(f32(dt[(sequence * S + first + thread) * HEADS + head]) + heads[2u * HEADS + head]);
        }
        steps[thread] = step;
        exponents[thread] = maximum(step * heads[head], LEAST);
    }
    workgroupBarrier();
    for (var reach = 1u; reach < CHUNK; reach *= 2u) {
        var before = 0.0;
        if thread < CHUNK && thread >= reach {
            before = exponents[thread - reach];
        }
        workgroupBarrier();
        if thread < CHUNK {
            exponents[thread] += before;
        }
        workgroupBarrier();
    }
}
