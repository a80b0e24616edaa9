// One workgroup: each kept box in turn excludes the later ones that overlap it. The definition is in core/workloads/src/ops/nms.rs.

#import nms/overlap

@group(0) @binding(0) var<storage, read> boxes: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> keep: array<u32>;
#if CLASSED
@group(0) @binding(2) var<storage, read> classes: array<u32>;
#if SCORED
@group(0) @binding(3) var<storage, read> order: array<u32>;
#endif
#else
#if SCORED
@group(0) @binding(2) var<storage, read> order: array<u32>;
#endif
#endif

fn compete(i: u32, j: u32) -> bool {
#if CLASSED
    return classes[i] == classes[j];
#else
    return true;
#endif
}

@compute @workgroup_size(THREADS)
fn nms_naive(@builtin(local_invocation_index) thread: u32) {
    for (var i = thread; i < N; i += THREADS) {
        keep[i] = 1u;
    }
    for (var rank = 0u; rank < N; rank++) {
        storageBarrier();
        let i = box_of(rank);
        if keep[i] != 0u {
            let own = boxes[i];
            let area = area_of(own);
            for (var later = rank + 1u + thread; later < N; later += THREADS) {
                let j = box_of(later);
                let other = boxes[j];
                if compete(i, j) && overlaps(own, area, other, area_of(other)) {
                    keep[j] = 0u;
                }
            }
        }
    }
}
