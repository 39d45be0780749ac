#include "api.h"
#include "stream.h"

#include <thread>
#include <utility>

namespace emulator {

void Mark::reach() {
    std::lock_guard lock(mutex);
    done = true;
    at = std::chrono::steady_clock::now();
    changed.notify_all();
}

void Mark::wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return done; });
}

bool Mark::reached() {
    std::lock_guard lock(mutex);
    return done;
}

std::chrono::steady_clock::time_point Mark::time() {
    std::lock_guard lock(mutex);
    return at;
}

void Queue::push(std::function<void()> operation) {
    std::lock_guard lock(mutex);
    operations.push_back(std::move(operation));
    ++pushed;
    changed.notify_all();
}

void Queue::drain() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&, last = pushed] { return done >= last; });
}

bool Queue::idle() {
    std::lock_guard lock(mutex);
    return done == pushed;
}

void Queue::close() {
    std::lock_guard lock(mutex);
    closed = true;
    changed.notify_all();
}

void Queue::work() {
    // Hosts that rely on an order that no event guarantees get by if every operation is quick:
    // some wait a little.
    uint32_t jitter = 1;
    std::unique_lock lock(mutex);
    while (true) {
        changed.wait(lock, [&] { return closed || !operations.empty(); });
        if (operations.empty()) return;
        auto operation = std::move(operations.front());
        operations.pop_front();
        lock.unlock();
        jitter = jitter * 1664525 + 1013904223;
        if (jitter >> 29 == 0) std::this_thread::sleep_for(std::chrono::microseconds(jitter >> 8 & 127));
        operation();
        operation = nullptr;
        lock.lock();
        ++done;
        changed.notify_all();
    }
}

Stream::Stream(Device *owner) : device(owner), queue(std::make_shared<Queue>()) {
    std::thread([queue = queue] { queue->work(); }).detach();
}

Stream::~Stream() { queue->close(); }

}  // namespace emulator
