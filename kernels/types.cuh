// Fixed-width names.
#pragma once

using u32 = unsigned int;
using u64 = unsigned long long;
