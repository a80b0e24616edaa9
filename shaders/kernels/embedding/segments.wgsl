// Gradients of rows, summed over items sorted by row. The definition is in core/workloads/src/ops/embedding/stages.rs.
//
// LANES threads process a stretch of STRETCH sorted items, with the pieces of four items in flight, and keep the current row's
// sum in registers. A row within the stretch is written to the table. The sum of a row that began in an earlier stretch goes to
// part 0. That of a row that continues in the next goes to part 1. Nothing is atomic.

#import lib/launch
#import lib/pieces{WIDTH}

#if WIDTH == 1
alias numbers = u32;
#else
alias numbers = vec4<u32>;
#endif

@group(0) @binding(0) var<storage, read> sorted: array<u32>;
@group(0) @binding(1) var<storage, read> order: array<u32>;
@group(0) @binding(2) var<storage, read> dout: array<stored>;
@group(0) @binding(3) var<storage, read_write> dtable: array<stored>;
@group(0) @binding(4) var<storage, read_write> parts: array<piece>;
#if BAGS
@group(0) @binding(5) var<storage, read> bag: array<u32>;
#endif
#if SCALED
@group(0) @binding(6) var<storage, read> scale: array<f32>;
#endif
#if PICKED
@group(0) @binding(6) var<storage, read> winner: array<numbers>;
#endif

// State of a thread: its piece, its stretch, the row and its sum, and whether the row's first item lies in an earlier stretch.
struct Running {
    at: u32,
    stretch: u32,
    row: u32,
    sum: piece,
    entered: bool,
}

// Term of an item in piece `at` of its row.
fn term(item: u32, at: u32) -> piece {
    let from_item = order[item];
#if BAGS
    let source = bag[from_item];
    if source >= SOURCES {
        return piece();
    }
#else
    let source = from_item;
#endif
    var value = piece(dout[source * PIECES + at]);
#if SCALED
    value *= scale[from_item];
#endif
#if PICKED
    value = select(piece(), value, winner[source * PIECES + at] == numbers(from_item));
#endif
    return value;
}

// Takes the next item in order, with its row.
fn take(run: ptr<function, Running>, row: u32, more: piece) {
    if row != (*run).row {
        if (*run).entered {
            parts[(*run).stretch * 2u * PIECES + (*run).at] = (*run).sum;
        } else {
            dtable[(*run).row * PIECES + (*run).at] = stored((*run).sum);
        }
        (*run).entered = false;
        (*run).sum = piece();
        (*run).row = row;
    }
    (*run).sum += more;
}

@compute @workgroup_size(THREADS)
fn embedding_segments(
    @builtin(workgroup_id) block: vec3<u32>,
    @builtin(num_workgroups) blocks: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let group = flat_group(block, blocks) * (THREADS / LANES) + thread / LANES;
    if group >= STRETCHES * ACROSS {
        return;
    }
    let stretch = group / ACROSS;
    let at = group % ACROSS * LANES + thread % LANES;
    if at >= PIECES {
        return;
    }
    let first = stretch * STRETCH;
    let end = min(ITEMS, first + STRETCH);
    var run = Running(at, stretch, sorted[first], piece(), false);
    if first > 0u {
        run.entered = sorted[first - 1u] == run.row;
    }
    for (var item = first; item < end; item += 4u) {
        let items = min(vec4<u32>(item, item + 1u, item + 2u, item + 3u), vec4<u32>(end - 1u));
        let rows = vec4<u32>(sorted[items.x], sorted[items.y], sorted[items.z], sorted[items.w]);
        let term_x = term(items.x, at);
        let term_y = term(items.y, at);
        let term_z = term(items.z, at);
        let term_w = term(items.w, at);
        take(&run, rows.x, term_x);
        if item + 1u < end {
            take(&run, rows.y, term_y);
        }
        if item + 2u < end {
            take(&run, rows.z, term_z);
        }
        if item + 3u < end {
            take(&run, rows.w, term_w);
        }
    }
    var goes_on = false;
    if end < ITEMS {
        goes_on = sorted[end] == run.row;
    }
    if run.entered {
        parts[stretch * 2u * PIECES + at] = run.sum;
    } else if goes_on {
        parts[(stretch * 2u + 1u) * PIECES + at] = run.sum;
    } else {
        dtable[run.row * PIECES + at] = stored(run.sum);
    }
}
