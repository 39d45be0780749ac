// What tests ask of the emulator besides the driver API.
#include <cstdio>
#include <cstring>

#include "state.h"

using emulator::Delay;
using emulator::Device;
using emulator::Fault;
using emulator::machine;

// The nth call of a driver function (*: of any) from now on (1: the next) on a device returns
// `error`; what it would have done is not done, unless it gives something back. An error that stands
// for a lost device is returned by all later calls as well, until the device is reset. Device -1:
// calls that concern no device (cuInit, cuDriverGetVersion, cuDeviceGetCount).
EXPORT void simjoin_emulator_fault(int ordinal, const char *function, int nth, int error) {
    if (ordinal < 0) {
        std::lock_guard lock(machine().mutex);
        machine().faults.push_back(Fault{function, nth, error});
        return;
    }
    if (Device *device = machine().device(ordinal)) {
        std::lock_guard lock(device->mutex);
        device->faults.push_back(Fault{function, nth, error});
    }
}

// The nth launch from now on succeeds, but its kernel does not run and ends with `error`, which
// then is what has lost the device.
EXPORT void simjoin_emulator_fault_async(int ordinal, int nth, int error) {
    if (Device *device = machine().device(ordinal)) {
        std::lock_guard lock(device->mutex);
        device->launch_faults.push_back(Fault{"cuLaunchKernel", nth, error});
    }
}

// The nth call of a driver function (*: of any) from now on on a device takes so much longer, before
// it does anything; the release of a context, once that is given up and before it is gone.
EXPORT void simjoin_emulator_delay(int ordinal, const char *function, int nth, int milliseconds) {
    if (Device *device = machine().device(ordinal)) {
        std::lock_guard lock(device->mutex);
        device->delays.push_back(Delay{function, nth, std::chrono::milliseconds(milliseconds)});
    }
}

// Kernels of a device that have not started wait until they are no longer held.
EXPORT void simjoin_emulator_hold(int ordinal, int held) {
    if (Device *device = machine().device(ordinal)) device->gate.set(!held);
}

// Forgets faults and delays to come and what has lost the device, and starts the maxima and sums
// anew. What the host holds on the device stays.
EXPORT void simjoin_emulator_reset(int ordinal) {
    if (ordinal < 0) {
        std::lock_guard lock(machine().mutex);
        machine().faults.clear();
        return;
    }
    Device *device = machine().device(ordinal);
    if (!device) return;
    std::lock_guard lifetime(device->lifetime);
    device->drain();
    std::lock_guard lock(device->mutex);
    device->faults.clear();
    device->launch_faults.clear();
    device->delays.clear();
    device->lost = CUDA_SUCCESS;
    auto &statistics = device->statistics;
    statistics.faults = 0;
    statistics.calls = statistics.launches = statistics.blocks = 0;
    statistics.bytes_htod = statistics.bytes_dtoh = 0;
    statistics.copies_htod = statistics.copies_dtoh = 0;
    statistics.leaked = statistics.strays = 0;
    statistics.max_in_flight = statistics.in_flight.load();
    statistics.max_allocated = statistics.allocated.load();
    statistics.max_pinned = statistics.pinned.load();
}

// A counter of a device by its name in Statistics, or "contexts": how often its context is retained
// (0 only once all of it is gone), or "lost": the error that has lost it, else 0.
// -1 where there is no such device or counter.
EXPORT long long simjoin_emulator_stat(int ordinal, const char *name) {
    Device *device = machine().device(ordinal);
    if (!device) return -1;
    const auto &statistics = device->statistics;
    if (strcmp(name, "lost") == 0) return device->lost;
    if (strcmp(name, "contexts") == 0) {
        std::lock_guard lock(device->lifetime);
        return device->retained;
    }
#define COUNTER(field) \
    if (strcmp(name, #field) == 0) return static_cast<long long>(statistics.field)
    COUNTER(calls);
    COUNTER(faults);
    COUNTER(launches);
    COUNTER(blocks);
    COUNTER(bytes_htod);
    COUNTER(bytes_dtoh);
    COUNTER(copies_htod);
    COUNTER(copies_dtoh);
    COUNTER(in_flight);
    COUNTER(max_in_flight);
    COUNTER(allocated);
    COUNTER(max_allocated);
    COUNTER(leaked);
    COUNTER(strays);
    COUNTER(pinned);
    COUNTER(max_pinned);
    COUNTER(streams);
    COUNTER(events);
    COUNTER(modules);
#undef COUNTER
    return -1;
}
