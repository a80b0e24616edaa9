// Discrete Fourier transform along one dimension by the definition, one result per thread. The definition is in
// core/workloads/src/ops/fft.
//
// A line has LEN elements, INNER apart, and RESULTS results. Terms are summed in parts of 64, so that fewer roundings add up.

#import lib/launch

#if REAL
@group(0) @binding(0) var<storage, read> x: array<f32>;
#else
@group(0) @binding(0) var<storage, read> x: array<vec2<f32>>;
#endif
@group(0) @binding(1) var<storage, read> roots: array<vec2<f32>>;
@group(0) @binding(2) var<storage, read_write> out: array<vec2<f32>>;

const PART: u32 = 64u;

fn element(at: u32) -> vec2<f32> {
#if REAL
    return vec2<f32>(x[at], 0.0);
#else
    return x[at];
#endif
}

@compute @workgroup_size(THREADS)
fn fft_naive(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at >= COUNT {
        return;
    }
    let k = at / INNER % RESULTS;
    let base = at / INNER / RESULTS * (LEN * INNER) + at % INNER;
    var root_at = 0u;
    var sum = vec2<f32>();
    for (var first = 0u; first < LEN; first += PART) {
        var part_sum = vec2<f32>();
        for (var j = first; j < min(first + PART, LEN); j++) {
            let a = element(base + j * INNER);
            let root = roots[ROOT + root_at];
            let sine = select(root.y, -root.y, INVERSE);
            part_sum += vec2<f32>(a.x * root.x - a.y * sine, a.x * sine + a.y * root.x);
            root_at += k;
            root_at -= select(0u, LEN, root_at >= LEN);
        }
        sum += part_sum;
    }
    out[at] = sum;
}
