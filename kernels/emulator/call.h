// How each driver function begins.
#pragma once

#include "state.h"

// Counts the call for fault injection and fails if the device is lost.
#define BEGIN(device) \
    if (const CUresult refused = emulator::begin(device, __func__)) return refused

// The same for the device of the current context, under that name.
#define BEGIN_IN_CONTEXT(name)                                       \
    emulator::Device *const name = emulator::current_device;         \
    if (!name || !name->retained) return CUDA_ERROR_INVALID_CONTEXT; \
    BEGIN(name)
