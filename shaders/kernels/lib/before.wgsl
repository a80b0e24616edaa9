// Sums over a workgroup of THREADS threads. The kernel has the type: `alias summed = u32;`.

var<workgroup> of_threads: array<summed, THREADS>;

// Sum over the earlier threads. That over all threads up to each stays in `of_threads`. All threads must call.
fn sum_before(lane: u32, own: summed) -> summed {
    of_threads[lane] = own;
    workgroupBarrier();
    // Each step sums twice as many neighbours.
    for (var step = 1u; step < THREADS; step *= 2u) {
        var more = summed();
        if lane >= step {
            more = of_threads[lane - step];
        }
        workgroupBarrier();
        of_threads[lane] += more;
        workgroupBarrier();
    }
    if lane == 0u {
        return summed();
    }
    return of_threads[lane - 1u];
}
