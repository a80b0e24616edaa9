// Fourier transforms of lines of a power of two, AT_ONCE of them in a workgroup. The definition and the meaning of constants are in
// core/workloads/src/ops/fft/lines.rs.
//
// Stockham's order: element i of a thread is element `t + i * SPACE` of its line before each pass and after the last. A pass of radix
// R takes elements LEN / R apart; the first is of radix FIRST, the others of radix 8. Between passes, real parts change places in
// workgroup memory, then imaginary parts: half of the memory. A word in nine is unused.

#import fft/complex
#import lib/launch

@group(0) @binding(0) var<storage, read> x: array<vec2<f32>>;
@group(0) @binding(1) var<storage, read> roots: array<vec2<f32>>;
@group(0) @binding(2) var<storage, read_write> out: array<vec2<f32>>;

// Threads of a line.
const SPACE: u32 = LEN / EACH;
#if INVERSE
const SIGN: f32 = 1.0;
#else
const SIGN: f32 = -1.0;
#endif
const DIAGONAL: f32 = 0.70710678118654752;

var<workgroup> places: array<f32, AT_ONCE * PITCH>;

fn padded(at: u32) -> u32 {
    return at + at / 8u;
}

// Multiplies by the imaginary unit with the sign of the exponent.
fn rotated(a: vec2<f32>) -> vec2<f32> {
    return vec2<f32>(-SIGN * a.y, SIGN * a.x);
}

// Line of the workgroup, and place in it, of a thread whose neighbours are along a line or on neighbouring lines.
fn position(thread: u32, along: bool) -> vec2<u32> {
    if along {
        return vec2<u32>(thread / SPACE, thread % SPACE);
    }
    return vec2<u32>(thread % AT_ONCE, thread / AT_ONCE);
}

fn first_of(line: u32, outer: u32, middle: u32) -> u32 {
    return line / INNER / MIDDLE * outer + line / INNER % MIDDLE * middle + line % INNER;
}

#block add_and_subtract(A, B)
    { let sum = v[A] + v[B]; v[B] = v[A] - v[B]; v[A] = sum; }
#end

#block exchanged(A, B)
    { let kept = v[A]; v[A] = v[B]; v[B] = kept; }
#end

// Transform of eight elements. The results are in order.
#block radix8()
    #emit add_and_subtract(0, 4)
    #emit add_and_subtract(1, 5)
    #emit add_and_subtract(2, 6)
    #emit add_and_subtract(3, 7)
    v[5] = DIAGONAL * (v[5] + rotated(v[5]));
    v[6] = rotated(v[6]);
    v[7] = DIAGONAL * (rotated(v[7]) - v[7]);
    #emit add_and_subtract(0, 2)
    #emit add_and_subtract(1, 3)
    #emit add_and_subtract(4, 6)
    #emit add_and_subtract(5, 7)
    v[3] = rotated(v[3]);
    v[7] = rotated(v[7]);
    #emit add_and_subtract(0, 1)
    #emit add_and_subtract(2, 3)
    #emit add_and_subtract(4, 5)
    #emit add_and_subtract(6, 7)
    #emit exchanged(1, 4)
    #emit exchanged(3, 6)
#end

// Transforms of four times two elements, of two times four, or of eight.
#if FIRST == 2
#block first_pass()
    #emit add_and_subtract(0, 4)
    #emit add_and_subtract(1, 5)
    #emit add_and_subtract(2, 6)
    #emit add_and_subtract(3, 7)
#end
#endif
#if FIRST == 4
#block first_pass()
    #emit add_and_subtract(0, 4)
    #emit add_and_subtract(1, 5)
    #emit add_and_subtract(2, 6)
    #emit add_and_subtract(3, 7)
    v[6] = rotated(v[6]);
    v[7] = rotated(v[7]);
    #emit add_and_subtract(0, 2)
    #emit add_and_subtract(1, 3)
    #emit add_and_subtract(4, 6)
    #emit add_and_subtract(5, 7)
    #emit exchanged(2, 4)
    #emit exchanged(3, 5)
#end
#endif
#if FIRST == 8
#block first_pass()
    #emit radix8()
#end
#endif

// Place of result i of a pass of this radix, after passes of a length of `done` in all.
fn place_of(i: u32, t: u32, done: u32, radix: u32) -> u32 {
    let j = t + i % (EACH / radix) * SPACE;
    return padded(j / done * done * radix + j % done + i / (EACH / radix) * done);
}

