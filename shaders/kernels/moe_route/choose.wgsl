// Experts and weights of tokens, LANES threads per token, and ranks of tokens among those of an expert in a stretch. The
// definition is in core/workloads/src/ops/moe_route.
//
// A workgroup has a stretch of TILES tiles of 32 tokens. A thread sorts entries in lists of LIST, and merges them to one. Threads of a
// token merge theirs pairwise. BY_PIECES: the maxima of pieces are sorted first. The token's choices are in the LIST pieces with the
// largest, and only elements of these are sorted.
//
// The tokens of a tile that chose an expert are a mask: a rank is a number of lower bits.

#import lib/launch
#import lib/pieces{WIDTH}
#import moe_route/lists
#if !RENORMALISED
#import lib/lanes
#endif

@group(0) @binding(0) var<storage, read> logits: array<stored>;
@group(0) @binding(1) var<storage, read_write> weights: array<f32>;
@group(0) @binding(2) var<storage, read_write> experts: array<u32>;
@group(0) @binding(3) var<storage, read_write> slots: array<u32>;
@group(0) @binding(4) var<storage, read_write> counts: array<u32>;

const TILE: u32 = 32u;
const ROW_PIECES: u32 = EXPERTS / WIDTH;
const AT_ONCE: u32 = THREADS / LANES;
// Pieces of a thread among LIST of a token.
const OWN_PIECES: u32 = (LIST + LANES - 1u) / LANES;
// Entries of a thread, and its lists of them.
const OWN: u32 = select(PIECES, OWN_PIECES, BY_PIECES) * WIDTH;
const LISTS: u32 = (OWN + LIST - 1u) / LIST;
const LISTS_OF_PIECES: u32 = (PIECES + LIST - 1u) / LIST;

var<workgroup> lists: array<entry, THREADS * LIST>;
var<workgroup> masks: array<atomic<u32>, EXPERTS>;
// Tokens of each expert in earlier tiles.
var<workgroup> counted: array<u32, EXPERTS>;
var<workgroup> chosen: array<u32, TILE * CHOICES>;
var<workgroup> weighed: array<f32, TILE * CHOICES>;

// First entries of the lists of all threads of a token. All threads of the workgroup must call.
fn merged_over_lanes(own: List, thread: u32) -> List {
    var list = own;
    for (var step = 1u; step < LANES; step *= 2u) {
        for (var i = 0u; i < LIST; i++) {
            lists[i * THREADS + thread] = list[i];
        }
        workgroupBarrier();
        var other = List();
        for (var i = 0u; i < LIST; i++) {
            other[i] = lists[i * THREADS + (thread ^ step)];
        }
        workgroupBarrier();
        list = merged(list, other);
    }
    return list;
}

@compute @workgroup_size(THREADS)
fn moe_route_choose(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let stretch = flat_group(group, groups);
    if stretch >= STRETCHES {
        return;
    }
    let lane = thread % LANES;
    for (var expert = thread; expert < EXPERTS; expert += THREADS) {
        counted[expert] = 0u;
        atomicStore(&masks[expert], 0u);
    }
    workgroupBarrier();
    let end = min((stretch + 1u) * TILES, (TOKENS + TILE - 1u) / TILE);
    for (var tile = stretch * TILES; tile < end; tile++) {
        let first = tile * TILE;
        for (var round = 0u; round < TILE / AT_ONCE; round++) {
            let within = round * AT_ONCE + thread / LANES;
            let token = first + within;
            // Threads without a token read the last one, and write nothing.
            let base = min(token, TOKENS - 1u) * ROW_PIECES;
            var kept = array<piece, PIECES>();
            for (var i = 0u; i < PIECES; i++) {
                kept[i] = piece(logits[base + min(lane + i * LANES, ROW_PIECES - 1u)]);
            }
            var list = List();
#if BY_PIECES
            for (var l = 0u; l < LISTS_OF_PIECES; l++) {
                var one = List();
                for (var i = 0u; i < LIST; i++) {
                    let at = lane + (l * LIST + i) * LANES;
                    if l * LIST + i < PIECES && at < ROW_PIECES {
                        one[i] = entry_of(piece_maximum(kept[l * LIST + i]), at);
                    }
                }
                list = merged(list, in_order(one));
            }
            let pieces = merged_over_lanes(list, thread);
            list = List();
            var own = array<piece, OWN_PIECES>();
            var first_experts = array<u32, OWN_PIECES>();
            for (var i = 0u; i < OWN_PIECES; i++) {
                // Without a piece: beyond the last expert.
                first_experts[i] = EXPERTS;
                for (var j = 0u; j < LIST; j++) {
                    if j == i * LANES + lane && is_entry(pieces[j]) {
                        first_experts[i] = expert_of(pieces[j]) * WIDTH;
                    }
                }
                own[i] = piece(logits[base + min(first_experts[i] / WIDTH, ROW_PIECES - 1u)]);
            }
#endif
            for (var l = 0u; l < LISTS; l++) {
                var one = List();
                for (var i = 0u; i < LIST; i++) {
                    let value = l * LIST + i;
                    if value < OWN {
#if BY_PIECES
                        let expert = first_experts[value / WIDTH] + value % WIDTH;
                        let logit = own[value / WIDTH][value % WIDTH];
#else
                        let expert = (lane + value / WIDTH * LANES) * WIDTH + value % WIDTH;
#if WIDTH == 4
                        let logit = kept[value / WIDTH][value % WIDTH];
#else
                        let logit = kept[value];
#endif
#endif
                        if expert < EXPERTS {
                            one[i] = entry_of(logit, expert);
                        }
                    }
                }
                list = merged(list, in_order(one));
            }
            list = merged_over_lanes(list, thread);

            let top = logit_of(list[0]);
            var total = 0.0;
#if RENORMALISED
            for (var choice = 0u; choice < CHOICES; choice++) {
                total += exp(logit_of(list[choice]) - top);
            }
#else
            var sums = piece();
            for (var i = 0u; i < PIECES; i++) {
                sums += select(piece(), exp(kept[i] - piece(top)), lane + i * LANES < ROW_PIECES);
            }
            total = lanes_sum(thread, piece_sum(sums));
#endif
            for (var choice = 0u; choice < CHOICES; choice++) {
                if choice % LANES == lane && token < TOKENS {
                    let expert = expert_of(list[choice]);
                    let share = exp(logit_of(list[choice]) - top) / total;
                    chosen[within * CHOICES + choice] = expert;
                    weighed[within * CHOICES + choice] = select(share, top, is_nan(top));
                    atomicOr(&masks[expert], 1u << within);
                }
            }
        }
        workgroupBarrier();
        let pairs = min(TILE, TOKENS - first) * CHOICES;
        for (var i = thread; i < pairs; i += THREADS) {
            let expert = chosen[i];
            let before = (1u << (i / CHOICES)) - 1u;
            weights[first * CHOICES + i] = weighed[i];
            experts[first * CHOICES + i] = expert;
            slots[first * CHOICES + i] = counted[expert] + countOneBits(atomicLoad(&masks[expert]) & before);
        }
        workgroupBarrier();
        for (var expert = thread; expert < EXPERTS; expert += THREADS) {
            counted[expert] += countOneBits(atomicLoad(&masks[expert]));
            atomicStore(&masks[expert], 0u);
        }
        workgroupBarrier();
    }
    for (var expert = thread; expert < EXPERTS; expert += THREADS) {
        counts[stretch * EXPERTS + expert] = counted[expert];
    }
}
