// Sums of exponents of the tokens of a chunk, for one head. The importing kernel declares `g`.

#import lib/nan

// Sums of logarithms of decays up to each token. Tokens behind the last have a decay of one.
var<workgroup> exponents: array<f32, CHUNK>;

// Least exponent of a token: next to its exponential, one is infinite in f32.
const LEAST: f32 = -64.0;

// Fills the sums for the chunk that begins with token `first` of a sequence. All threads must call.
fn fill_exponents(thread: u32, sequence: u32, head: u32, first: u32) {
    if thread < CHUNK {
        var exponent = 0.0;
        if first + thread < S {
            exponent = maximum(g[(sequence * S + first + thread) * HEADS + head], LEAST);
        }
        exponents[thread] = exponent;
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
