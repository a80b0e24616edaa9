// Walsh–Hadamard transform of rows that stay in registers. The definition is in core/workloads/src/ops/hadamard.rs.
//
// A row has LANES·PIECES vectors of four neighbours. The number of a vector has two kinds of bits: those that vary between the PIECES
// vectors of a thread, and those that vary between threads. A thread adds and subtracts over the first kind. Then the vectors change
// places through workgroup memory, so that bits of the other kind vary within threads. PLANES components change places at a time.

#import lib/launch
#import lib/own_row
#import lib/pieces4

@group(0) @binding(0) var<storage, read> x: array<stored>;
@group(0) @binding(1) var<storage, read_write> out: array<stored>;

const ROW_PIECES: u32 = COLUMNS / WIDTH;
const BITS: u32 = countTrailingZeros(PIECES);
// Words of a component. One in PAD + 1 is unused, so that threads a power of two apart use different banks.
const PITCH: u32 = ROW_PIECES + ROW_PIECES / PAD;

var<workgroup> places: array<f32, THREADS / LANES * PLANES * PITCH>;

// Number of a thread's vector whose bits from `shift` on vary within threads.
fn vector_of(lane: u32, i: u32, shift: u32) -> u32 {
    let low = lane & ((1u << shift) - 1u);
    return low | (i << shift) | ((lane >> shift) << (shift + BITS));
}

fn place_of(vector: u32) -> u32 {
    return vector + vector / PAD;
}

// Sums and differences of vectors of a thread whose numbers differ in the bit APART.
#block add_and_subtract(APART)
    for (var i = 0u; i < PIECES; i++) {
        if (i & APART) == 0u && (i | APART) < PIECES {
            let one = kept[i];
            let other = kept[i | APART];
            kept[i] = one + other;
            kept[i | APART] = one - other;
        }
    }
#end

#block add_and_subtract_below(APART)
    if (APART << shift) < LANES {
        #emit add_and_subtract(APART)
    }
#end

@compute @workgroup_size(THREADS)
fn hadamard_row(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    #emit own_row(row, base, lane)
    let own = thread / LANES * (PLANES * PITCH);
    var kept: array<vec4<f32>, PIECES>;
    for (var i = 0u; i < PIECES; i++) {
        let four = piece(x[base + lane + i * LANES]);
        let pairs = vec4<f32>(four.x + four.y, four.x - four.y, four.z + four.w, four.z - four.w);
        kept[i] = vec4<f32>(pairs.xy + pairs.zw, pairs.xy - pairs.zw);
    }
    // Of the first layout, the highest bits vary within threads.
    #emit add_and_subtract(1u)
    #emit add_and_subtract(2u)
    #emit add_and_subtract(4u)
    #emit add_and_subtract(8u)
    var before = countTrailingZeros(LANES);
    for (var shift = 0u; (1u << shift) < LANES; shift += BITS) {
        for (var first = 0u; first < WIDTH; first += PLANES) {
            workgroupBarrier();
            for (var i = 0u; i < PIECES; i++) {
                let at = own + place_of(vector_of(lane, i, before));
                for (var c = 0u; c < PLANES; c++) {
                    places[at + c * PITCH] = kept[i][first + c];
                }
            }
            workgroupBarrier();
            for (var i = 0u; i < PIECES; i++) {
                let at = own + place_of(vector_of(lane, i, shift));
                for (var c = 0u; c < PLANES; c++) {
                    kept[i][first + c] = places[at + c * PITCH];
                }
            }
        }
        before = shift;
        // The last layout may have some of the highest bits again, over which the sums are complete.
        #emit add_and_subtract_below(1u)
        #emit add_and_subtract_below(2u)
        #emit add_and_subtract_below(4u)
        #emit add_and_subtract_below(8u)
    }
    if row < ROWS {
        for (var i = 0u; i < PIECES; i++) {
            out[base + vector_of(lane, i, before)] = stored(kept[i] * SCALE);
        }
    }
}
