// Bits of the later boxes that overlap a box, for one pair of tiles. The definition is in core/workloads/src/ops/nms.rs.

#import lib/launch
#import nms/overlap

@group(0) @binding(0) var<storage, read> boxes: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> masks: array<vec4<u32>>;
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

var<workgroup> others: array<vec4<f32>, TILE>;
var<workgroup> areas: array<f32, TILE>;
#if CLASSED
var<workgroup> other_classes: array<u32, TILE>;
#endif

// Bits of box `own` for the 32 boxes of a word.
fn word_of(own: vec4<f32>, kind: u32, word: u32) -> u32 {
    let area = area_of(own);
    var bits = 0u;
    for (var k = 0u; k < 32u; k++) {
        let at = 32u * word + k;
#if CLASSED
        let compete = other_classes[at] == kind;
#else
        let compete = true;
#endif
        bits |= select(0u, 1u << k, compete && overlaps(own, area, others[at], areas[at]));
    }
    return bits;
}

// Bits of a word for boxes after box `i`, both counted within a tile.
fn after(i: u32, word: u32) -> u32 {
    let next = i + 1u;
    if next >= 32u * word + 32u {
        return 0u;
    }
    return 0xffffffffu << (max(next, 32u * word) - 32u * word);
}

@compute @workgroup_size(THREADS)
fn nms_mask(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    // Rows of pairs from the beginning and from the end have TILES + 1 pairs together.
    let index = flat_group(group, groups);
    let first_row = index / (TILES + 1u);
    let offset = index % (TILES + 1u);
    let from_end = offset >= TILES - min(first_row, TILES);
    let row = select(first_row, TILES - 1u - first_row, from_end);
    let column = select(first_row + offset, TILES - 1u - (offset + first_row - TILES), from_end);
    // Groups past the last, and the second half of a row that is paired with itself.
    if 2u * first_row + 1u > TILES || (from_end && row == first_row) {
        return;
    }
    let j = column * TILE + thread;
    var other = vec4<f32>();
    if j < N {
        other = boxes[box_of(j)];
    }
#if CLASSED
    other_classes[thread] = classes[box_of(min(j, N - 1u))];
#endif
    others[thread] = other;
    areas[thread] = area_of(other);
    workgroupBarrier();
    let i = row * TILE + thread;
    if i < N {
        let own = boxes[box_of(i)];
#if CLASSED
        let kind = classes[box_of(i)];
#else
        let kind = 0u;
#endif
        var bits = vec4<u32>(word_of(own, kind, 0u), word_of(own, kind, 1u), word_of(own, kind, 2u), word_of(own, kind, 3u));
        if row == column {
            bits &= vec4<u32>(after(thread, 0u), after(thread, 1u), after(thread, 2u), after(thread, 3u));
        }
        masks[i * TILES + column] = bits;
    }
}
