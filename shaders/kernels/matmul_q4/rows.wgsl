// GEMM with weights of 4 bits for few rows of A. The definition is in core/workloads/src/ops/matmul_q4.rs.
//
// A workgroup of 128 threads computes ROWS rows and 16 columns: 32 threads for each four columns, which share the depth. A thread
// reads WIDTH words of each of its columns, and the elements of A for them once for all four.
//
// A number at bit 4·i of a word, for i up to 3, is put into the lower bits of 2^23 as f32. Less 2^23 and the zero point at the same
// bits, it is the weight times 16^i, exactly. The elements of A are divided by 16^i first, which is exact too.

#import lib/launch

@group(0) @binding(0) var<storage, read> a: array<vec4<elem>>;
#if WIDTH == 4
@group(0) @binding(1) var<storage, read> b: array<vec4<u32>>;
#else
@group(0) @binding(1) var<storage, read> b: array<u32>;
#endif
@group(0) @binding(2) var<storage, read> zero: array<u32>;
@group(0) @binding(3) var<storage, read> scale: array<elem>;
@group(0) @binding(4) var<storage, read_write> c: array<elem>;

// Vectors of words in a row of B, and results of a workgroup.
const UNITS: u32 = WORDS / WIDTH;
const RESULTS: u32 = 16u * ROWS;
// 2^23 as f32, and its bits.
const BASE: f32 = 8388608.0;
const BITS: u32 = 0x4B000000u;

var<workgroup> parts: array<f32, 32u * RESULTS>;

// Zero point of a group of a column.
fn point(col: u32, part: u32) -> f32 {
    return f32((zero[col * ZERO_WORDS + part / 8u] >> (4u * (part % 8u))) & 15u);
}

// Weights of four columns at bit 4·i of half a word each, times 16^i; `less` is 2^23 and the zero points at the same bits.
fn weights(half: vec4<u32>, mask: u32, less: vec4<f32>) -> vec4<f32> {
    return bitcast<vec4<f32>>((half & vec4<u32>(mask)) | vec4<u32>(BITS)) - less;
}

@compute @workgroup_size(128)
fn matmul_q4_rows(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let across = (N + 15u) / 16u;
    let down = (M + ROWS - 1u) / ROWS;
    let index = flat_group(group, groups);
    if index >= across * down {
        return;
    }
    let first_row = index / across * ROWS;
    let first_col = index % across * 16u;
    let lane = thread % 32u;
    // Columns and rows outside repeat the last ones; their results are not stored.
    let cols = min(vec4<u32>(first_col + thread / 32u * 4u) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(N - 1u));
    var sums: array<vec4<f32>, ROWS>;
    for (var unit = lane; unit < UNITS; unit += 32u) {
        let part = unit * WIDTH / GROUP_WORDS;
        let points = vec4<f32>(point(cols.x, part), point(cols.y, part), point(cols.z, part), point(cols.w, part));
        let at = cols * GROUPS + vec4<u32>(part);
        let factors = vec4<f32>(f32(scale[at.x]), f32(scale[at.y]), f32(scale[at.z]), f32(scale[at.w]));
        let start = cols * UNITS + vec4<u32>(unit);
        let less0 = vec4<f32>(BASE) + points;
        let less1 = vec4<f32>(BASE) + 16.0 * points;
        let less2 = vec4<f32>(BASE) + 256.0 * points;
        let less3 = vec4<f32>(BASE) + 4096.0 * points;
#if WIDTH == 4
        let words0 = b[start.x];
        let words1 = b[start.y];
        let words2 = b[start.z];
        let words3 = b[start.w];
#endif
        var of_unit = array<vec4<f32>, ROWS>();
        for (var j = 0u; j < 2u * WIDTH; j++) {
#if WIDTH == 4
            let words = vec4<u32>(words0[j / 2u], words1[j / 2u], words2[j / 2u], words3[j / 2u]);
#else
            let words = vec4<u32>(b[start.x], b[start.y], b[start.z], b[start.w]);
#endif
            let half = words >> vec4<u32>(16u * (j % 2u));
            let weights0 = weights(half, 0xFu, less0);
            let weights1 = weights(half, 0xF0u, less1);
            let weights2 = weights(half, 0xF00u, less2);
            let weights3 = weights(half, 0xF000u, less3);
            for (var r = 0u; r < ROWS; r++) {
                let row = min(first_row + r, M - 1u);
                let left = vec4<f32>(a[row * (2u * WORDS) + unit * (2u * WIDTH) + j]) * vec4<f32>(1.0, 0.0625, 0.00390625, 0.000244140625);
                of_unit[r] = fma(vec4<f32>(left.x), weights0, of_unit[r]);
                of_unit[r] = fma(vec4<f32>(left.y), weights1, of_unit[r]);
                of_unit[r] = fma(vec4<f32>(left.z), weights2, of_unit[r]);
                of_unit[r] = fma(vec4<f32>(left.w), weights3, of_unit[r]);
            }
        }
        for (var r = 0u; r < ROWS; r++) {
            sums[r] = fma(of_unit[r], factors, sums[r]);
        }
    }

    for (var r = 0u; r < ROWS; r++) {
        let to = lane * RESULTS + r * 16u + thread / 32u * 4u;
        parts[to] = sums[r].x;
        parts[to + 1u] = sums[r].y;
        parts[to + 2u] = sums[r].z;
        parts[to + 3u] = sums[r].w;
    }
    workgroupBarrier();
    // Results are 128 at most, one for each thread.
    if thread < RESULTS {
        var sum = 0.0;
        for (var i = 0u; i < 32u; i++) {
            sum += parts[i * RESULTS + thread];
        }
        let row = first_row + thread / 16u;
        let col = first_col + thread % 16u;
        if row < M && col < N {
            c[row * N + col] = elem(sum);
        }
    }
}
