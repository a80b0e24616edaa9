// Rows of a table combined bag by bag, in pieces. The definition is in core/workloads/src/ops/embedding_bag.
//
// A thread has a piece of its bag's row, with the pieces of four items in flight.

#import lib/launch
#import lib/pieces{WIDTH}

@group(0) @binding(0) var<storage, read> index: array<u32>;
@group(0) @binding(1) var<storage, read> offsets: array<u32>;
@group(0) @binding(2) var<storage, read> table: array<stored>;
@group(0) @binding(3) var<storage, read_write> out: array<stored>;
#if WEIGHTED
@group(0) @binding(4) var<storage, read> weight: array<f32>;
#endif

// An item's piece, times its factor.
fn term(item: u32, of_row: u32) -> piece {
    let x = piece(table[index[item] * PIECES + of_row]);
#if WEIGHTED
    return x * weight[item];
#else
    return x;
#endif
}

// Two terms, or combined terms; only `one` where `both` is false.
fn together(one: piece, other: piece, both: bool) -> piece {
    if !both {
        return one;
    }
    if MAX {
        return larger(one, other);
    }
    return one + other;
}

@compute @workgroup_size(THREADS)
fn embedding_bag_rows(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let at = flat_group(group, groups) * THREADS + lane;
    if at >= COUNT {
        return;
    }
    let bag = at / PIECES;
    let of_row = at % PIECES;
    let begin = offsets[bag];
    let end = offsets[bag + 1u];
    var value = piece();
    for (var item = begin; item < end; item += 4u) {
        // Past the end of the bag the last item is read again, and not counted.
        let items = min(vec4<u32>(item, item + 1u, item + 2u, item + 3u), vec4<u32>(end - 1u));
        let x = term(items.x, of_row);
        let y = term(items.y, of_row);
        let z = term(items.z, of_row);
        let w = term(items.w, of_row);
        var batch = together(x, y, item + 1u < end);
        batch = together(batch, z, item + 2u < end);
        batch = together(batch, w, item + 3u < end);
        value = together(batch, value, item > begin);
    }
    if MEAN && end > begin {
        value /= f32(end - begin);
    }
    out[at] = stored(value);
}
