// Gated delta rule with the state in registers, token by token. See core/workloads/src/ops/gated_delta/recurrent.rs.
//
// gated_delta_recurrent  a workgroup per head of a sequence and COLUMNS columns; LANES threads have ROWS rows of a column each
//
// A token's result is summed up with the next token's sums over columns, which need one barrier. Queries in workgroup memory are
// therefore those of the token before.

#import lib/launch
#import lib/pieces{WIDTH}

@group(0) @binding(0) var<storage, read> q: array<stored>;
@group(0) @binding(1) var<storage, read> k: array<stored>;
@group(0) @binding(2) var<storage, read> v: array<elem>;
@group(0) @binding(3) var<storage, read> g: array<f32>;
@group(0) @binding(4) var<storage, read> beta: array<elem>;
@group(0) @binding(5) var<storage, read_write> out: array<elem>;
@group(0) @binding(6) var<storage, read_write> state: array<f32>;

const COLUMNS: u32 = THREADS / LANES;
const QUADS_EACH: u32 = ROWS / 4u;
const QUADS: u32 = LANES * QUADS_EACH;

var<workgroup> keys: array<vec4<f32>, TOKENS * QUADS>;
var<workgroup> queries: array<vec4<f32>, TOKENS * QUADS>;
var<workgroup> values: array<f32, TOKENS * COLUMNS>;
// Decays and strengths.
var<workgroup> numbers: array<vec2<f32>, TOKENS>;
// Sums of all threads, by keys and by queries. Even and odd tokens have a half each.
var<workgroup> partial: array<vec2<f32>, 2u * THREADS>;

// Four neighbouring elements of a token's query, zeros outside.
fn quad_of_q(sequence: u32, token: u32, head: u32, row: u32) -> vec4<f32> {
    if token >= S || row >= DK {
        return vec4<f32>();
    }
    let at = ((sequence * S + token) * HEADS + head) * DK + row;
#if WIDTH == 4
    return vec4<f32>(q[at / 4u]);
#else
    // A row's last elements may be fewer than four.
    let last = at - row + DK - 1u;
    let four = vec4<elem>(q[at], q[min(at + 1u, last)], q[min(at + 2u, last)], q[min(at + 3u, last)]);
    return select(vec4<f32>(), vec4<f32>(four), vec4<u32>(row) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(DK));
#endif
}

// Four neighbouring elements of a token's key, zeros outside.
fn quad_of_k(sequence: u32, token: u32, head: u32, row: u32) -> vec4<f32> {
    if token >= S || row >= DK {
        return vec4<f32>();
    }
    let at = ((sequence * S + token) * HEADS + head) * DK + row;
#if WIDTH == 4
    return vec4<f32>(k[at / 4u]);
#else
    // A row's last elements may be fewer than four.
    let last = at - row + DK - 1u;
    let four = vec4<elem>(k[at], k[min(at + 1u, last)], k[min(at + 2u, last)], k[min(at + 3u, last)]);
    return select(vec4<f32>(), vec4<f32>(four), vec4<u32>(row) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(DK));
#endif
}

@compute @workgroup_size(THREADS)
fn gated_delta_recurrent(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let index = flat_group(group, groups);
    let of_head = index / PARTS;
    if of_head >= SEQUENCES * HEADS {
        return;
    }
    let sequence = of_head / HEADS;
    let head = of_head % HEADS;
    let lane = thread / COLUMNS;
    let place = thread % COLUMNS;
    let first_column = index % PARTS * COLUMNS;
    let column = first_column + place;
    var rows: array<vec4<f32>, QUADS_EACH>;
    // One more than the tokens, for the last result.
    for (var first = 0u; first <= S; first += TOKENS) {
        // Ends the reads of the tokens before.
        workgroupBarrier();
        for (var e = thread; e < TOKENS * QUADS; e += THREADS) {
            // The token before the first is outside, as a number that wraps.
            let token = first + e / QUADS;
            keys[e] = quad_of_k(sequence, token, head, e % QUADS * 4u);
            queries[e] = quad_of_q(sequence, token - 1u, head, e % QUADS * 4u);
        }
        for (var e = thread; e < TOKENS * COLUMNS; e += THREADS) {
            let token = first + e / COLUMNS;
            let of_token = first_column + e % COLUMNS;
            var value = 0.0;
            if token < S && of_token < DV {
                value = f32(v[((sequence * S + token) * HEADS + head) * DV + of_token]);
            }
            values[e] = value;
        }
        if thread < TOKENS && first + thread < S {
            let at = (sequence * S + first + thread) * HEADS + head;
            numbers[thread] = vec2<f32>(exp(g[at]), f32(beta[at]));
        }
        workgroupBarrier();
        let count = min(TOKENS, S + 1u - first);
        for (var i = 0u; i < count; i++) {
            var by_key = vec4<f32>();
            var by_query = vec4<f32>();
            for (var e = 0u; e < QUADS_EACH; e++) {
                by_key = fma(keys[i * QUADS + lane * QUADS_EACH + e], rows[e], by_key);
                by_query = fma(queries[i * QUADS + lane * QUADS_EACH + e], rows[e], by_query);
            }
            let half = i % 2u * THREADS;
            partial[half + thread] =
                vec2<f32>((by_key.x + by_key.y) + (by_key.z + by_key.w), (by_query.x + by_query.y) + (by_query.z + by_query.w));
            workgroupBarrier();
            var known = vec2<f32>();
            for (var other = 0u; other < LANES; other++) {
                known += partial[half + other * COLUMNS + place];
            }
            let token = first + i;
            if lane == 0u && token > 0u && column < DV {
                out[((sequence * S + token - 1u) * HEADS + head) * DV + column] = elem(SCALE * known.y);
            }
            if token < S {
                let decay = numbers[i].x;
                let delta = numbers[i].y * (values[i * COLUMNS + place] - decay * known.x);
                for (var e = 0u; e < QUADS_EACH; e++) {
                    rows[e] = fma(keys[i * QUADS + lane * QUADS_EACH + e], vec4<f32>(delta), decay * rows[e]);
                }
            }
        }
    }
    for (var e = 0u; e < QUADS_EACH; e++) {
        for (var i = 0u; i < 4u; i++) {
            let row = (lane * QUADS_EACH + e) * 4u + i;
            if row < DK && column < DV {
                state[(of_head * DK + row) * DV + column] = rows[e][i];
            }
        }
    }
}