#block change_places(PART, DONE, RADIX)
    workgroupBarrier();
    for (var i = 0u; i < EACH; i++) {
        places[line * PITCH + place_of(i, t, DONE, RADIX)] = v[i].PART;
    }
    workgroupBarrier();
    for (var i = 0u; i < EACH; i++) {
        v[i].PART = places[to_line * PITCH + padded(to_t + i * SPACE)];
    }
#end

#if HALF_SPECTRUM
#block mirror(PART)
    workgroupBarrier();
    for (var i = 0u; i < EACH; i++) {
        places[line * PITCH + padded(t + i * SPACE)] = v[i].PART;
    }
    workgroupBarrier();
    for (var i = 0u; i < EACH; i++) {
        mirrored[i].PART = places[line * PITCH + padded((LEN - t - i * SPACE) % LEN)];
    }
#end

// Result k of real numbers, from results k and LEN - k of their pairs.
fn of_pair(own: vec2<f32>, other: vec2<f32>, k: u32) -> vec2<f32> {
    let even = vec2<f32>(own.x + other.x, own.y - other.y);
    let odd = vec2<f32>(own.x - other.x, own.y + other.y);
    let unit = roots[2u * LEN + k];
    // The root times odd, times minus the imaginary unit.
    return 0.5 * (even + vec2<f32>(unit.x * odd.y + unit.y * odd.x, unit.y * odd.y - unit.x * odd.x));
}
#endif

@compute @workgroup_size(THREADS)
fn fft_lines(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let first_line = flat_group(group, groups) * AT_ONCE;
    if first_line >= LINES {
        return;
    }
    let before = position(thread, LOAD_ALONG);
    let after = position(thread, STORE_ALONG);
    let to_line = after.x;
    let to_t = after.y;
    var line = before.x;
    var t = before.y;
    var v: array<vec2<f32>, EACH>;
    // Threads past the last line transform it again, and write nothing.
    let from_base = first_of(min(first_line + line, LINES - 1u), OUTER_IN, MIDDLE_IN);
    for (var i = 0u; i < EACH; i++) {
        v[i] = x[from_base + (t + i * SPACE) * APART_IN];
    }
    #emit first_pass()
    #emit change_places(x, 1u, FIRST)
    #emit change_places(y, 1u, FIRST)
    line = to_line;
    t = to_t;
    for (var done = FIRST; done < LEN; done *= EACH) {
        let place = t % done;
        let one = root(8u * done, place);
        let two = root(4u * done, place);
        let four = root(2u * done, place);
        v[1] = product(v[1], one);
        v[2] = product(v[2], two);
        v[3] = product(product(v[3], one), two);
        v[4] = product(v[4], four);
        v[5] = product(product(v[5], one), four);
        v[6] = product(product(v[6], two), four);
        v[7] = product(product(product(v[7], one), two), four);
        #emit radix8()
        if done * EACH < LEN {
            #emit change_places(x, done, EACH)
            #emit change_places(y, done, EACH)
        }
    }
    let to = first_line + to_line;
    let to_base = first_of(to, OUTER_OUT, MIDDLE_OUT);
#if FIRST_PART
    // Factors of result t, times those of 1, 2 and 4 times SPACE.
    let column = to % INNER / ALIKE;
    let base_factor = root(TOTAL, t * column);
    let one = root(TOTAL / SPACE, column);
    let two = root(TOTAL / (2u * SPACE), column);
    let four = root(TOTAL / (4u * SPACE), column);
    v[0] = product(v[0], base_factor);
    v[1] = product(product(v[1], base_factor), one);
    v[2] = product(product(v[2], base_factor), two);
    v[3] = product(product(product(v[3], base_factor), one), two);
    v[4] = product(product(v[4], base_factor), four);
    v[5] = product(product(product(v[5], base_factor), one), four);
    v[6] = product(product(product(v[6], base_factor), two), four);
    v[7] = product(product(product(product(v[7], base_factor), one), two), four);
#endif
#if HALF_SPECTRUM
    // Each result needs that of the mirrored place.
    var mirrored: array<vec2<f32>, EACH>;
    #emit mirror(x)
    #emit mirror(y)
    if to < LINES {
        for (var i = 0u; i < EACH; i++) {
            let k = t + i * SPACE;
            out[to_base + k] = of_pair(v[i], mirrored[i], k);
        }
        if t == 0u {
            out[to_base + LEN] = of_pair(v[0], mirrored[0], LEN);
        }
    }
#else
    if to < LINES {
        for (var i = 0u; i < EACH; i++) {
            out[to_base + (t + i * SPACE) * APART_OUT] = v[i];
        }
    }
#endif
}
