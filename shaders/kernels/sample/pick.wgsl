// A token of each row from its K largest logits in falling order, by a workgroup a row: a thread has OWN neighbours. The definition
// is in core/workloads/src/ops/sample.rs.

#import lib/before
#import lib/launch
#import sample/weight

alias summed = f32;

@group(0) @binding(0) var<storage, read> values: array<elem>;
@group(0) @binding(1) var<storage, read> indices: array<u32>;
@group(0) @binding(2) var<storage, read> u: array<f32>;
@group(0) @binding(3) var<storage, read_write> token: array<u32>;
@group(0) @binding(4) var<storage, read_write> probability: array<f32>;

// Sums of the weights up to each logit.
var<workgroup> upto: array<f32, THREADS * OWN>;
// First logit whose sum reaches the share that is kept, first one with too little weight, and first one beyond u.
var<workgroup> first_p: atomic<u32>;
var<workgroup> first_less: atomic<u32>;
var<workgroup> first_beyond: atomic<u32>;

@compute @workgroup_size(THREADS)
fn sample_pick(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = flat_group(group, groups);
    if row >= ROWS {
        return;
    }
    let base = row * K;
    let top = f32(values[base]);
    if thread == 0u {
        atomicStore(&first_p, K - 1u);
        atomicStore(&first_less, K);
        atomicStore(&first_beyond, K);
    }
    var own = array<f32, OWN>();
    var mine = 0.0;
    for (var i = 0u; i < OWN; i++) {
        let at = thread * OWN + i;
        own[i] = select(0.0, weight(f32(values[base + min(at, K - 1u)]), top), at < K);
        mine += own[i];
    }
    var run = sum_before(thread, mine);
    let sum = of_threads[THREADS - 1u];
    for (var i = 0u; i < OWN; i++) {
        let at = thread * OWN + i;
        run += own[i];
        upto[at] = run;
        if at < K && !ALL_P && run >= TOP_P * sum {
            atomicMin(&first_p, at);
        }
        if at < K && own[i] < MIN_P {
            atomicMin(&first_less, at);
        }
    }
    workgroupBarrier();
    let kept = max(min(atomicLoad(&first_p) + 1u, atomicLoad(&first_less)), 1u);
    let total = upto[kept - 1u];
    for (var i = 0u; i < OWN; i++) {
        let at = thread * OWN + i;
        if at < kept && upto[at] > u[row] * total {
            atomicMin(&first_beyond, at);
        }
    }
    workgroupBarrier();
    if thread == 0u {
        let place = select(0u, min(atomicLoad(&first_beyond), kept - 1u), is_finite(top));
        token[row] = indices[base + place];
        let share = weight(f32(values[base + place]), top) / total;
        probability[row] = select(not_a_number(top), share, is_finite(top));
    }
}
