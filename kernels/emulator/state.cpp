#include "state.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

namespace emulator {

thread_local Device *current_device = nullptr;

namespace {

unsigned long long setting(const char *name, unsigned long long otherwise) {
    const char *text = getenv(name);
    return text && *text ? strtoull(text, nullptr, 10) : otherwise;
}

// cuMemAlloc_v2 and cuMemAlloc are the same function to whoever injects faults, * is any.
bool same_function(const std::string &left, const char *right) {
    const auto stem = [](std::string name) {
        const size_t length = name.size();
        if (length > 3 && name.compare(length - 3, 2, "_v") == 0) name.resize(length - 3);
        return name;
    };
    return left == "*" || stem(left) == stem(right);
}

// Counts the call; what was injected for it, if it is the one.
template <typename Injected>
std::optional<Injected> take(std::vector<Injected> &all, const char *function) {
    for (auto each = all.begin(); each != all.end(); ++each) {
        if (!same_function(each->function, function) || --each->calls_left > 0) continue;
        Injected taken = std::move(*each);
        all.erase(each);
        return taken;
    }
    return std::nullopt;
}

CUresult take_fault(std::vector<Fault> &faults, const char *function) {
    const auto fault = take(faults, function);
    return fault ? fault->error : CUDA_SUCCESS;
}

}  // namespace

void Gate::set(bool now_open) {
    std::lock_guard lock(mutex);
    open = now_open;
    changed.notify_all();
}

void Gate::pass() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return open; });
}

void raise(std::atomic<uint64_t> &most, uint64_t value) {
    uint64_t seen = most;
    while (seen < value && !most.compare_exchange_weak(seen, value)) {
    }
}

Machine &machine() {
    // Never destroyed: streams' threads may still run when the process ends.
    static Machine *const instance = [] {
        auto *created = new Machine;
        created->driver = static_cast<int>(setting("EMULATOR_DRIVER", 12040));
        created->memory_bytes = setting("EMULATOR_MEMORY", 1ull << 30);
        const char *capability = getenv("EMULATOR_CAPABILITY");
        created->major = 9;
        created->minor = 0;
        if (capability && sscanf(capability, "%d.%d", &created->major, &created->minor) != 2) {
            fprintf(stderr, "emulator: EMULATOR_CAPABILITY is %s, not like 9.0\n", capability);
        }
        const auto devices = static_cast<int>(setting("EMULATOR_DEVICES", 64));
        for (int ordinal = 0; ordinal < devices; ++ordinal) {
            created->devices.push_back(std::make_unique<Device>());
            created->devices.back()->ordinal = ordinal;
        }
        return created;
    }();
    return *instance;
}

Device *Machine::device(CUdevice ordinal) {
    if (ordinal < 0 || static_cast<size_t>(ordinal) >= devices.size()) return nullptr;
    return devices[static_cast<size_t>(ordinal)].get();
}

int Machine::shared_bytes_per_block() const {
    const int capability = 10 * major + minor;
    if (capability == 75) return 64 * 1024;
    if (capability < 80) return 96 * 1024;
    if (capability == 80 || capability == 87) return 163 * 1024;
    if (capability < 90 || major >= 12) return 99 * 1024;
    return 227 * 1024;
}

bool is_of_hardware(CUresult error) {
    return error == CUDA_ERROR_DEVICE_UNAVAILABLE || error == CUDA_ERROR_ECC_UNCORRECTABLE ||
           error == CUDA_ERROR_NVLINK_UNCORRECTABLE || error == CUDA_ERROR_UNKNOWN;
}

bool is_sticky(CUresult error) {
    switch (error) {
        case CUDA_ERROR_ILLEGAL_ADDRESS:
        case CUDA_ERROR_LAUNCH_TIMEOUT:
        case CUDA_ERROR_ILLEGAL_INSTRUCTION:
        case CUDA_ERROR_MISALIGNED_ADDRESS:
        case CUDA_ERROR_LAUNCH_FAILED:
            return true;
        default:
            return is_of_hardware(error);
    }
}

CUresult begin(Device *device, const char *function) {
    Machine &all = machine();
    if (!device) {
        std::lock_guard lock(all.mutex);
        return take_fault(all.faults, function);
    }
    if (!all.initialised) return CUDA_ERROR_NOT_INITIALIZED;
    ++device->statistics.calls;
    CUresult error;
    std::optional<Delay> delay;
    {
        std::lock_guard lock(device->mutex);
        error = take_fault(device->faults, function);
        if (error) ++device->statistics.faults;
        delay = take(device->delays, function);
    }
    if (delay) std::this_thread::sleep_for(delay->time);
    if (is_sticky(error)) device->lose(error);
    return error ? error : device->lost.load();
}

Stream *Device::stream(CUstream handle) {
    std::lock_guard lock(mutex);
    // 0 is the context's own stream, 1 and 2 the same by other names.
    if (reinterpret_cast<uintptr_t>(handle) <= 2) {
        if (!null_stream) null_stream = std::make_unique<Stream>(this);
        return null_stream.get();
    }
    return streams.count(handle) ? handle : nullptr;
}

void Device::drain() {
    std::vector<std::shared_ptr<Queue>> queues;
    {
        std::lock_guard lock(mutex);
        if (null_stream) queues.push_back(null_stream->queue);
        for (const Stream *each : streams) queues.push_back(each->queue);
        queues.insert(queues.end(), ending.begin(), ending.end());
    }
    for (const auto &queue : queues) queue->drain();
}

void Device::lose(CUresult error) {
    CUresult none = CUDA_SUCCESS;
    lost.compare_exchange_strong(none, error);
}

void Device::stray() {
    ++statistics.strays;
    lose(CUDA_ERROR_ILLEGAL_ADDRESS);
}

CUresult Device::next_launch_fault() {
    std::lock_guard lock(mutex);
    const CUresult error = take_fault(launch_faults, "cuLaunchKernel");
    if (error) ++statistics.faults;
    return error;
}

void Device::clear() {
    drain();
    std::lock_guard lock(mutex);
    null_stream.reset();
    for (Stream *each : streams) delete each;
    for (Event *each : events) delete each;
    for (Module *each : modules) delete each;
    streams.clear();
    ending.clear();
    events.clear();
    modules.clear();
    memory.release_all();
    statistics.leaked += statistics.allocated;
    if (!is_of_hardware(lost)) lost = CUDA_SUCCESS;
    statistics.allocated = statistics.streams = statistics.events = statistics.modules = 0;
}

}  // namespace emulator
