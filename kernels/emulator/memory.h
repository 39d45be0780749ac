// Memory in which stray accesses show.
//
// An allocation is poisoned when it is made, lies between bytes of a known pattern that are looked
// at later, and ends (to the 256 bytes to which CUDA aligns) at a page that must not be touched. Once
// released its pages must not be touched either, and serve no other allocation for a while.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <shared_mutex>

namespace emulator {

class Memory {
  public:
    static constexpr size_t ALIGNMENT = 256;

    // Null where the system has no memory left.
    void *allocate(size_t bytes);
    // Its size; nothing where `address` is not the start of an allocation. `intact` tells whether
    // the pattern around it was.
    std::optional<size_t> release(void *address, bool &intact);
    // Takes memory of the caller's for an allocation of its own until `forget`.
    bool adopt(void *address, size_t bytes);
    bool forget(void *address);
    // Whether these bytes lie within one allocation.
    bool contains(const void *address, size_t bytes) const;
    // Keeps allocations from being released as long as it lives.
    std::shared_lock<std::shared_mutex> hold() const { return std::shared_lock(mutex); }
    // As `contains`, for callers that hold the lock.
    bool covers(const void *address, size_t bytes) const;
    // Whether the patterns around all allocations are intact; says on stderr which is not.
    bool check() const;
    size_t allocations() const;
    void release_all();

  private:
    struct Allocation {
        size_t bytes;
        // Null when adopted.
        unsigned char *mapping;
        // Without the page behind.
        size_t mapped;
    };
    using Entry = std::pair<unsigned char *const, Allocation>;

    static bool intact(const Entry &entry);
    void retire(const Entry &entry);

    mutable std::shared_mutex mutex;
    std::map<unsigned char *, Allocation> entries;
    // Released lately.
    std::deque<Allocation> retired;
};

}  // namespace emulator
