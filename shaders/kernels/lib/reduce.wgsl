// Reductions over the workgroup of one row: ROW_THREADS threads, a power of two. Every thread gets the result, and all
// of them must call. A maximum is NaN where a thread's number is.

#import lib/nan

var<workgroup> partial_row: array<f32, ROW_THREADS>;

fn row_sum(lane: u32, x: f32) -> f32 {
    partial_row[lane] = x;
    workgroupBarrier();
    for (var half = ROW_THREADS / 2u; half > 0u; half /= 2u) {
        if lane < half {
            partial_row[lane] += partial_row[lane + half];
        }
        workgroupBarrier();
    }
    let sum = partial_row[0];
    workgroupBarrier();
    return sum;
}

fn row_max(lane: u32, x: f32) -> f32 {
    partial_row[lane] = x;
    workgroupBarrier();
    for (var half = ROW_THREADS / 2u; half > 0u; half /= 2u) {
        if lane < half {
            partial_row[lane] = maximum(partial_row[lane], partial_row[lane + half]);
        }
        workgroupBarrier();
    }
    let top = partial_row[0];
    workgroupBarrier();
    return top;
}
