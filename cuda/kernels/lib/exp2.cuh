// Exponentials by the hardware's unit, to base two.

constexpr float LOG2_E = 1.4426950408889634f, LN_2 = 0.6931471805599453f;

// Power of two. Numbers below the smallest normal one are zero.
__device__ __forceinline__ float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
