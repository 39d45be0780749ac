// Fixed-width names, and what the compilers of devices and hosts spell differently.
#pragma once

using u32 = unsigned int;
using u64 = unsigned long long;

// The block's dynamic shared memory, as words.
#ifndef DYNAMIC_SHARED
#define DYNAMIC_SHARED(name) extern __shared__ u32 name[]
#endif
