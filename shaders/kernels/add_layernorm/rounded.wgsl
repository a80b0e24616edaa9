// A piece as if it had been stored and read again. Some compilers leave a conversion to f16 and back out (NVIDIA's for Vulkan
// does), but not this function.

fn rounded(x: piece) -> piece {
    if HALF {
        return quantizeToF16(x);
    }
    return x;
}
