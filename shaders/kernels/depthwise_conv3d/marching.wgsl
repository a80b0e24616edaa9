// Depthwise convolution by threads that march along the slowest axis: each element of the image is read once, in pieces, without
// barriers.
//
// A thread keeps IN_FLIGHT partial results. Each slice of the image is added to the results that it contributes to. After each
// step the oldest result is complete, and is stored. With LATE it is stored after the loads of the next slice: in the memory
// model of browsers, drivers cannot reorder them. With FLIP taps are reversed, for the gradient of the image.
//
// Many taps of four channels lie in workgroup memory (TAPS_SHARED). All elements of a slice under the thread's results are loaded
// before the first is added, and a tap is loaded once for all of them.
//
// Choices and measurements: docs/notebook/2026-11-28-kernel-notes.md.

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
    // Begin of the thread's taps in workgroup memory, or its taps in registers.
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
            // Three iterations by hand: compilers do not unroll a loop with so large a body, and indexed arrays spill.
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

// Adds tap i along the slowest axis of a slice of the image, the r-th of its step, to the result that began `ago` steps ago.
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
    // By hand, as above: with bounds checks this loop is not unrolled either.
    add_row(sums, windows, taps, ago, i, 0u);
    if KH > 1u { add_row(sums, windows, taps, ago, i, 1u); }
    if KH > 2u { add_row(sums, windows, taps, ago, i, 2u); }
    for (var j = 3u; j < KH; j++) { add_row(sums, windows, taps, ago, i, j); }
}

// Tap of this index along each axis, reversed with FLIP.
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

// Adds a row of taps.
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
