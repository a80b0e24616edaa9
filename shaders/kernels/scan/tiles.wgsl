// Stretches scanned from their start values, tile by tile. The definition is in core/workloads/src/ops/scan.rs.
//
// A tile is four rows of a piece per thread, so that neighbouring threads read neighbouring pieces. Sums of the pieces of four
// rows are scanned as the components of a vector: eight steps, each with two barriers.

#import lib/before
#import lib/launch
#import lib/pieces{WIDTH}

alias summed = vec4<f32>;

// Sums within a piece up to each of its elements, and before each; and the sum of all.
#if WIDTH == 1
fn upto(x: piece) -> piece {
    return x;
}

fn below(sums: piece) -> piece {
    return 0.0;
}

fn whole(sums: piece) -> f32 {
    return sums;
}
#else
fn upto(x: piece) -> piece {
    let two = x.x + x.y;
    let three = two + x.z;
    return piece(x.x, two, three, three + x.w);
}

fn below(sums: piece) -> piece {
    return piece(0.0, sums.x, sums.y, sums.z);
}

fn whole(sums: piece) -> f32 {
    return sums.w;
}
#endif

@group(0) @binding(0) var<storage, read> x: array<stored>;
@group(0) @binding(1) var<storage, read> parts: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<stored>;

@compute @workgroup_size(THREADS)
fn scan_tiles(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let part = flat_group(group, groups);
    if part >= PARTS {
        return;
    }
    let end = min((part + 1u) * STRETCH, TILES);
    var carry = parts[part];
    for (var tile = part * STRETCH; tile < end; tile++) {
        let first = tile * 4u * THREADS + lane;
        var own = array<piece, 4>();
        var mine = vec4<f32>(0.0);
        for (var row = 0u; row < 4u; row++) {
            let at = first + row * THREADS;
            if at < COUNT {
                own[row] = upto(piece(x[at]));
                mine[row] = whole(own[row]);
            }
        }
        var start = sum_before(lane, mine);
        let rows = of_threads[THREADS - 1u];
        // The next tile's sums take the place of these.
        workgroupBarrier();
        let two = carry + rows.x;
        let three = two + rows.y;
        let four = three + rows.z;
        start += vec4<f32>(carry, two, three, four);
        carry = four + rows.w;
        for (var row = 0u; row < 4u; row++) {
            let at = first + row * THREADS;
            if at < COUNT {
                if EXCLUSIVE {
                    out[at] = stored(start[row] + below(own[row]));
                } else {
                    out[at] = stored(start[row] + own[row]);
                }
            }
        }
    }
}
