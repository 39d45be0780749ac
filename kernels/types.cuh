// Fixed-width names, and what the compilers of devices and hosts spell differently.
#pragma once

using u32 = unsigned int;
using u64 = unsigned long long;

// The block's dynamic shared memory, as words.
#ifndef DYNAMIC_SHARED
#define DYNAMIC_SHARED(name) extern __shared__ u32 name[]
#endif

// The same, aligned for copies and matrix products.
#ifndef ALIGNED_SHARED
#define ALIGNED_SHARED(name) extern __shared__ __align__(128) u32 name[]
#endif
