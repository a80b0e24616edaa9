// Scaled dot-product attention, forward, in one stage: scores stay in registers, nothing is staged, and there is one barrier at
// the start. The definition is in core/workloads/src/ops/attention.
//
// LANES neighbouring threads of a subgroup form a team, which owns four query rows and processes the keys in tiles of LANES with
// an online softmax. A thread computes the scores of one key of a tile with all four rows. The team's maximum is exchanged by
// shuffles. Then a thread sums columns LANES apart, and receives the weight of each key from its thread.
//
// All threads of a workgroup run the same loops, for any size of subgroups.

#import attention/common
#import lib/launch

@group(0) @binding(0) var<storage, read> q: array<elem>;
@group(0) @binding(1) var<storage, read> k: array<elem>;
@group(0) @binding(2) var<storage, read> v: array<elem>;
@group(0) @binding(3) var<storage, read_write> out: array<elem>;

const LOG2_E: f32 = 1.4426950408889634;

// Number of teams so far. WGSL does not define the threads of a subgroup, so each team draws its index.
var<workgroup> numbered: atomic<u32>;

fn team_max(x: vec4<f32>) -> vec4<f32> {
    var top = x;
    for (var step = LANES / 2u; step > 0u; step /= 2u) {
        top = max(top, subgroupShuffleXor(top, step));
    }
    return top;
}

fn team_sum(x: vec4<f32>) -> vec4<f32> {
    var sum = x;
    for (var step = LANES / 2u; step > 0u; step /= 2u) {
        sum += subgroupShuffleXor(sum, step);
    }
    return sum;
}

@compute @workgroup_size(THREADS)
fn attention_subgroup(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
    @builtin(subgroup_invocation_id) place: u32,
) {
    let blocks = (S + ROWS - 1u) / ROWS;
    let flat = flat_group(group, groups);
    let head = flat / blocks;
    if head >= HEADS {
        return;
    }
    let lane = place % LANES;
    let first_place = place - lane;
    if thread == 0u {
        atomicStore(&numbered, 0u);
    }
    workgroupBarrier();
    var team = 0u;
    if lane == 0u {
        team = atomicAdd(&numbered, 1u);
    }
    team = subgroupShuffle(team, first_place);

    let first_row = flat % blocks * ROWS;
    let last = seen_keys(head, min(first_row + ROWS, S) - 1u);
    let first_key = head / GROUP * T;
    let row = vec4<u32>(first_row + team * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
    // Rows past the end repeat the last one, and are not written.
    let inside = min(row, vec4<u32>(S - 1u));
    let query = (vec4<u32>(head * S) + inside) * D;
    let seen = vec4<u32>(
        seen_keys(head, inside.x),
        seen_keys(head, inside.y),
        seen_keys(head, inside.z),
        seen_keys(head, inside.w),
    );
    let start = vec4<u32>(window_start(inside.x), window_start(inside.y), window_start(inside.z), window_start(inside.w));
    let scale = inverseSqrt(f32(D)) * LOG2_E;
    var top = vec4<f32>(HIDDEN);
    // Sum over this thread's keys, until the end.
    var sum = vec4<f32>();
    var sums: array<vec4<f32>, COLUMNS>;

    for (var key = window_start(first_row); key < last; key += LANES) {
        let mine = key + lane;
        let at = (first_key + min(mine, T - 1u)) * D;
        var score = vec4<f32>();
        for (var x = 0u; x < D; x++) {
            let rows = vec4<f32>(f32(q[query.x + x]), f32(q[query.y + x]), f32(q[query.z + x]), f32(q[query.w + x]));
            score += rows * f32(k[at + x]);
        }
        score *= scale;
        score = vec4<f32>(
            biased(score.x, inside.x, mine, LOG2_E),
            biased(score.y, inside.y, mine, LOG2_E),
            biased(score.z, inside.z, mine, LOG2_E),
            biased(score.w, inside.w, mine, LOG2_E),
        );
        score = select(vec4<f32>(HIDDEN), score, vec4<u32>(mine) < seen);
        if STARTS {
            score = select(score, vec4<f32>(HIDDEN), vec4<u32>(mine) < start);
        }
        let before = top;
        top = max(top, team_max(score));
        let shrink = exp2(before - top);
        let weight = select(exp2(score - top), vec4<f32>(), score == vec4<f32>(HIDDEN));
        sum = sum * shrink + weight;
        for (var c = 0u; c < COLUMNS; c++) {
            sums[c] *= shrink;
        }
        for (var i = 0u; i < min(LANES, last - key); i++) {
            let weights = subgroupShuffle(weight, first_place + i);
            for (var c = 0u; c < COLUMNS; c++) {
                let x = min(lane + c * LANES, D - 1u);
                sums[c] += weights * f32(v[(first_key + key + i) * D + x]);
            }
        }
    }

    sum = team_sum(sum);
    // A row without a visible key has sum zero and output zero.
    let inverse = select(1.0 / sum, vec4<f32>(), sum == vec4<f32>());
    for (var c = 0u; c < COLUMNS; c++) {
        let x = lane + c * LANES;
        let mean = sums[c] * inverse;
        if x < D {
            if row.x < S { out[query.x + x] = elem(mean.x); }
            if row.y < S { out[query.y + x] = elem(mean.y); }
            if row.z < S { out[query.z + x] = elem(mean.z); }
            if row.w < S { out[query.w + x] = elem(mean.w); }
        }
    }
}
