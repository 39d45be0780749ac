// The emulated machine: its devices, what they hold, which faults await them.
//
// Configured by the environment when cuInit is first called:
//   EMULATOR_DEVICES     number of devices (64)
//   EMULATOR_DRIVER      version as cuDriverGetVersion tells it (12040)
//   EMULATOR_CAPABILITY  compute capability (9.0)
//   EMULATOR_MEMORY      bytes of each device (1 GiB)
//   EMULATOR_SEED        order of threads and blocks (0)
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "api.h"
#include "block.h"
#include "memory.h"
#include "stream.h"

namespace emulator {

struct Function {
    Module *module;
    const Kernel *kernel;
    int dynamic_shared_bytes;
};

struct Module {
    // Named by what the image holds.
    std::vector<std::unique_ptr<Function>> functions;
    std::string text;
};

// What the nth call of a function returns.
struct Fault {
    std::string function;
    int calls_left;
    CUresult error;
};

// How long the nth call of a function takes.
struct Delay {
    std::string function;
    int calls_left;
    std::chrono::milliseconds time;
};

// Where kernels wait before they start.
class Gate {
  public:
    void set(bool open);
    // Returns once the gate is open.
    void pass();

  private:
    std::mutex mutex;
    std::condition_variable changed;
    bool open = true;
};

struct Statistics {
    // Calls of the driver API that concern the device.
    std::atomic<uint64_t> calls{0};
    // Injected faults that have happened.
    std::atomic<uint64_t> faults{0};
    std::atomic<uint64_t> launches{0};
    std::atomic<uint64_t> blocks{0};
    std::atomic<uint64_t> bytes_htod{0};
    std::atomic<uint64_t> bytes_dtoh{0};
    std::atomic<uint64_t> copies_htod{0};
    std::atomic<uint64_t> copies_dtoh{0};
    // Launches that have not ended, and the most of them there have been.
    std::atomic<uint64_t> in_flight{0};
    std::atomic<uint64_t> max_in_flight{0};
    // Bytes of device memory in use, and the most there have been.
    std::atomic<uint64_t> allocated{0};
    std::atomic<uint64_t> max_allocated{0};
    // Bytes that were still allocated when the context was destroyed.
    std::atomic<uint64_t> leaked{0};
    // Kernels and copies that reached for memory that was not or no longer theirs.
    std::atomic<uint64_t> strays{0};
    // Bytes of page-locked memory of the host, and the most there have been.
    std::atomic<uint64_t> pinned{0};
    std::atomic<uint64_t> max_pinned{0};
    std::atomic<uint64_t> streams{0};
    std::atomic<uint64_t> events{0};
    std::atomic<uint64_t> modules{0};
};

// A device and its primary context, which stand for each other.
struct Device {
    int ordinal;
    Statistics statistics;
    Memory memory;
    // What has lost the device: every call reports it until the device is reset or, where the error
    // is of the context alone, until its last holder releases that.
    std::atomic<CUresult> lost{CUDA_SUCCESS};
    // A thread that makes or ends the context holds this lock, so that no other thread sees half a
    // context. It is locked before all others.
    std::mutex lifetime;
    // How often its context is.
    std::atomic<int> retained{0};
    Gate gate;

    std::mutex mutex;
    std::vector<Fault> faults;
    std::vector<Delay> delays;
    // The error that the next launches end with, unseen by the host until it waits for them.
    std::vector<Fault> launch_faults;
    std::unique_ptr<Stream> null_stream;
    std::set<Stream *> streams;
    // Those that were destroyed and may still have work; it belongs to the context.
    std::vector<std::shared_ptr<Queue>> ending;
    std::set<Event *> events;
    std::set<Module *> modules;

    // Null where there is no such stream.
    Stream *stream(CUstream handle);
    // Until all streams have run what they have been given, also those that were destroyed since.
    void drain();
    // Makes later calls fail, unless an earlier error does already.
    void lose(CUresult error);
    // The same for work that reached for memory that is not its own.
    void stray();
    // What an asynchronous launch is to end with.
    CUresult next_launch_fault();
    // Frees everything, as when a context is destroyed. The caller has locked `lifetime`.
    void clear();
};

struct Machine {
    int driver;
    int major;
    int minor;
    size_t memory_bytes;
    std::vector<std::unique_ptr<Device>> devices;
    // Page-locked memory of the host; owners by address for the statistics.
    Memory pinned;
    std::mutex mutex;
    std::map<void *, Device *> pinned_by;
    // Faults of calls that concern no device.
    std::vector<Fault> faults;
    std::atomic<bool> initialised{false};

    // Null where there is no such device.
    Device *device(CUdevice ordinal);
    // Shared memory that a kernel may ask for, as cards of this capability have it.
    int shared_bytes_per_block() const;
};

// What each block takes of a multiprocessor's shared memory besides its own.
constexpr int RESERVED_SHARED_BYTES = 1024;

Machine &machine();

// Raises a maximum to a value.
void raise(std::atomic<uint64_t> &most, uint64_t value);

// The device whose context the calling thread has made current; null where there is none.
extern thread_local Device *current_device;

// Whether an error stays.
bool is_sticky(CUresult error);
// Whether it stays even where the context is made anew.
bool is_of_hardware(CUresult error);

// To be asked first by each driver function: an injected fault, or what has lost the device. Takes
// as long as an injected delay says.
CUresult begin(Device *device, const char *function);

// Which error loading the image on this machine gives; its text and tables in `text`.
CUresult read_image(const void *image, std::string &text);
// Whether the image has a kernel of that name.
bool has_kernel(const std::string &text, const char *name);

const char *error_name(CUresult error);
const char *error_description(CUresult error);

}  // namespace emulator
