// GEMM with weights of 8 bits for few rows of A. The definition is in core/workloads/src/ops/matmul_q8.rs.
//
// A workgroup of 128 threads computes ROWS rows: LANES threads share the depth of four columns. A thread reads WIDTH words of each
// of its columns, and the elements of A for them once for all four.
//
// The bytes of half a word, with the signs of their numbers flipped, are put into the lower bits of 2^23 as f32. Less 2^23 and 128
// at the same bits, they are the weight, and 256 times the weight, exactly. The element of A for the latter is divided by 256 first.

#import lib/launch

@group(0) @binding(0) var<storage, read> a: array<vec4<elem>>;
#if WIDTH == 4
@group(0) @binding(1) var<storage, read> b: array<vec4<u32>>;
#else
@group(0) @binding(1) var<storage, read> b: array<u32>;
#endif
@group(0) @binding(2) var<storage, read> scale: array<elem>;
@group(0) @binding(3) var<storage, read_write> c: array<elem>;

// Vectors of words in a row of B; columns and results of a workgroup.
const UNITS: u32 = WORDS / WIDTH;
const COLUMNS: u32 = 512u / LANES;
const RESULTS: u32 = COLUMNS * ROWS;
// Threads that sum the parts of a result, and their parts.
const SHARES: u32 = 128u / RESULTS;
const SHARE: u32 = LANES / SHARES;
// 2^23 + 128 and 2^23 + 256·128 as f32, and the bits of 2^23.
const LESS: f32 = 8388736.0;
const LESS_UPPER: f32 = 8421376.0;
const BITS: u32 = 0x4B000000u;

var<workgroup> parts: array<f32, LANES * RESULTS>;

// Numbers of four columns at the bits of a mask, less their base.
fn weights(half: vec4<u32>, mask: u32, less: f32) -> vec4<f32> {
    return bitcast<vec4<f32>>((half & vec4<u32>(mask)) | vec4<u32>(BITS)) - vec4<f32>(less);
}

@compute @workgroup_size(128)
fn matmul_q8_rows(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let across = (N + COLUMNS - 1u) / COLUMNS;
    let down = (M + ROWS - 1u) / ROWS;
    let index = flat_group(group, groups);
    if index >= across * down {
        return;
    }
    // Tiles of the same columns follow each other, so that their weights come from the cache.
    let first_row = index % down * ROWS;
    let first_col = index / down * COLUMNS;
    let lane = thread % LANES;
    // Columns and rows outside repeat the last ones; their results are not stored.
    let cols = min(vec4<u32>(first_col + thread / LANES * 4u) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(N - 1u));
    var sums: array<vec4<f32>, ROWS>;
    for (var unit = lane; unit < UNITS; unit += LANES) {
        let start = cols * UNITS + vec4<u32>(unit);
        let words0 = b[start.x];
        let words1 = b[start.y];
        let words2 = b[start.z];
        let words3 = b[start.w];
        let at = cols * GROUPS + vec4<u32>(unit * WIDTH / GROUP_WORDS);
        let factors = vec4<f32>(f32(scale[at.x]), f32(scale[at.y]), f32(scale[at.z]), f32(scale[at.w]));
        var of_unit = array<vec4<f32>, ROWS>();
        for (var j = 0u; j < WIDTH; j++) {
#if WIDTH == 4
            let words = vec4<u32>(words0[j], words1[j], words2[j], words3[j]) ^ vec4<u32>(0x80808080u);
#else
            let words = vec4<u32>(words0, words1, words2, words3) ^ vec4<u32>(0x80808080u);
#endif
            let upper = words >> vec4<u32>(16u);
            let weights0 = weights(words, 0xFFu, LESS);
            let weights1 = weights(words, 0xFF00u, LESS_UPPER);
            let weights2 = weights(upper, 0xFFu, LESS);
            let weights3 = weights(upper, 0xFF00u, LESS_UPPER);
            for (var r = 0u; r < ROWS; r++) {
                let row = min(first_row + r, M - 1u);
                let left = vec4<f32>(a[row * WORDS + unit * WIDTH + j]) * vec4<f32>(1.0, 0.00390625, 1.0, 0.00390625);
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
        let to = lane * RESULTS + r * COLUMNS + thread / LANES * 4u;
        parts[to] = sums[r].x;
        parts[to + 1u] = sums[r].y;
        parts[to + 2u] = sums[r].z;
        parts[to + 3u] = sums[r].w;
    }
    workgroupBarrier();
    // Results are 128 at most. The threads of a result share its parts.
    let result = thread % RESULTS;
    var sum = 0.0;
    for (var i = 0u; i < SHARE; i++) {
        sum += parts[(thread / RESULTS * SHARE + i) * RESULTS + result];
    }
    workgroupBarrier();
    parts[thread] = sum;
    workgroupBarrier();
    if thread < RESULTS {
        var total = 0.0;
        for (var i = 0u; i < SHARES; i++) {
            total += parts[i * RESULTS + thread];
        }
        let row = first_row + thread / COLUMNS;
        let col = first_col + thread % COLUMNS;
        if row < M && col < N {
            c[row * N + col] = elem(total);
        }
    }
}
