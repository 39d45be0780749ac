#include "block.h"

#include <signal.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "api.h"
#include "fiber.h"

namespace emulator {
namespace {

constexpr unsigned char POISON = 0xcb;
constexpr size_t REDZONE = 1024;
// What a shuffle from a lane outside of the mask gives, which CUDA leaves undefined.
constexpr uint64_t UNDEFINED = 0xbadc0ffee0ddf00dULL;

enum class State : uint8_t { ready, at_barrier, in_collective, returned };

struct Thread {
    Context context;
    Dimensions index;
    unsigned number;
    State state;
    // Of the collective it is in.
    Collective kind;
    const char *name;
    int width;
    uint32_t mask;
    unsigned source;
    uint64_t value;
    // What the collective that ended gave it.
    uint64_t result;
};

struct Random {
    uint64_t state;

    uint64_t next() {
        state += 0x9e3779b97f4a7c15ULL;
        uint64_t mixed = state;
        mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ULL;
        mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebULL;
        return mixed ^ (mixed >> 31);
    }

    // The place of some bit of those set, at least one.
    unsigned bit_of(uint32_t bits) {
        const auto shift = static_cast<unsigned>(next() >> 59);
        const uint32_t turned = bits >> shift | bits << (-shift & 31);
        return (static_cast<unsigned>(__builtin_ctz(turned)) + shift) & 31;
    }
};

// Which of the threads that can go on does. Threads of all warps in turn, or, in every other block,
// those of a favoured warp until it has to wait: so one warp gets far ahead of another, as on the
// hardware, and what it reads without a barrier in between has not been written yet.
class Schedule {
  public:
    void start(Random order) {
        random = order;
        lanes.fill(0);
        favouring = random.next() & 1;
        std::iota(warps_by_rank.begin(), warps_by_rank.end(), 0u);
        for (unsigned rank = WARP - 1; rank > 0; --rank) {
            std::swap(warps_by_rank[rank], warps_by_rank[random.next() % (rank + 1)]);
        }
        for (unsigned rank = 0; rank < WARP; ++rank) ranks[warps_by_rank[rank]] = rank;
        ready_ranks = 0;
    }

    // A thread waits for what others do: no warp is favoured any more.
    void turn() { favouring = false; }

    void add(unsigned thread) {
        const unsigned warp = thread / WARP;
        lanes[warp] |= 1u << thread % WARP;
        ready_ranks |= 1u << ranks[warp];
    }

    bool empty() const { return ready_ranks == 0; }

    unsigned take() {
        const auto first = static_cast<unsigned>(__builtin_ctz(ready_ranks));
        const unsigned rank = favouring ? first : random.bit_of(ready_ranks);
        const unsigned warp = warps_by_rank[rank];
        const unsigned lane = random.bit_of(lanes[warp]);
        lanes[warp] &= ~(1u << lane);
        if (lanes[warp] == 0) ready_ranks &= ~(1u << rank);
        return warp * WARP + lane;
    }

  private:
    Random random{0};
    bool favouring = false;
    // The lanes that can go on, by warp, and the ranks of the warps that have some.
    std::array<uint32_t, WARP> lanes{};
    uint32_t ready_ranks = 0;
    std::array<unsigned, WARP> warps_by_rank{};
    std::array<unsigned, WARP> ranks{};
};

// The blocks of one OS thread; its memory serves one launch after the other.
struct Runner {
    Context scheduler;
    Stacks stacks;
    std::vector<Thread> threads;
    // The lanes that wait in a collective, by warp.
    std::vector<uint32_t> in_collective;
    Schedule ready;
    std::vector<unsigned char> shared;
    std::vector<unsigned char> signal_stack;
    const Launch *launch = nullptr;
    Dimensions block{};
    Thread *current = nullptr;
    unsigned at_barrier = 0;
    unsigned predicates = 0;
    unsigned barrier_result = 0;
    CUresult error = CUDA_SUCCESS;

