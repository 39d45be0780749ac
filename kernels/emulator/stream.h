// Streams and events: what one stream is given runs in order on a thread of its own, and nothing
// but an event or a wait of the host orders it against another stream.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>

namespace emulator {

// One recording of an event.
class Mark {
  public:
    void reach();
    void wait();
    bool reached();
    std::chrono::steady_clock::time_point time();

  private:
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    std::chrono::steady_clock::time_point at;
};

struct Event {
    bool timed;
    // The last recording; null before the first.
    std::shared_ptr<Mark> mark;
};

class Queue {
  public:
    void push(std::function<void()> operation);
    // Until what has been pushed so far has run.
    void drain();
    bool idle();
    // Ends the thread once it has run what has been pushed.
    void close();
    // Runs operations until closed.
    void work();

  private:
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> operations;
    uint64_t pushed = 0;
    uint64_t done = 0;
    bool closed = false;
};

struct Stream {
    Device *device;
    // Shared with its thread, which may outlive the stream.
    std::shared_ptr<Queue> queue;

    explicit Stream(Device *device);
    ~Stream();
};

}  // namespace emulator
