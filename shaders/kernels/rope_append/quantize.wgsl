// Codes and scales of rotated keys and of values, in the order of tokens: the second stage of `separate`. LANES neighbours hold a
// head. The definition is in core/workloads/src/ops/rope_append.

#import lib/launch
#import lib/pieces{WIDTH}
#import quantize/codes

@group(0) @binding(0) var<storage, read> qkv: array<stored>;
@group(0) @binding(1) var<storage, read> rotated: array<piece>;
@group(0) @binding(2) var<storage, read_write> codes: array<u32>;
@group(0) @binding(3) var<storage, read_write> code_scales: array<f32>;

const TOKEN_HEADS: u32 = HEADS + 2u * KEY_HEADS;
const IN_WORKGROUP: u32 = THREADS / LANES;

// Bits of the largest magnitude of each head.
var<workgroup> largest: array<atomic<u32>, IN_WORKGROUP>;

@compute @workgroup_size(THREADS)
fn rope_append_quantize(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let lane = thread % LANES;
    let slot = thread / LANES;
    // Rows of the codes: keys of all tokens, then values.
    let row = flat_group(group, groups) * IN_WORKGROUP + slot;
    let within = row < 2u * TOKENS * KEY_HEADS && lane < HALF_PIECES;
    if lane == 0u {
        atomicStore(&largest[slot], 0u);
    }
    workgroupBarrier();
    var first = piece();
    var second = piece();
    if within && row < TOKENS * KEY_HEADS {
        let at = row * 2u * HALF_PIECES + lane;
        first = rotated[at];
        second = rotated[at + HALF_PIECES];
    } else if within {
        let head = (row / KEY_HEADS - TOKENS) * TOKEN_HEADS + HEADS + KEY_HEADS + row % KEY_HEADS;
        let at = head * 2u * HALF_PIECES + lane;
        first = piece(qkv[at]);
        second = piece(qkv[at + HALF_PIECES]);
    }
    atomicMax(&largest[slot], max(largest_of(first), largest_of(second)));
    workgroupBarrier();
    let top = atomicLoad(&largest[slot]);
    let found = scale_of(top);
    let inverse = inverse_of(top, found);
    if within {
        let to = row * 2u * HALF_PIECES + lane;
        codes[to] = word_of(first, top, inverse);
        codes[to + HALF_PIECES] = word_of(second, top, inverse);
        if lane == 0u {
            code_scales[row] = found;
        }
    }
}
