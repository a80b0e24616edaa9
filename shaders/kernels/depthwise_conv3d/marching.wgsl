// Depthwise convolution by threads that march along the slowest axis: against `direct` and `tiled`, an element of the image is
// read from device memory once, in pieces, and there are no barriers.
//
// Each slice of the image is added to the results that it has a part in, IN_FLIGHT of them: what a thread keeps is results in
// the making. The oldest is complete after each step and is written: with LATE once the next slice's numbers are asked for, which a
// driver cannot do by itself in the memory model of browsers, where what is written may be what is read. With FLIP taps are taken in
// reverse, as the gradient of the image asks for.
//
// Where taps of four channels are many, they lie in workgroup memory (TAPS_SHARED). All numbers of a slice that lie under the
// thread's results are read before the first is added, and a tap is fetched once for all of them. On an H200, natively,
// 2×32×32×128², three taps along each axis, f32: 137 and 161 µs with channels first and last; rows at once 100; a row of results a
// thread with channels first 92; taps in memory with channels last 293, and with the taps along the slowest axis written out 89. With
// checks of bounds that took 333 again, and with the rows of taps written out, too, 91. In Chromium 94 and 121 µs; in browsers, in f32, a
// thread has one channel with channels last, and its taps in registers: 110, and with LATE 104, but natively 119. Channels first take 91,
// and 100 with LATE. On an H100 in Chromium 110 with channels last, and 102 (2.6 TB/s, a copy 3.0) since nothing is asked where results
// are whole groups (107 by that alone) and of what is read under a thread's own results (103).

#import depthwise_conv3d/walk
#import lib/launch

#if BIASED
@group(0) @binding(3) var<storage, read> bias: array<elem>;
#endif

#if TAPS_SHARED
var<workgroup> shared_taps: array<value, KD * KH * KW * CHANNELS>;
#endif

@compute @workgroup_size(THREADS)
fn depthwise_marching(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
#if TAPS_SHARED
    for (var t = 0u; t < (KD * KH * KW * CHANNELS + THREADS - 1u) / THREADS; t++) {
        let at = t * THREADS + lane;
        if at < KD * KH * KW * CHANNELS { shared_taps[at] = tap_value(at % CHANNELS, at / CHANNELS); }
    }
    workgroupBarrier();
#endif
    // Neighbouring threads have neighbouring memory: channels first where these are last, and columns otherwise.
    let item = flat_group(group, groups) * THREADS + lane;
    var walk = walk_of(item / CHANNELS, item % CHANNELS);
    if !CHANNELS_LAST {
        walk.c = walk.n % C;
        walk.n /= C;
    }
    if walk.n >= N {
        return;
    }
    // Where the thread's taps are: from where on in workgroup memory, or in registers of its own.
#if TAPS_SHARED
    let taps = walk.c;
#else
    var own_taps = array<value, KD * KH * KW>();
    for (var tap = 0u; tap < KD * KH * KW; tap++) {
        own_taps[tap] = tap_value(walk.c, tap);
    }
    let taps = &own_taps;
#endif
    var sums = array<array<array<value, ALONG>, DOWN>, IN_FLIGHT>();
#if LATE
    var done = array<array<value, ALONG>, DOWN>();
#endif
    let end = min(walk.z + STRIP, OD);
    for (var step = walk.z; step < end + IN_FLIGHT - 1u; step++) {
        for (var r = 0u; r < SD; r++) {
            let z = step * SD + r - PD;
            var windows = array<array<value, WINDOW>, WINDOW_ROWS>();
            for (var row = 0u; row < WINDOW_ROWS; row++) {
                windows[row] = window_of(walk, z, row);
            }
#if LATE
            if r == 0u && step >= walk.z + IN_FLIGHT {
                write(walk, step - IN_FLIGHT, done);
            }
#endif
            // Three written out: a compiler leaves a loop that has so much in it as it is, and what a loop counts through is not in
            // registers.
            add(&sums, &windows, taps, r, 0u);
            if KD > 1u { add(&sums, &windows, taps, r, 1u); }
            if KD > 2u { add(&sums, &windows, taps, r, 2u); }
            for (var i = 3u; i < KD; i++) { add(&sums, &windows, taps, r, i); }
        }
#if LATE
        done = sums[IN_FLIGHT - 1u];
#else
        let z = step - (IN_FLIGHT - 1u);
        if step >= walk.z + IN_FLIGHT - 1u {
            for (var down = 0u; down < DOWN; down++) {
                if WHOLE_ROWS || walk.y + down < OH {
                    write_row(walk, z, walk.y + down, sums[IN_FLIGHT - 1u][down]);
                }
            }
        }
#endif
        for (var ago = IN_FLIGHT - 1u; ago > 0u; ago--) {
            sums[ago] = sums[ago - 1u];
        }
        sums[0] = array<array<value, ALONG>, DOWN>();
    }
#if LATE
    write(walk, end - 1u, done);
#endif
}

