#include "memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>

namespace emulator {
namespace {

constexpr unsigned char POISON = 0xcd;
constexpr unsigned char REDZONE = 0xa5;
// Poisoning more would make the host pay for memory that is only reserved.
constexpr size_t POISONED = size_t{16} << 20;

size_t page_bytes() {
    static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    return bytes;
}

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

bool all_redzone(const unsigned char *from, const unsigned char *to) {
    return std::all_of(from, to, [](unsigned char byte) { return byte == REDZONE; });
}

}  // namespace

void *Memory::allocate(size_t bytes) {
    const size_t body = round_up(std::max<size_t>(bytes, 1), ALIGNMENT);
    const size_t mapped = round_up(body + ALIGNMENT, page_bytes());
    void *mapping = mmap(nullptr, mapped + page_bytes(), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) return nullptr;
    auto *start = static_cast<unsigned char *>(mapping);
    mprotect(start + mapped, page_bytes(), PROT_NONE);
    unsigned char *address = start + mapped - body;
    memset(start, REDZONE, mapped - body);
    memset(address, POISON, std::min(bytes, POISONED));
    memset(address + bytes, REDZONE, body - bytes);
    std::lock_guard lock(mutex);
    entries.emplace(address, Allocation{bytes, start, mapped});
    return address;
}

bool Memory::intact(const Entry &entry) {
    const auto &[address, allocation] = entry;
    if (!allocation.mapping) return true;
    if (all_redzone(allocation.mapping, address) &&
        all_redzone(address + allocation.bytes, allocation.mapping + allocation.mapped)) {
        return true;
    }
    fprintf(stderr, "emulator: write outside of the allocation of %zu bytes at %p\n",
            allocation.bytes, static_cast<void *>(address));
    return false;
}

// The caller has the lock alone.
void Memory::retire(const Entry &entry) {
    constexpr size_t RETIRED = 256;
    const Allocation &allocation = entry.second;
    if (!allocation.mapping) return;
    // Gives the memory back and keeps the addresses: what still uses them shows.
    mmap(allocation.mapping, allocation.mapped, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    retired.push_back(allocation);
    if (retired.size() > RETIRED) {
        munmap(retired.front().mapping, retired.front().mapped + page_bytes());
        retired.pop_front();
    }
}

std::optional<size_t> Memory::release(void *address, bool &was_intact) {
    std::lock_guard lock(mutex);
    const auto found = entries.find(static_cast<unsigned char *>(address));
    if (found == entries.end() || !found->second.mapping) return std::nullopt;
    const size_t bytes = found->second.bytes;
    was_intact = intact(*found);
    retire(*found);
    entries.erase(found);
    return bytes;
}

bool Memory::adopt(void *address, size_t bytes) {
    std::lock_guard lock(mutex);
    return entries.emplace(static_cast<unsigned char *>(address), Allocation{bytes, nullptr, 0}).second;
}

bool Memory::forget(void *address) {
    std::lock_guard lock(mutex);
    const auto found = entries.find(static_cast<unsigned char *>(address));
    if (found == entries.end() || found->second.mapping) return false;
    entries.erase(found);
    return true;
}

bool Memory::contains(const void *address, size_t bytes) const {
    const auto held = hold();
    return covers(address, bytes);
}

bool Memory::covers(const void *address, size_t bytes) const {
    auto *at = static_cast<unsigned char *>(const_cast<void *>(address));
    auto next = entries.upper_bound(at);
    if (next == entries.begin()) return false;
    const auto &[start, allocation] = *--next;
    const auto offset = static_cast<size_t>(at - start);
    return offset <= allocation.bytes && bytes <= allocation.bytes - offset;
}

bool Memory::check() const {
    const auto held = hold();
    return std::all_of(entries.begin(), entries.end(), intact);
}

size_t Memory::allocations() const {
    const auto held = hold();
    return entries.size();
}

void Memory::release_all() {
    std::lock_guard lock(mutex);
    for (const Entry &entry : entries) retire(entry);
    entries.clear();
}

}  // namespace emulator
