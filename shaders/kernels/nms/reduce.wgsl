// Kept boxes by the masks of overlaps, tile by tile, in one workgroup. The definition is in core/workloads/src/ops/nms.rs.

@group(0) @binding(0) var<storage, read> masks: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> keep: array<u32>;
#if SCORED
@group(0) @binding(2) var<storage, read> order: array<u32>;
#endif

// Bits of boxes that a kept one excludes.
var<workgroup> excluded: array<atomic<u32>, TILES * 4u>;
// Masks of the tile within itself, its kept boxes, and the rows of these.
var<workgroup> within: array<vec4<u32>, TILE>;
var<workgroup> kept: vec4<u32>;
var<workgroup> rows: array<u32, TILE>;

const TEAMS: u32 = THREADS / LANES;

// Rows that a thread reads at a time.
const AT_ONCE: u32 = 4u;

// Bits of a tile's boxes: none past the last box.
fn present(tile: u32) -> vec4<u32> {
    let count = vec4<u32>(min(N - tile * TILE, TILE));
    let before = vec4<u32>(0u, 32u, 64u, 96u);
    let left = min(max(count, before) - before, vec4<u32>(32u));
    return select(vec4<u32>(0xffffffffu) >> ((32u - left) & vec4<u32>(31u)), vec4<u32>(), left == vec4<u32>());
}

// Kept boxes of a tile among those that no earlier tile excludes.
fn kept_of(candidates: vec4<u32>) -> vec4<u32> {
    var alive = candidates;
    for (var i = 0u; i < 32u; i++) {
        alive &= ~select(vec4<u32>(), within[i], (alive.x & (1u << i)) != 0u);
    }
    for (var i = 0u; i < 32u; i++) {
        alive &= ~select(vec4<u32>(), within[32u + i], (alive.y & (1u << i)) != 0u);
    }
    for (var i = 0u; i < 32u; i++) {
        alive &= ~select(vec4<u32>(), within[64u + i], (alive.z & (1u << i)) != 0u);
    }
    for (var i = 0u; i < 32u; i++) {
        alive &= ~select(vec4<u32>(), within[96u + i], (alive.w & (1u << i)) != 0u);
    }
    return alive;
}

fn excluded_of(tile: u32) -> vec4<u32> {
    return vec4<u32>(
        atomicLoad(&excluded[4u * tile]),
        atomicLoad(&excluded[4u * tile + 1u]),
        atomicLoad(&excluded[4u * tile + 2u]),
        atomicLoad(&excluded[4u * tile + 3u]),
    );
}

@compute @workgroup_size(THREADS)
fn nms_reduce(@builtin(local_invocation_index) thread: u32) {
    for (var i = thread; i < TILES * 4u; i += THREADS) {
        atomicStore(&excluded[i], 0u);
    }
    let lane = thread % LANES;
    let team = thread / LANES;
    for (var tile = 0u; tile < TILES; tile++) {
        let base = tile * TILE;
        if thread < TILE {
            var own = vec4<u32>();
            if base + thread < N {
                own = masks[(base + thread) * TILES + tile];
            }
            within[thread] = own;
        }
        workgroupBarrier();
        if thread == 0u {
            kept = kept_of(present(tile) & ~excluded_of(tile));
        }
        workgroupBarrier();
        let bits = kept;
        let counts = countOneBits(bits);
        if thread < TILE {
            let word = thread / 32u;
            let bit = 1u << (thread % 32u);
            let mine = bits[word] & bit;
            // Kept boxes before this one.
            var place = countOneBits(bits[word] & (bit - 1u));
            place += select(0u, counts.x, word > 0u) + select(0u, counts.y, word > 1u) + select(0u, counts.z, word > 2u);
            if mine != 0u {
                rows[place] = base + thread;
            }
            if base + thread < N {
#if SCORED
                keep[order[base + thread]] = select(0u, 1u, mine != 0u);
#else
                keep[base + thread] = select(0u, 1u, mine != 0u);
#endif
            }
        }
        workgroupBarrier();
        let count = counts.x + counts.y + counts.z + counts.w;
        for (var vector = tile + 1u + lane; vector < TILES; vector += LANES) {
            var found = vec4<u32>();
            for (var k = team; k < count; k += TEAMS * AT_ONCE) {
                // Past the last row, the last one once more.
                found |= masks[rows[k] * TILES + vector];
                found |= masks[rows[min(k + TEAMS, count - 1u)] * TILES + vector];
                found |= masks[rows[min(k + 2u * TEAMS, count - 1u)] * TILES + vector];
                found |= masks[rows[min(k + 3u * TEAMS, count - 1u)] * TILES + vector];
            }
            atomicOr(&excluded[4u * vector], found.x);
            atomicOr(&excluded[4u * vector + 1u], found.y);
            atomicOr(&excluded[4u * vector + 2u], found.z);
            atomicOr(&excluded[4u * vector + 3u], found.w);
        }
    }
}
