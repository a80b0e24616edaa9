// Half of the spectrum of real lines, from the transform of their pairs, one result per thread. The definition is in
// core/workloads/src/ops/fft.

#import lib/launch

@group(0) @binding(0) var<storage, read> z: array<vec2<f32>>;
@group(0) @binding(1) var<storage, read> roots: array<vec2<f32>>;
@group(0) @binding(2) var<storage, read_write> out: array<vec2<f32>>;

@compute @workgroup_size(THREADS)
fn fft_half_spectrum(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at >= COUNT {
        return;
    }
    let k = at % (HALF + 1u);
    let base = at / (HALF + 1u) * HALF;
    let own = z[base + k % HALF];
    let mirrored = z[base + (HALF - k) % HALF] * vec2<f32>(1.0, -1.0);
    let even = own + mirrored;
    let odd = own - mirrored;
    let unit = roots[2u * HALF + k];
    // The root times odd, times minus the imaginary unit.
    out[at] = 0.5 * (even + vec2<f32>(unit.x * odd.y + unit.y * odd.x, unit.y * odd.y - unit.x * odd.x));
}
