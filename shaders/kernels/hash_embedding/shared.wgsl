// Hash embedding for rows sorted by group, with columns private to a workgroup. The definition is in
// core/workloads/src/ops/hash_embedding.
//
// hash_embedding_shared  a workgroup owns COLUMNS columns of OWNED neighbouring groups, whose rows are contiguous
//
// It finds their first and last row, adds each row to sums in workgroup memory, and writes every column once. Additions are by
// compare-and-exchange on the bits, as WGSL has no floating-point atomics. Unlike `owner`, one thread reads a row.
//
// Choices and measurements: docs/notebook/2026-11-28-kernel-notes.md.

#import lib/launch
#import lib/murmur
#import lib/sorted

@group(0) @binding(0) var<storage, read> id: array<u32>;
@group(0) @binding(1) var<storage, read> sorted: array<u32>;
@group(0) @binding(2) var<storage, read> weight: array<f32>;
// VECTORS: the workgroup has all columns of a group, in a multiple of four.
#if VECTORS
@group(0) @binding(3) var<storage, read_write> out: array<vec4<f32>>;
#else
@group(0) @binding(3) var<storage, read_write> out: array<f32>;
#endif

const AT_ONCE: u32 = 2u;
// Distance between the two threads that search.
const APART: u32 = 32u;

var<workgroup> sums: array<atomic<u32>, OWNED * COLUMNS>;
// First row of the workgroup's groups, and first row after them.
var<workgroup> bounds: array<u32, 2>;

fn sum(at: u32) -> f32 {
    return bitcast<f32>(atomicLoad(&sums[at]));
}

fn add(at: u32, term: f32) {
    // Most columns are zero before their first row: the first attempt assumes zero, without a load.
    var seen = 0u;
    // Each failure is another thread's success, so the loop ends long before. The bound proves it to compilers.
    for (var tries = 0u; tries < 0x7fffffffu; tries++) {
        let tried = atomicCompareExchangeWeak(&sums[at], seen, bitcast<u32>(bitcast<f32>(seen) + term));
        if tried.exchanged {
            break;
        }
        seen = tried.old_value;
    }
}

@compute @workgroup_size(THREADS)
fn hash_embedding_shared(
    @builtin(workgroup_id) block: vec3<u32>,
    @builtin(num_workgroups) blocks: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let owner = flat_group(block, blocks);
    if owner >= OWNERS * ACROSS {
        return;
    }
    let first_group = owner / ACROSS * OWNED;
    let groups = min(OWNED, GROUPS - first_group);
    let first_column = owner % ACROSS * COLUMNS;
    // On most devices these threads are in different subgroups, so that the searches overlap.
    if thread % APART == 0u && thread < 2u * APART {
        let wanted = first_group + thread / APART * groups;
        let guess = min(ROWS, u32(f32(wanted) * (f32(ROWS) / f32(GROUPS))));
        bounds[thread / APART] = first_at_least(wanted, guess, ROWS);
    }
    // Browsers have already cleared workgroup memory.
#if !IN_A_BROWSER
    for (var t = 0u; t < (OWNED * COLUMNS + THREADS - 1u) / THREADS; t++) {
        let i = t * THREADS + thread;
        if i < OWNED * COLUMNS {
            atomicStore(&sums[i], 0u);
        }
    }
#endif
    workgroupBarrier();
    let end = bounds[1];
    let begin = bounds[0];
    // Two rows in flight per thread. After the last row it is read again, and adds nothing.
    let steps = (end - begin + THREADS * AT_ONCE - 1u) / (THREADS * AT_ONCE);
    for (var step = 0u; step < steps; step++) {
        let first = begin + step * THREADS * AT_ONCE + thread;
        var ids = array<u32, AT_ONCE>();
        var places = array<u32, AT_ONCE>();
        var terms = array<f32, AT_ONCE>();
        for (var i = 0u; i < AT_ONCE; i++) {
            let row = min(first + i * THREADS, end - 1u);
            ids[i] = id[row];
            places[i] = sorted[row];
            terms[i] = weight[row];
        }
        for (var i = 0u; i < AT_ONCE; i++) {
            let h = murmur_finalise(ids[i]);
            // Columns before the first wrap around and are out of range, as those after the last.
            let column = (h & 0x7fffffffu) % DIM - first_column;
            if column < COLUMNS && first + i * THREADS < end {
                add((places[i] - first_group) * COLUMNS + column, select(terms[i], -terms[i], h >> 31u == 1u));
            }
        }
    }
    workgroupBarrier();
#if VECTORS
    for (var t = 0u; t < (OWNED * COLUMNS / 4u + THREADS - 1u) / THREADS; t++) {
        let i = t * THREADS + thread;
        if i < groups * COLUMNS / 4u {
            out[first_group * COLUMNS / 4u + i] = vec4<f32>(sum(4u * i), sum(4u * i + 1u), sum(4u * i + 2u), sum(4u * i + 3u));
        }
    }
#else
    for (var t = 0u; t < (OWNED * COLUMNS + THREADS - 1u) / THREADS; t++) {
        let i = t * THREADS + thread;
        let column = first_column + i % COLUMNS;
        if i < groups * COLUMNS && column < DIM {
            out[(first_group + i / COLUMNS) * DIM + column] = sum(i);
        }
    }
#endif
}
