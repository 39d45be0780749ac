// The driver API: modules, functions, launches.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "call.h"

using emulator::Device;
using emulator::Function;
using emulator::Launch;
using emulator::machine;
using emulator::Module;
using emulator::Stream;

namespace {

constexpr int DEFAULT_SHARED_BYTES = 48 * 1024;
constexpr int MAX_THREADS_PER_BLOCK = 1024;

// Numbers of cuFuncGetAttribute.
enum Attribute {
    ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
    ATTRIBUTE_SHARED_SIZE_BYTES = 1,
    ATTRIBUTE_CONST_SIZE_BYTES = 2,
    ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
    ATTRIBUTE_NUM_REGS = 4,
    ATTRIBUTE_PTX_VERSION = 5,
    ATTRIBUTE_BINARY_VERSION = 6,
    ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
    ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 9,
};

bool fits(const emulator::Dimensions &grid, const emulator::Dimensions &block) {
    const auto within = [](unsigned value, unsigned most) { return value >= 1 && value <= most; };
    return within(grid.x, 0x7fffffff) && within(grid.y, 65535) && within(grid.z, 65535) &&
           within(block.x, 1024) && within(block.y, 1024) && within(block.z, 64) &&
           block.product() <= MAX_THREADS_PER_BLOCK;
}

}  // namespace

EXPORT CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned, void *, void *) {
    BEGIN_IN_CONTEXT(device);
    if (!image) return CUDA_ERROR_INVALID_VALUE;
    auto loaded = std::make_unique<Module>();
    if (const CUresult error = emulator::read_image(image, loaded->text)) return error;
    ++device->statistics.modules;
    std::lock_guard lock(device->mutex);
    *module = loaded.release();
    device->modules.insert(*module);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    BEGIN_IN_CONTEXT(device);
    return cuModuleLoadDataEx(module, image, 0, nullptr, nullptr);
}

EXPORT CUresult cuModuleUnload(CUmodule module) {
    Device *device = emulator::current_device;
    if (!device || !device->retained) return CUDA_ERROR_INVALID_CONTEXT;
    const CUresult refused = emulator::begin(device, __func__);
    std::lock_guard lock(device->mutex);
    if (device->modules.erase(module) == 0) return CUDA_ERROR_INVALID_HANDLE;
    --device->statistics.modules;
    delete module;
    return refused;
}

EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    BEGIN_IN_CONTEXT(device);
    std::lock_guard lock(device->mutex);
    if (device->modules.count(module) == 0) return CUDA_ERROR_INVALID_HANDLE;
    if (!emulator::has_kernel(module->text, name)) return CUDA_ERROR_NOT_FOUND;
    const emulator::Kernel *kernel = emulator::find_kernel(name);
    if (!kernel) {
        fprintf(stderr, "emulator: the image has the kernel %s, the sources have not\n", name);
        return CUDA_ERROR_NOT_FOUND;
    }
    module->functions.push_back(std::make_unique<Function>(Function{module, kernel, DEFAULT_SHARED_BYTES}));
    *function = module->functions.back().get();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction function) {
    BEGIN_IN_CONTEXT(device);
    switch (attribute) {
        case ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = MAX_THREADS_PER_BLOCK; break;
        case ATTRIBUTE_SHARED_SIZE_BYTES:
        case ATTRIBUTE_CONST_SIZE_BYTES:
        case ATTRIBUTE_LOCAL_SIZE_BYTES: *value = 0; break;
        case ATTRIBUTE_NUM_REGS: *value = 32; break;
        case ATTRIBUTE_PTX_VERSION:
        case ATTRIBUTE_BINARY_VERSION: *value = 10 * machine().major + machine().minor; break;
        case ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = function->dynamic_shared_bytes; break;
        case ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: *value = -1; break;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value) {
    BEGIN_IN_CONTEXT(device);
    switch (attribute) {
        case ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
            if (value < 0 || value > machine().shared_bytes_per_block()) return CUDA_ERROR_INVALID_VALUE;
            function->dynamic_shared_bytes = value;
            return CUDA_SUCCESS;
        case ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
            return CUDA_SUCCESS;
        default:
            return CUDA_ERROR_INVALID_VALUE;
    }
}

EXPORT CUresult cuFuncSetCacheConfig(CUfunction, int) {
    BEGIN_IN_CONTEXT(device);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction, int block_size,
                                                            size_t shared_bytes) {
    BEGIN_IN_CONTEXT(device);
    if (block_size < 1 || block_size > MAX_THREADS_PER_BLOCK) return CUDA_ERROR_INVALID_VALUE;
    const size_t shared = static_cast<size_t>(machine().shared_bytes_per_block()) + emulator::RESERVED_SHARED_BYTES;
    const size_t by_shared = shared / (shared_bytes + emulator::RESERVED_SHARED_BYTES);
    *blocks = static_cast<int>(std::min<size_t>({32, 2048 / static_cast<size_t>(block_size), by_shared}));
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                               unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                               CUstream handle, void **arguments, void **extra) {
    BEGIN_IN_CONTEXT(device);
    Stream *stream = device->stream(handle);
    if (!stream || !function) return CUDA_ERROR_INVALID_HANDLE;
    const emulator::Dimensions grid{grid_x, grid_y, grid_z};
    const emulator::Dimensions block{block_x, block_y, block_z};
    if (!fits(grid, block) || shared_bytes > static_cast<unsigned>(function->dynamic_shared_bytes)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!arguments || extra) return CUDA_ERROR_NOT_SUPPORTED;
    const emulator::Kernel *kernel = function->kernel;
    const auto *from = static_cast<const unsigned char *>(arguments[0]);
    const std::vector<unsigned char> argument(from, from + kernel->argument_bytes);
    auto &statistics = device->statistics;
    ++statistics.launches;
    statistics.blocks += grid.product();
    const uint64_t in_flight = ++statistics.in_flight;
    emulator::raise(statistics.max_in_flight, in_flight);
    const CUresult fault = device->next_launch_fault();
    stream->queue->push([=] {
        device->gate.pass();
        CUresult error = device->lost;
        if (!error) error = fault;
        if (!error) {
            error = emulator::run_grid(Launch{kernel, argument.data(), grid, block, shared_bytes});
            if (error == CUDA_ERROR_ILLEGAL_ADDRESS) device->stray();
        }
        if (!error && !(device->memory.check() && machine().pinned.check())) {
            fprintf(stderr, "emulator: found after %s\n", kernel->name);
            device->stray();
        }
        if (error) device->lose(error);
        --device->statistics.in_flight;
    });
    return CUDA_SUCCESS;
}
