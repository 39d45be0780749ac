// Switching between stacks within one OS thread.
#pragma once

#include <cstddef>

#if !defined(__x86_64__) || defined(EMULATOR_UCONTEXT)
#include <ucontext.h>
#endif

namespace emulator {

// Where a fiber, or the scheduler between two fibers, goes on.
struct Context {
#if defined(__x86_64__) && !defined(EMULATOR_UCONTEXT)
    void *stack_pointer;
#else
    ucontext_t state;
#endif
};

// Makes `context` begin `entry`, which must not return, on an empty stack.
void prepare(Context &context, unsigned char *stack, size_t bytes, void (*entry)());

// Leaves what runs in `from` and goes on with `to`.
void switch_context(Context &from, Context &to);

// Stacks of equal size, each with a page below it that must not be touched.
class Stacks {
  public:
    static constexpr size_t BYTES = 64 * 1024;

    Stacks() = default;
    Stacks(const Stacks &) = delete;
    ~Stacks();

    // Keeps the stacks there are only if they are enough.
    void reserve(size_t count);
    unsigned char *operator[](size_t index) const;

  private:
    unsigned char *memory = nullptr;
    size_t mapped = 0;
    size_t count = 0;
};

}  // namespace emulator