// A slice of the thread's results.
#if LATE
fn write(walk: Walk, z: u32, results: array<array<value, ALONG>, DOWN>) {
    for (var down = 0u; down < DOWN; down++) {
        if WHOLE_ROWS || walk.y + down < OH {
            write_row(walk, z, walk.y + down, results[down]);
        }
    }
}
#endif

// Add tap i along the slowest axis of a slice of the image, the r-th of its step, to the result that began so many steps ago.
fn add(
    sums: ptr<function, array<array<array<value, ALONG>, DOWN>, IN_FLIGHT>>,
    windows: ptr<function, array<array<value, WINDOW>, WINDOW_ROWS>>,
#if TAPS_SHARED
    taps: u32,
#else
    taps: ptr<function, array<value, KD * KH * KW>>,
#endif
    r: u32,
    i: u32,
) {
    let ago = i * LD / SD;
    if i * LD % SD != r {
        return;
    }
    // As above: with checks of bounds there is more in this loop, too, than compilers take apart.
    add_row(sums, windows, taps, ago, i, 0u);
    if KH > 1u { add_row(sums, windows, taps, ago, i, 1u); }
    if KH > 2u { add_row(sums, windows, taps, ago, i, 2u); }
    for (var j = 3u; j < KH; j++) { add_row(sums, windows, taps, ago, i, j); }
}

// The tap of this number along each axis, in reverse with FLIP.
fn weight_of(
#if TAPS_SHARED
    taps: u32,
#else
    taps: ptr<function, array<value, KD * KH * KW>>,
#endif
    i: u32,
    j: u32,
    k: u32,
) -> value {
    let number = (i * KH + j) * KW + k;
    let tap = select(number, KD * KH * KW - 1u - number, FLIP);
#if TAPS_SHARED
    return shared_taps[tap * CHANNELS + taps];
#else
    return (*taps)[tap];
#endif
}

// The same of one row of taps.
fn add_row(
    sums: ptr<function, array<array<array<value, ALONG>, DOWN>, IN_FLIGHT>>,
    windows: ptr<function, array<array<value, WINDOW>, WINDOW_ROWS>>,
#if TAPS_SHARED
    taps: u32,
#else
    taps: ptr<function, array<value, KD * KH * KW>>,
#endif
    ago: u32,
    i: u32,
    j: u32,
) {
    for (var k = 0u; k < KW; k++) {
        let weight = weight_of(taps, i, j, k);
        for (var down = 0u; down < DOWN; down++) {
            for (var along = 0u; along < ALONG; along++) {
                (*sums)[ago][down][along] += (*windows)[down * SH + j * LH][along * SW + k * LW] * weight;
            }
        }
    }
}

fn finished(sum: value, c: u32) -> value {
    var result = sum;
#if BIASED
    result += bias_value(c);
#endif
    if RELU {
        result = relu_value(result);
    }
    return result;
}
