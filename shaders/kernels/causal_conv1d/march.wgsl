// Causal depthwise convolution along stretches of tokens. The definition is in core/workloads/src/ops/causal_conv1d.rs.
//
// A thread has WIDTH neighbouring channels and up to TOKENS tokens. Its taps stay in registers, and so do the last tokens. It reads
// AT_ONCE tokens before it uses the first of them.

#import lib/launch
#import lib/pieces{WIDTH}
#import lib/softplus

@group(0) @binding(0) var<storage, read> x: array<stored>;
@group(0) @binding(1) var<storage, read> w: array<elem>;
@group(0) @binding(2) var<storage, read> bias: array<stored>;
@group(0) @binding(3) var<storage, read_write> out: array<stored>;

const AT_ONCE: u32 = 4u;
// Tokens before those that are read.
const BEFORE: u32 = TAPS - 1u;

// Tap j of the channels of a piece.
fn tap_of(channels: u32, j: u32) -> piece {
#if WIDTH == 4
    let at = channels * 4u * TAPS + j;
    return vec4<f32>(f32(w[at]), f32(w[at + TAPS]), f32(w[at + 2u * TAPS]), f32(w[at + 3u * TAPS]));
#else
    return f32(w[channels * TAPS + j]);
#endif
}

fn activated(x: piece) -> piece {
#if !SILU
    return x;
#else
#if WIDTH == 4
    return vec4<f32>(silu(x.x), silu(x.y), silu(x.z), silu(x.w));
#else
    return silu(x);
#endif
#endif
}

@compute @workgroup_size(THREADS)
fn causal_conv1d_march(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at >= COUNT {
        return;
    }
    let channels = at % PIECES;
    let first = at / PIECES % STRETCHES * TOKENS;
    let sequence = at / PIECES / STRETCHES * S;
    var taps: array<piece, TAPS>;
    for (var j = 0u; j < TAPS; j++) {
        taps[j] = tap_of(channels, j);
    }
    let start = piece(bias[channels]);
    var held: array<piece, BEFORE + AT_ONCE>;
    for (var i = 0u; i < BEFORE; i++) {
        // Tokens before the first are zero.
        if first + i >= BEFORE {
            held[i] = piece(x[(sequence + first + i - BEFORE) * PIECES + channels]);
        }
    }
    let end = min(first + TOKENS, S);
    for (var token = first; token < end; token += AT_ONCE) {
        for (var i = 0u; i < AT_ONCE; i++) {
            // Tokens behind the last repeat it.
            held[BEFORE + i] = piece(x[(sequence + min(token + i, S - 1u)) * PIECES + channels]);
        }
        for (var i = 0u; i < AT_ONCE; i++) {
            var sum = start;
            for (var j = 0u; j < TAPS; j++) {
                sum += taps[j] * held[i + j];
            }
            if token + i < end {
                out[(sequence + token + i) * PIECES + channels] = stored(activated(sum));
            }
        }
        for (var i = 0u; i < BEFORE; i++) {
            held[i] = held[i + AT_ONCE];
        }
    }
}
