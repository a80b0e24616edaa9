// Bindings and index arithmetic of both layouts, for the variants of depthwise_conv2d.

@group(0) @binding(0) var<storage, read> x: array<elem>;
@group(0) @binding(1) var<storage, read> w: array<elem>;
@group(0) @binding(2) var<storage, read_write> out: array<elem>;

fn pixel(n: u32, c: u32, row: u32, col: u32) -> u32 {
    if NHWC {
        return ((n * H + row) * W + col) * C + c;
    }
    return ((n * C + c) * H + row) * W + col;
}

fn tap(c: u32, i: u32, j: u32) -> u32 {
    if NHWC {
        return (i * KW + j) * C + c;
    }
    return (c * KH + i) * KW + j;
}
