// The driver API: memory and copies.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "call.h"

using emulator::Device;
using emulator::machine;
using emulator::Stream;

namespace {

void *pointer(CUdeviceptr address) { return reinterpret_cast<void *>(static_cast<uintptr_t>(address)); }

// Null where the device has not that much left.
void *allocate(Device *device, size_t bytes) {
    auto &used = device->statistics.allocated;
    const uint64_t after = used += bytes;
    if (after <= machine().memory_bytes) {
        if (void *address = device->memory.allocate(bytes)) {
            emulator::raise(device->statistics.max_allocated, after);
            return address;
        }
    }
    used -= bytes;
    return nullptr;
}

CUresult release(Device *device, CUdeviceptr address) {
    bool intact = true;
    const auto bytes = device->memory.release(pointer(address), intact);
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    device->statistics.allocated -= *bytes;
    if (!intact) device->stray();
    return device->lost;
}

// Runs `copy` in the stream's order, if its memory is still there by then; it cannot go meanwhile.
void enqueue(Stream *stream, const char *function, std::function<bool()> valid, std::function<void()> copy) {
    stream->queue->push([=, device = stream->device] {
        if (device->lost) return;
        bool done = false;
        {
            const auto memory = device->memory.hold();
            const auto pinned = machine().pinned.hold();
            done = valid();
            if (done) copy();
        }
        if (!done) {
            fprintf(stderr, "emulator: %s: its memory was freed before its turn came\n", function);
            device->stray();
        }
    });
}

CUresult copy_htod(Device *device, const char *function, CUdeviceptr to, const void *from, size_t bytes,
                   CUstream handle) {
    Stream *stream = device->stream(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (bytes == 0) return CUDA_SUCCESS;
    if (!from || !device->memory.contains(pointer(to), bytes)) return CUDA_ERROR_INVALID_VALUE;
    device->statistics.bytes_htod += bytes;
    ++device->statistics.copies_htod;
    const bool pinned = machine().pinned.contains(from, bytes);
    // The driver has read other memory before it returns.
    std::shared_ptr<std::vector<unsigned char>> staged;
    if (!pinned) {
        const auto *start = static_cast<const unsigned char *>(from);
        staged = std::make_shared<std::vector<unsigned char>>(start, start + bytes);
    }
    enqueue(
        stream, function,
        [=] {
            return device->memory.covers(pointer(to), bytes) &&
                   (!pinned || machine().pinned.covers(from, bytes));
        },
        [=] { memcpy(pointer(to), staged ? staged->data() : from, bytes); });
    return CUDA_SUCCESS;
}

CUresult copy_dtoh(Device *device, const char *function, void *to, CUdeviceptr from, size_t bytes,
                   CUstream handle) {
    Stream *stream = device->stream(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (bytes == 0) return CUDA_SUCCESS;
    if (!to || !device->memory.contains(pointer(from), bytes)) return CUDA_ERROR_INVALID_VALUE;
    device->statistics.bytes_dtoh += bytes;
    ++device->statistics.copies_dtoh;
    const bool pinned = machine().pinned.contains(to, bytes);
    enqueue(
        stream, function,
        [=] {
            return device->memory.covers(pointer(from), bytes) &&
                   (!pinned || machine().pinned.covers(to, bytes));
        },
        [=] { memcpy(to, pointer(from), bytes); });
    if (!pinned) {
        // The driver writes other memory before it returns.
        stream->queue->drain();
        return device->lost;
    }
    return CUDA_SUCCESS;
}

CUresult copy_dtod(Device *device, const char *function, CUdeviceptr to, CUdeviceptr from, size_t bytes,
                   CUstream handle) {
    Stream *stream = device->stream(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (bytes == 0) return CUDA_SUCCESS;
    const auto valid = [=] {
        return device->memory.covers(pointer(to), bytes) && device->memory.covers(pointer(from), bytes);
    };
    if (const auto held = device->memory.hold(); !valid()) return CUDA_ERROR_INVALID_VALUE;
    enqueue(stream, function, valid, [=] { memcpy(pointer(to), pointer(from), bytes); });
    return CUDA_SUCCESS;
}

CUresult fill(Device *device, const char *function, CUdeviceptr to, const void *unit, size_t unit_bytes,
              size_t count, CUstream handle) {
    Stream *stream = device->stream(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (count == 0) return CUDA_SUCCESS;
    uint32_t pattern = 0;
    memcpy(&pattern, unit, unit_bytes);
    const auto valid = [=] { return device->memory.covers(pointer(to), count * unit_bytes); };
    if (const auto held = device->memory.hold(); !valid()) return CUDA_ERROR_INVALID_VALUE;
    enqueue(stream, function, valid, [=] {
        auto *at = static_cast<unsigned char *>(pointer(to));
        for (size_t each = 0; each < count; ++each) memcpy(at + each * unit_bytes, &pattern, unit_bytes);
    });
    return CUDA_SUCCESS;
}

CUresult wait_for(Device *device, CUresult result) {
    if (result) return result;
    device->stream(nullptr)->queue->drain();
    return device->lost;
}

}  // namespace

EXPORT CUresult cuMemGetInfo_v2(size_t *available, size_t *total) {
    BEGIN_IN_CONTEXT(device);
    *total = machine().memory_bytes;
    *available = *total - std::min<size_t>(*total, device->statistics.allocated);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
    BEGIN_IN_CONTEXT(device);
    if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    *address = reinterpret_cast<uintptr_t>(allocate(device, bytes));
    return *address ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream handle) {
    BEGIN_IN_CONTEXT(device);
    Stream *stream = device->stream(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    *address = 0;
    if (bytes == 0) return CUDA_SUCCESS;
    void *found = allocate(device, bytes);
    if (!found) {
        // What the stream frees in front of this allocation may serve it.
        stream->queue->drain();
        found = allocate(device, bytes);
    }
    *address = reinterpret_cast<uintptr_t>(found);
    return found ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr address) {
    Device *device = emulator::current_device;
    if (!device || !device->retained) return CUDA_ERROR_INVALID_CONTEXT;
    const CUresult refused = emulator::begin(device, __func__);
    // Work that still uses the memory is the host's error: no stream is waited for, so that it
    // shows. Of a lost device the host cannot know what it still does.
    if (device->lost) device->drain();
    const CUresult result = address ? release(device, address) : device->lost.load();
    return refused ? refused : result;
}

EXPORT CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle) {
    Device *device = emulator::current_device;
    if (!device || !device->retained) return CUDA_ERROR_INVALID_CONTEXT;
    const CUresult refused = emulator::begin(device, __func__);
    Stream *stream = device->stream(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (address) {
        if (!device->memory.contains(pointer(address), 0)) return CUDA_ERROR_INVALID_VALUE;
        stream->queue->push([=] {
            if (release(device, address) == CUDA_ERROR_INVALID_VALUE) {
                fprintf(stderr, "emulator: cuMemFreeAsync: freed twice\n");
                device->lose(CUDA_ERROR_ILLEGAL_ADDRESS);
            }
        });
    }
    return refused;
}

EXPORT CUresult cuMemHostAlloc(void **address, size_t bytes, unsigned) {
    BEGIN_IN_CONTEXT(device);
    if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    *address = machine().pinned.allocate(bytes);
    if (!*address) return CUDA_ERROR_OUT_OF_MEMORY;
    const uint64_t after = device->statistics.pinned += bytes;
    emulator::raise(device->statistics.max_pinned, after);
    std::lock_guard lock(machine().mutex);
    machine().pinned_by[*address] = device;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemFreeHost(void *address) {
    Device *current = emulator::current_device;
    if (!current || !current->retained) return CUDA_ERROR_INVALID_CONTEXT;
    const CUresult refused = emulator::begin(current, __func__);
    if (current->lost) current->drain();
    bool intact = true;
    const auto bytes = machine().pinned.release(address, intact);
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    std::lock_guard lock(machine().mutex);
    const auto owner = machine().pinned_by.find(address);
    owner->second->statistics.pinned -= *bytes;
    machine().pinned_by.erase(owner);
    if (!intact) current->stray();
    return refused ? refused : current->lost.load();
}

EXPORT CUresult cuMemHostRegister_v2(void *address, size_t bytes, unsigned) {
    BEGIN_IN_CONTEXT(device);
    return machine().pinned.adopt(address, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemHostUnregister(void *address) {
    BEGIN_IN_CONTEXT(device);
    return machine().pinned.forget(address) ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *host, unsigned) {
    BEGIN_IN_CONTEXT(device);
    if (!machine().pinned.contains(host, 1)) return CUDA_ERROR_INVALID_VALUE;
    *address = reinterpret_cast<uintptr_t>(host);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    BEGIN_IN_CONTEXT(device);
    return copy_htod(device, __func__, to, from, bytes, stream);
}

EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
    BEGIN_IN_CONTEXT(device);
    return wait_for(device, copy_htod(device, __func__, to, from, bytes, nullptr));
}

EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    BEGIN_IN_CONTEXT(device);
    return copy_dtoh(device, __func__, to, from, bytes, stream);
}

EXPORT CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
    BEGIN_IN_CONTEXT(device);
    return wait_for(device, copy_dtoh(device, __func__, to, from, bytes, nullptr));
}

EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    BEGIN_IN_CONTEXT(device);
    return copy_dtod(device, __func__, to, from, bytes, stream);
}

EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
    BEGIN_IN_CONTEXT(device);
    return wait_for(device, copy_dtod(device, __func__, to, from, bytes, nullptr));
}

EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
    BEGIN_IN_CONTEXT(device);
    return fill(device, __func__, to, &value, sizeof(value), count, stream);
}

EXPORT CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
    BEGIN_IN_CONTEXT(device);
    return wait_for(device, fill(device, __func__, to, &value, sizeof(value), count, nullptr));
}

EXPORT CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
    BEGIN_IN_CONTEXT(device);
    return fill(device, __func__, to, &value, sizeof(value), count, stream);
}