    void arm_signal_stack();
    CUresult run_block(Random order);
    CUresult deadlock() const;
    bool shared_is_intact() const;
    void fail(CUresult result, const std::string &what);
    void wait() { switch_context(current->context, scheduler); }
    void wake(Thread &thread) {
        thread.state = State::ready;
        ready.add(thread.number);
    }
};

// The runner of the OS thread once it has run a grid. A pointer, because device code asks for it at
// every step: it needs no check whether it is made already.
thread_local Runner *runner = nullptr;

std::string where() {
    const Dimensions &block = runner->block;
    return std::string(runner->launch->kernel->name) + ", block (" + std::to_string(block.x) + ", " +
           std::to_string(block.y) + ", " + std::to_string(block.z) + ")";
}

// Of a thread that cannot go on: the block is given up, its fibers with it.
void Runner::fail(CUresult result, const std::string &what) {
    error = result;
    fprintf(stderr, "emulator: %s, thread %u: %s\n", where().c_str(), current->number, what.c_str());
    wait();
}

void thread_main() {
    runner->launch->kernel->run(runner->launch->argument);
    runner->current->state = State::returned;
    runner->wait();
    abort();
}

// A kernel touched a page that is not there: a null pointer, memory freed before the kernel ran,
// the guard behind an allocation or below a stack. Real hardware reports an illegal address.
struct sigaction previous_segv;
struct sigaction previous_bus;

void on_fault(int signal, siginfo_t *info, void *context) {
    if (runner && runner->current) {
        char address[32];
        snprintf(address, sizeof(address), "%p", info->si_addr);
        runner->fail(CUDA_ERROR_ILLEGAL_ADDRESS, std::string("illegal access to ") + address);
    }
    const struct sigaction &previous = signal == SIGSEGV ? previous_segv : previous_bus;
    if (previous.sa_flags & SA_SIGINFO) {
        previous.sa_sigaction(signal, info, context);
    } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
        previous.sa_handler(signal);
    } else {
        sigaction(signal, &previous, nullptr);
    }
}

void install_fault_handler() {
    static std::once_flag once;
    std::call_once(once, [] {
        struct sigaction action {};
        action.sa_sigaction = on_fault;
        // The handler never returns to a kernel, so the signal must not stay blocked.
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        sigaction(SIGSEGV, &action, &previous_segv);
        sigaction(SIGBUS, &action, &previous_bus);
    });
}

// The handler of a stack overflow needs another stack to run on.
void Runner::arm_signal_stack() {
    if (!signal_stack.empty()) return;
    signal_stack.resize(64 * 1024);
    stack_t stack{};
    stack.ss_sp = signal_stack.data();
    stack.ss_size = signal_stack.size();
    sigaltstack(&stack, nullptr);
}

bool Runner::shared_is_intact() const {
    for (size_t at = 0; at < REDZONE; ++at) {
        if (shared[at] != POISON) return false;
        if (shared[REDZONE + launch->shared_bytes + at] != POISON) return false;
    }
    return true;
}

CUresult Runner::deadlock() const {
    fprintf(stderr, "emulator: %s: no thread can go on\n", where().c_str());
    unsigned returned = 0;
    for (const Thread &thread : threads) returned += thread.state == State::returned;
    if (returned) fprintf(stderr, "emulator:   %u threads have returned\n", returned);
    if (at_barrier) fprintf(stderr, "emulator:   %u threads wait in __syncthreads\n", at_barrier);
    // The lanes that wait in the same collective, by warp.
    std::map<std::tuple<unsigned, std::string, uint32_t>, uint32_t> waiting;
    for (const Thread &thread : threads) {
        if (thread.state != State::in_collective) continue;
        waiting[{thread.number / WARP, thread.name, thread.mask}] |= 1u << thread.number % WARP;
    }
    for (const auto &[where, lanes] : waiting) {
        const auto &[warp, name, mask] = where;
        fprintf(stderr, "emulator:   warp %u, lanes 0x%08x wait in %s with mask 0x%08x\n", warp, lanes,
                name.c_str(), mask);
    }
    return CUDA_ERROR_LAUNCH_FAILED;
}

CUresult Runner::run_block(Random order) {
    const Dimensions &size = launch->block;
    const auto count = static_cast<unsigned>(size.product());
    stacks.reserve(count);
    threads.resize(count);
    in_collective.assign((count + WARP - 1) / WARP, 0);
    ready.start(order);
    at_barrier = predicates = 0;
    error = CUDA_SUCCESS;
    shared.assign(2 * REDZONE + launch->shared_bytes, POISON);
    for (unsigned number = 0; number < count; ++number) {
        Thread &thread = threads[number];
        thread.number = number;
        thread.index = {number % size.x, number / size.x % size.y, number / size.x / size.y};
        prepare(thread.context, stacks[number], Stacks::BYTES, thread_main);
        wake(thread);
    }
    while (!ready.empty()) {
        current = &threads[ready.take()];
        switch_context(scheduler, current->context);
        current = nullptr;
        if (error) return error;
    }
    for (const Thread &thread : threads) {
        if (thread.state != State::returned) return deadlock();
    }
    if (!shared_is_intact()) {
        fprintf(stderr, "emulator: %s: write outside of %zu bytes of dynamic shared memory\n",
                where().c_str(), launch->shared_bytes);
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    return CUDA_SUCCESS;
}

uint64_t seed_of(const Launch &launch) {
    const char *text = getenv("EMULATOR_SEED");
    uint64_t seed = text ? strtoull(text, nullptr, 10) : 0;
    for (const char *at = launch.kernel->name; *at; ++at) seed = seed * 31 + static_cast<unsigned char>(*at);
    return seed;
}

}  // namespace

int run_grid(const Launch &launch) {
    install_fault_handler();
    static thread_local Runner own;
    runner = &own;
    runner->arm_signal_stack();
    runner->launch = &launch;
    const uint64_t blocks = launch.grid.product();
    Random random{seed_of(launch)};
    // Blocks in the order of a pseudo-random walk through all of them.
    uint64_t stride = random.next() % blocks | 1;
    while (std::gcd(stride, blocks) != 1) stride += 2;
    uint64_t number = random.next() % blocks;
    for (uint64_t done = 0; done < blocks; ++done) {
        const Dimensions &grid = launch.grid;
        runner->block = {static_cast<unsigned>(number % grid.x),
                        static_cast<unsigned>(number / grid.x % grid.y),
                        static_cast<unsigned>(number / grid.x / grid.y)};
        Random order{seed_of(launch) ^ (number + 1) * 0xd1342543de82ef95ULL};
        if (const CUresult error = runner->run_block(order)) return error;
        number = (number + stride) % blocks;
    }
    return CUDA_SUCCESS;
}

Dimensions thread_index() { return runner->current->index; }
Dimensions block_index() { return runner->block; }
Dimensions block_size() { return runner->launch->block; }
Dimensions grid_size() { return runner->launch->grid; }
void *dynamic_shared() { return runner->shared.data() + REDZONE; }
unsigned lane() { return runner->current->number % WARP; }
void spin() { runner->ready.turn(); }

unsigned barrier(bool predicate) {
    Runner &block = *runner;
    block.predicates += predicate;
    block.current->state = State::at_barrier;
    if (++block.at_barrier == block.threads.size()) {
        block.at_barrier = 0;
        block.barrier_result = block.predicates;
        block.predicates = 0;
        for (Thread &thread : block.threads) block.wake(thread);
    }
    block.wait();
    return block.barrier_result;
}

uint64_t collective(Collective kind, const char *name, uint32_t mask, uint64_t value,
                    unsigned source, int width) {
    Runner &block = *runner;
    Thread &self = *block.current;
    const unsigned first = self.number / WARP * WARP;
    if (!(mask >> (self.number - first) & 1)) {
        char text[64];
        snprintf(text, sizeof(text), "the mask 0x%08x of %s lacks its caller", mask, name);
        block.fail(CUDA_ERROR_LAUNCH_FAILED, text);
    }
    self.state = State::in_collective;
    self.kind = kind;
    self.name = name;
    self.width = width;
    self.mask = mask;
    self.value = value;
    self.source = source;
    uint32_t &waiting = block.in_collective[self.number / WARP];
    waiting |= 1u << (self.number - first);
    const auto member = [&](unsigned lane) -> Thread * {
        return mask >> lane & 1 && first + lane < block.threads.size() ? &block.threads[first + lane] : nullptr;
    };
    uint32_t arrived = 0;
    uint32_t votes = 0;
    // Lanes are looked at one by one only once all of the mask wait in some collective.
    for (unsigned lane = 0; lane < WARP && (waiting & mask) == mask; ++lane) {
        const Thread *other = member(lane);
        if (!other || other->mask != mask || other->width != width) continue;
        if (other->name != name && strcmp(other->name, name) != 0) continue;
        arrived |= 1u << lane;
        votes |= static_cast<uint32_t>(other->value != 0) << lane;
    }
    if (arrived == mask) {
        waiting &= ~mask;
        for (unsigned lane = 0; lane < WARP; ++lane) {
            Thread *other = member(lane);
            if (!other) continue;
            if (kind == Collective::vote) {
                other->result = votes;
            } else if (kind == Collective::shuffle) {
                const Thread *from = member(other->source);
                other->result = from ? from->value : UNDEFINED;
            }
            block.wake(*other);
        }
    }
    block.wait();
    return self.result;
}

}  // namespace emulator
