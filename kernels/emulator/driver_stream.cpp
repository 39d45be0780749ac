// The driver API: streams and events.
#include <algorithm>

#include "call.h"

using emulator::Device;
using emulator::Event;
using emulator::Mark;
using emulator::Stream;

namespace {

bool is_event(Device *device, CUevent event) {
    std::lock_guard lock(device->mutex);
    return device->events.count(event) > 0;
}

std::shared_ptr<Mark> last_mark(Device *device, CUevent event) {
    std::lock_guard lock(device->mutex);
    return device->events.count(event) ? event->mark : nullptr;
}

}  // namespace

EXPORT CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned, int) {
    BEGIN_IN_CONTEXT(device);
    *stream = new Stream(device);
    ++device->statistics.streams;
    std::lock_guard lock(device->mutex);
    device->streams.insert(*stream);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
    BEGIN_IN_CONTEXT(device);
    return cuStreamCreateWithPriority(stream, flags, 0);
}

EXPORT CUresult cuStreamDestroy_v2(CUstream stream) {
    Device *device = emulator::current_device;
    if (!device || !device->retained) return CUDA_ERROR_INVALID_CONTEXT;
    const CUresult refused = emulator::begin(device, __func__);
    {
        std::lock_guard lock(device->mutex);
        if (device->streams.erase(stream) == 0) return CUDA_ERROR_INVALID_HANDLE;
        auto &ending = device->ending;
        const auto idle = [](const auto &queue) { return queue->idle(); };
        ending.erase(std::remove_if(ending.begin(), ending.end(), idle), ending.end());
        ending.push_back(stream->queue);
    }
    --device->statistics.streams;
    if (device->lost) stream->queue->drain();
    // Its thread ends once it has done what it was given.
    delete stream;
    return refused;
}

EXPORT CUresult cuStreamSynchronize(CUstream handle) {
    BEGIN_IN_CONTEXT(device);
    Stream *stream = device->stream(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    const auto queue = stream->queue;
    queue->drain();
    return device->lost;
}

EXPORT CUresult cuStreamQuery(CUstream handle) {
    BEGIN_IN_CONTEXT(device);
    Stream *stream = device->stream(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (!stream->queue->idle()) return CUDA_ERROR_NOT_READY;
    return device->lost;
}

EXPORT CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned) {
    BEGIN_IN_CONTEXT(device);
    Stream *stream = device->stream(handle);
    if (!stream || !is_event(device, event)) return CUDA_ERROR_INVALID_HANDLE;
    if (const auto mark = last_mark(device, event)) stream->queue->push([mark] { mark->wait(); });
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLaunchHostFunc(CUstream handle, void (*function)(void *), void *data) {
    BEGIN_IN_CONTEXT(device);
    Stream *stream = device->stream(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    stream->queue->push([=] {
        if (!device->lost) function(data);
    });
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventCreate(CUevent *event, unsigned flags) {
    constexpr unsigned DISABLE_TIMING = 2;
    BEGIN_IN_CONTEXT(device);
    *event = new Event{(flags & DISABLE_TIMING) == 0, nullptr};
    ++device->statistics.events;
    std::lock_guard lock(device->mutex);
    device->events.insert(*event);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventDestroy_v2(CUevent event) {
    Device *device = emulator::current_device;
    if (!device || !device->retained) return CUDA_ERROR_INVALID_CONTEXT;
    const CUresult refused = emulator::begin(device, __func__);
    std::lock_guard lock(device->mutex);
    if (device->events.erase(event) == 0) return CUDA_ERROR_INVALID_HANDLE;
    --device->statistics.events;
    delete event;
    return refused;
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream handle) {
    BEGIN_IN_CONTEXT(device);
    Stream *stream = device->stream(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    const auto mark = std::make_shared<Mark>();
    std::lock_guard lock(device->mutex);
    if (device->events.count(event) == 0) return CUDA_ERROR_INVALID_HANDLE;
    event->mark = mark;
    // Reached on a lost device as well: a waiting thread gets the error of the loss instead of hanging.
    stream->queue->push([mark] { mark->reach(); });
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventQuery(CUevent event) {
    BEGIN_IN_CONTEXT(device);
    if (!is_event(device, event)) return CUDA_ERROR_INVALID_HANDLE;
    const auto mark = last_mark(device, event);
    if (mark && !mark->reached()) return CUDA_ERROR_NOT_READY;
    return device->lost;
}

EXPORT CUresult cuEventSynchronize(CUevent event) {
    BEGIN_IN_CONTEXT(device);
    if (!is_event(device, event)) return CUDA_ERROR_INVALID_HANDLE;
    if (const auto mark = last_mark(device, event)) mark->wait();
    return device->lost;
}

EXPORT CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
    BEGIN_IN_CONTEXT(device);
    if (!is_event(device, start) || !is_event(device, end)) return CUDA_ERROR_INVALID_HANDLE;
    const auto first = last_mark(device, start);
    const auto last = last_mark(device, end);
    if (!first || !last || !start->timed || !end->timed) return CUDA_ERROR_INVALID_HANDLE;
    if (!first->reached() || !last->reached()) return CUDA_ERROR_NOT_READY;
    *milliseconds = std::chrono::duration<float, std::milli>(last->time() - first->time()).count();
    return CUDA_SUCCESS;
}
