// Largest key of each group of GROUP neighbours in a row. LANES neighbouring threads share a group, PIECES pieces each, and a
// thread has OWN groups. The definition is in core/workloads/src/ops/top_k.rs.

#import lib/launch
#import lib/pieces{WIDTH}
#import top_k/keys

@group(0) @binding(0) var<storage, read> x: array<stored>;
@group(0) @binding(1) var<storage, read_write> maxima: array<u32>;

const ROW_PIECES: u32 = COLUMNS / WIDTH;
const AT_ONCE: u32 = THREADS / LANES;

// One key per thread and group, with those of a group as neighbours.
var<workgroup> tops: array<u32, THREADS * OWN>;

fn piece_key(x: piece) -> u32 {
#if WIDTH == 4
    return max(max(key_of(x.x), key_of(x.y)), max(key_of(x.z), key_of(x.w)));
#else
    return key_of(x);
#endif
}

@compute @workgroup_size(THREADS)
fn top_k_maxima(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let first = flat_group(group, groups) * (AT_ONCE * OWN);
    if first >= ROWS * GROUPS {
        return;
    }
    for (var i = 0u; i < OWN; i++) {
        // Past the last group, and past the end of a row in its last group, threads read a piece once more.
        let mine = min(first + i * AT_ONCE + thread / LANES, ROWS * GROUPS - 1u);
        let base = mine / GROUPS * ROW_PIECES;
        let begin = mine % GROUPS * (GROUP / WIDTH) + thread % LANES;
        var top = 0u;
        for (var k = 0u; k < PIECES; k++) {
            top = max(top, piece_key(piece(x[base + min(begin + k * LANES, ROW_PIECES - 1u)])));
        }
        tops[i * THREADS + thread] = top;
    }
    workgroupBarrier();
    for (var i = thread; i < AT_ONCE * OWN; i += THREADS) {
        var top = 0u;
        for (var lane = 0u; lane < LANES; lane++) {
            top = max(top, tops[i * LANES + lane]);
        }
        if first + i < ROWS * GROUPS {
            maxima[first + i] = top;
        }
    }
}
