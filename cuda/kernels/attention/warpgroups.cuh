#pragma once
// Pieces of the kernels by warpgroups, forward and backward.

#include "attention/common.cuh"
#include "lib/exp2.cuh"
#include "lib/launch.cuh"
#include "lib/mma.cuh"
#include "lib/named.cuh"
#include "lib/tma.cuh"
#include "lib/wgmma.cuh"
