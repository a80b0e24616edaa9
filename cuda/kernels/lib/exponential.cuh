// Exponentials of rows, by the hardware's power of two.

// e^x for x of at most zero: off by |x| + 4 units in the last place at most, and zero where the result is not normal.
__device__ __forceinline__ float exponential(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.4426950408889634f));
    return y;
}
