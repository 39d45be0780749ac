#include "fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace emulator {

#if defined(__x86_64__) && !defined(EMULATOR_UCONTEXT)

// Saves what the System V convention has a callee preserve. A few instructions where swapcontext
// asks the kernel for the signal mask, twice for each barrier and thread.
extern "C" void simjoin_emulator_switch(void **from, void *to);
asm(R"(
.text
.hidden simjoin_emulator_switch
.globl simjoin_emulator_switch
.type simjoin_emulator_switch, @function
simjoin_emulator_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size simjoin_emulator_switch, . - simjoin_emulator_switch
)");

void prepare(Context &context, unsigned char *stack, size_t bytes, void (*entry)()) {
    auto *top = reinterpret_cast<void **>(stack + bytes);
    // A function begins with its return address 8 bytes off a multiple of 16.
    *--top = nullptr;
    *--top = reinterpret_cast<void *>(entry);
    for (int saved = 0; saved < 6; ++saved) *--top = nullptr;
    context.stack_pointer = top;
}

void switch_context(Context &from, Context &to) {
    simjoin_emulator_switch(&from.stack_pointer, to.stack_pointer);
}

#else

void prepare(Context &context, unsigned char *stack, size_t bytes, void (*entry)()) {
    getcontext(&context.state);
    context.state.uc_stack.ss_sp = stack;
    context.state.uc_stack.ss_size = bytes;
    context.state.uc_link = nullptr;
    makecontext(&context.state, entry, 0);
}

void switch_context(Context &from, Context &to) { swapcontext(&from.state, &to.state); }

#endif

namespace {

size_t guard_bytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

}  // namespace

Stacks::~Stacks() {
    if (memory) munmap(memory, mapped);
}

void Stacks::reserve(size_t wanted) {
    if (wanted <= count) return;
    if (memory) munmap(memory, mapped);
    const size_t stride = BYTES + guard_bytes();
    mapped = wanted * stride;
    void *address =
        mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) {
        fprintf(stderr, "emulator: no memory for %zu stacks of %zu bytes\n", wanted, BYTES);
        abort();
    }
    memory = static_cast<unsigned char *>(address);
    count = wanted;
    for (size_t index = 0; index < count; ++index) {
        mprotect(memory + index * stride, guard_bytes(), PROT_NONE);
    }
}

unsigned char *Stacks::operator[](size_t index) const {
    return memory + index * (BYTES + guard_bytes()) + guard_bytes();
}

}  // namespace emulator
