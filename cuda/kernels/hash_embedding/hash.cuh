// Column and sign of a feature.

// MurmurHash3's finaliser: the top bit is the sign, the others choose the column.
__device__ __forceinline__ unsigned hashed(unsigned id) {
    id = (id ^ (id >> 16)) * 0x85EBCA6Bu;
    id = (id ^ (id >> 13)) * 0xC2B2AE35u;
    return id ^ (id >> 16);
}

__device__ __forceinline__ unsigned column_of(unsigned hash) { return (hash & 0x7FFFFFFFu) % DIM; }

__device__ __forceinline__ float signed_by(unsigned hash, float weight) { return hash >> 31 ? -weight : weight; }
