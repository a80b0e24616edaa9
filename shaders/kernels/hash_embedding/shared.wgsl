// Hash embedding for rows sorted by group, its columns private to a workgroup. The definition is in
// core/src/suite/workloads/hash_embedding.
//
// shared  hash_embedding_shared   against `owner`: a row is looked at by one thread. A workgroup owns COLUMNS columns of OWNED
//                                 neighbouring groups, whose rows lie side by side: it finds the first and the last of them,
//                                 adds each row to sums in its own memory (by compare-and-exchange on the bits, as WGSL has no
//                                 floating-point atomics), and writes every column once

#import lib/launch
#import lib/murmur
#import lib/sorted

@group(0) @binding(0) var<storage, read> id: array<u32>;
@group(0) @binding(1) var<storage, read> sorted: array<u32>;
@group(0) @binding(2) var<storage, read> weight: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

var<workgroup> sums: array<atomic<u32>, OWNED * COLUMNS>;
// The first row of the workgroup's groups, and the first behind them.
var<workgroup> bounds: array<u32, 2>;

fn add(at: u32, term: f32) {
    var seen = atomicLoad(&sums[at]);
    loop {
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
    if thread < 2u {
        let wanted = first_group + thread * groups;
        let guess = min(ROWS, u32(f32(wanted) * (f32(ROWS) / f32(GROUPS))));
        bounds[thread] = first_at_least(wanted, guess, ROWS);
    }
    for (var i = thread; i < OWNED * COLUMNS; i += THREADS) {
        atomicStore(&sums[i], 0u);
    }
    workgroupBarrier();
    let end = bounds[1];
    for (var row = bounds[0] + thread; row < end; row += THREADS) {
        let h = murmur_finalise(id[row]);
        // Columns before the first wrap round and are as far off as those behind the last.
        let column = (h & 0x7fffffffu) % DIM - first_column;
        if column < COLUMNS {
            add((sorted[row] - first_group) * COLUMNS + column, select(weight[row], -weight[row], h >> 31u == 1u));
        }
    }
    workgroupBarrier();
    for (var i = thread; i < groups * COLUMNS; i += THREADS) {
        let column = first_column + i % COLUMNS;
        if column < DIM {
            out[(first_group + i / COLUMNS) * DIM + column] = bitcast<f32>(atomicLoad(&sums[i]));
        }
    }
}
