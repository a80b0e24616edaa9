// Asynchronous copies to shared memory, from compute capability 8.0 on.

#include "lib/shared.cuh"

#if __CUDA_ARCH__ >= 800

// Begins to copy 16 bytes to shared memory, or to write zeros where `inside` is false; then `from` is not read. Both addresses
// are multiples of 16 bytes.
__device__ __forceinline__ void copy_async(void* to, const void* from, bool inside) {
    const unsigned bytes = inside ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(shared_address(to)), "l"(from), "r"(bytes)
                 : "memory");
}

// As copy_async, for a word of four bytes.
__device__ __forceinline__ void copy_word_async(void* to, const void* from, bool inside) {
    const unsigned bytes = inside ? 4 : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 :
                 : "r"(shared_address(to)), "l"(from), "r"(bytes)
                 : "memory");
}

// Closes a group of this thread's copies since the last group.
__device__ __forceinline__ void close_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most `open` of this thread's latest groups of copies are in flight.
template <unsigned open>
__device__ __forceinline__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(open) : "memory");
}

#endif
