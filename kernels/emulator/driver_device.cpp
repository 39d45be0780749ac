// The driver API: initialisation, devices, contexts, errors.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "call.h"

using emulator::Device;
using emulator::machine;

EXPORT CUresult cuInit(unsigned flags) {
    BEGIN(nullptr);
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (machine().devices.empty()) return CUDA_ERROR_NO_DEVICE;
    machine().initialised = true;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDriverGetVersion(int *version) {
    BEGIN(nullptr);
    *version = machine().driver;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int *count) {
    BEGIN(nullptr);
    if (!machine().initialised) return CUDA_ERROR_NOT_INITIALIZED;
    *count = static_cast<int>(machine().devices.size());
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *handle, int ordinal) {
    if (!machine().initialised) return CUDA_ERROR_NOT_INITIALIZED;
    Device *device = machine().device(ordinal);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    BEGIN(device);
    *handle = ordinal;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetName(char *name, int length, CUdevice handle) {
    Device *device = machine().device(handle);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    BEGIN(device);
    snprintf(name, static_cast<size_t>(length), "CUDA emulator");
    return CUDA_SUCCESS;
}

namespace {

// Numbers of cuDeviceGetAttribute.
enum Attribute {
    MAX_THREADS_PER_BLOCK = 1,
    MAX_BLOCK_DIM_X = 2,
    MAX_BLOCK_DIM_Y = 3,
    MAX_BLOCK_DIM_Z = 4,
    MAX_GRID_DIM_X = 5,
    MAX_GRID_DIM_Y = 6,
    MAX_GRID_DIM_Z = 7,
    MAX_SHARED_MEMORY_PER_BLOCK = 8,
    WARP_SIZE = 10,
    MAX_REGISTERS_PER_BLOCK = 12,
    CLOCK_RATE = 13,
    MULTIPROCESSOR_COUNT = 16,
    INTEGRATED = 18,
    CAN_MAP_HOST_MEMORY = 19,
    COMPUTE_MODE = 20,
    CONCURRENT_KERNELS = 31,
    ECC_ENABLED = 32,
    MEMORY_CLOCK_RATE = 36,
    GLOBAL_MEMORY_BUS_WIDTH = 37,
    L2_CACHE_SIZE = 38,
    MAX_THREADS_PER_MULTIPROCESSOR = 39,
    ASYNC_ENGINE_COUNT = 40,
    UNIFIED_ADDRESSING = 41,
    COMPUTE_CAPABILITY_MAJOR = 75,
    COMPUTE_CAPABILITY_MINOR = 76,
    MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
    MAX_REGISTERS_PER_MULTIPROCESSOR = 82,
    MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
    MAX_BLOCKS_PER_MULTIPROCESSOR = 106,
    RESERVED_SHARED_MEMORY_PER_BLOCK = 111,
    MEMORY_POOLS_SUPPORTED = 115,
};

}  // namespace

EXPORT CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice handle) {
    Device *device = machine().device(handle);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    BEGIN(device);
    switch (attribute) {
        case MAX_THREADS_PER_BLOCK:
        case MAX_BLOCK_DIM_X:
        case MAX_BLOCK_DIM_Y: *value = 1024; break;
        case MAX_BLOCK_DIM_Z: *value = 64; break;
        case MAX_GRID_DIM_X: *value = 0x7fffffff; break;
        case MAX_GRID_DIM_Y:
        case MAX_GRID_DIM_Z: *value = 65535; break;
        case MAX_SHARED_MEMORY_PER_BLOCK: *value = 48 * 1024; break;
        case WARP_SIZE: *value = emulator::WARP; break;
        case MAX_REGISTERS_PER_BLOCK:
        case MAX_REGISTERS_PER_MULTIPROCESSOR: *value = 65536; break;
        case CLOCK_RATE: *value = 1'000'000; break;
        // Few, so that grids that fill the device have few blocks to emulate.
        case MULTIPROCESSOR_COUNT: *value = 4; break;
        case CAN_MAP_HOST_MEMORY:
        case CONCURRENT_KERNELS:
        case UNIFIED_ADDRESSING:
        case MEMORY_POOLS_SUPPORTED: *value = 1; break;
        case INTEGRATED:
        case COMPUTE_MODE:
        case ECC_ENABLED: *value = 0; break;
        case MEMORY_CLOCK_RATE: *value = 1'000'000; break;
        case GLOBAL_MEMORY_BUS_WIDTH: *value = 256; break;
        case L2_CACHE_SIZE: *value = 4 << 20; break;
        case MAX_THREADS_PER_MULTIPROCESSOR: *value = 2048; break;
        case ASYNC_ENGINE_COUNT: *value = 2; break;
        case COMPUTE_CAPABILITY_MAJOR: *value = machine().major; break;
        case COMPUTE_CAPABILITY_MINOR: *value = machine().minor; break;
        case MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = machine().shared_bytes_per_block(); break;
        case MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
            *value = machine().shared_bytes_per_block() + emulator::RESERVED_SHARED_BYTES;
            break;
        case MAX_BLOCKS_PER_MULTIPROCESSOR: *value = 32; break;
        case RESERVED_SHARED_MEMORY_PER_BLOCK: *value = emulator::RESERVED_SHARED_BYTES; break;
        default:
            fprintf(stderr, "emulator: cuDeviceGetAttribute does not know attribute %d\n", attribute);
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice handle) {
    Device *device = machine().device(handle);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    BEGIN(device);
    *bytes = machine().memory_bytes;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice handle) {
    Device *device = machine().device(handle);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    BEGIN(device);
    memcpy(uuid->bytes, "simjoin emulator", sizeof(uuid->bytes));
    uuid->bytes[sizeof(uuid->bytes) - 1] = static_cast<unsigned char>(handle);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice handle) { return cuDeviceGetUuid(uuid, handle); }

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice handle) {
    Device *device = machine().device(handle);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    BEGIN(device);
    std::lock_guard lock(device->lifetime);
    ++device->retained;
    *context = device;
    return CUDA_SUCCESS;
}

// As elsewhere, what gives something back does so on a lost device, too, and then says that it is
// lost: so the statistics show whether the host lets go of everything.
EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice handle) {
    Device *device = machine().device(handle);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    std::lock_guard lock(device->lifetime);
    if (device->retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
    const int left = --device->retained;
    // Here a delay finds the context given up and not gone yet.
    const CUresult result = emulator::begin(device, __func__);
    if (left == 0) device->clear();
    return result;
}

EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice handle) {
    Device *device = machine().device(handle);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    BEGIN(device);
    std::lock_guard lock(device->lifetime);
    device->clear();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice handle, unsigned) {
    Device *device = machine().device(handle);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    BEGIN(device);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice handle, unsigned *flags, int *active) {
    Device *device = machine().device(handle);
    if (!device) return CUDA_ERROR_INVALID_DEVICE;
    BEGIN(device);
    *flags = 0;
    *active = device->retained > 0;
    return CUDA_SUCCESS;
}

// The context becomes current even where the device is lost, for what it holds is to be given back.
EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
    emulator::current_device = context;
    if (context) BEGIN(context);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *context) {
    *context = emulator::current_device;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetDevice(CUdevice *handle) {
    BEGIN_IN_CONTEXT(device);
    *handle = device->ordinal;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetFlags(unsigned) {
    BEGIN_IN_CONTEXT(device);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    BEGIN_IN_CONTEXT(device);
    *least = 0;
    *greatest = -5;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSynchronize() {
    BEGIN_IN_CONTEXT(device);
    device->drain();
    return device->lost;
}

EXPORT CUresult cuGetErrorName(CUresult error, const char **name) {
    *name = emulator::error_name(error);
    return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGetErrorString(CUresult error, const char **text) {
    *text = emulator::error_description(error);
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
