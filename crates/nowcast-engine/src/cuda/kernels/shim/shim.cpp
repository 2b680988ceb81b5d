// The scheduler of the fibers. See shim.h.
#include "shim.h"

#include <sys/mman.h>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace shim {

Three grid_size, block_index, block_size, thread;
float4* dynamic_memory;

namespace {

const unsigned MOST_THREADS = 2048;
const size_t STACK = 64 * 1024;
const size_t DYNAMIC_BYTES = 232 * 1024;
const unsigned MOST_BLOCKS = 8;

enum State { READY, AT_BLOCK_BARRIER, AT_WARP_BARRIER, AT_CLUSTER_BARRIER, AT_FIRST_THREADS_BARRIER, AT_PHASE, DONE };

#if defined(__x86_64__)
// Saves the registers a call preserves on one stack and takes them from another.
extern "C" void shim_switch(void** save, void* to);
asm(R"(
.text
.globl shim_switch
.type shim_switch,@function
shim_switch:
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
.size shim_switch,.-shim_switch
)");
typedef void* Place;
#else
typedef ucontext_t Place;
#endif

State states[MOST_THREADS];
Place places[MOST_THREADS];
Place scheduler;
char* stacks;
unsigned long long exchange[MOST_THREADS];
unsigned first_threads;
const Phase* phases[MOST_THREADS];
unsigned parities[MOST_THREADS];
float operands[MOST_THREADS][12];
// Threads of the blocks that run side by side, and of one of them.
unsigned current, threads, block_threads;
// The first of these blocks, and its dynamic memory.
unsigned first_block;
char* memory;
void (*body)(const void*);
const void* argument;

void to_scheduler() {
#if defined(__x86_64__)
    shim_switch(&places[current], scheduler);
#else
    swapcontext(&places[current], &scheduler);
#endif
}

void to_thread(unsigned index) {
    current = index;
    thread = Three{index % block_threads, 0, 0};
    block_index.x = first_block + index / block_threads;
    dynamic_memory = reinterpret_cast<float4*>(memory + index / block_threads * DYNAMIC_BYTES);
#if defined(__x86_64__)
    shim_switch(&scheduler, places[index]);
#else
    swapcontext(&scheduler, &places[index]);
#endif
}

void enter() {
    body(argument);
    states[current] = DONE;
    to_scheduler();
}

void prepare(unsigned index) {
    char* stack = stacks + index * STACK;
    states[index] = READY;
#if defined(__x86_64__)
    // As if `enter` had been called: six saved registers, its address, and a return address that is never used.
    void** top = reinterpret_cast<void**>(stack + STACK) - 2;
    top[0] = reinterpret_cast<void*>(enter);
    top[1] = nullptr;
    places[index] = top - 6;
    memset(top - 6, 0, 6 * sizeof(void*));
#else
    getcontext(&places[index]);
    places[index].uc_stack.ss_sp = stack;
    places[index].uc_stack.ss_size = STACK;
    places[index].uc_link = nullptr;
    makecontext(&places[index], enter, 0);
#endif
}

// Lets all threads from `first` to `last` go that wait at a barrier where nobody is missing; true if there are any.
bool release_at(State barrier, unsigned first, unsigned last) {
    bool complete = true, released = false;
    for (unsigned index = first; index < last; index++) complete &= states[index] == DONE || states[index] == barrier;
    for (unsigned index = first; index < last && complete; index++) {
        if (states[index] != barrier) continue;
        states[index] = READY;
        released = true;
    }
    return released;
}

// Lets all threads from `first` to `last` go whose phase has ended; true if there are any.
bool release_waiting(unsigned first, unsigned last) {
    bool released = false;
    for (unsigned index = first; index < last; index++) {
        if (states[index] != AT_PHASE || phases[index]->parity == parities[index]) continue;
        states[index] = READY;
        released = true;
    }
    return released;
}

// Lets go whoever waits for nobody any more; false where all are done.
bool release() {
    bool any_left = false;
    for (unsigned index = 0; index < threads; index++) any_left |= states[index] != DONE;
    if (!any_left) return false;
    bool released = release_at(AT_CLUSTER_BARRIER, 0, threads);
    for (unsigned first = 0; first < threads; first += block_threads) {
        unsigned end = first + block_threads;
        released |= release_at(AT_BLOCK_BARRIER, first, end);
        released |= release_at(AT_FIRST_THREADS_BARRIER, first, first + first_threads < end ? first + first_threads : end);
        released |= release_waiting(first, end);
        for (unsigned warp = first; warp < end; warp += 32) {
            released |= release_at(AT_WARP_BARRIER, warp, warp + 32 < end ? warp + 32 : end);
        }
    }
    if (!released) {
        fprintf(stderr, "threads of block %u %u %u wait for each other at different barriers\n", block_index.x,
                block_index.y, block_index.z);
        abort();
    }
    return true;
}

void run_blocks() {
    for (unsigned index = 0; index < threads; index++) prepare(index);
    do {
        for (unsigned index = 0; index < threads; index++) {
            if (states[index] == READY) to_thread(index);
        }
    } while (release());
}

}  // namespace

void block_barrier() {
    states[current] = AT_BLOCK_BARRIER;
    to_scheduler();
}

void warp_barrier() {
    states[current] = AT_WARP_BARRIER;
    to_scheduler();
}

void cluster_barrier() {
    states[current] = AT_CLUSTER_BARRIER;
    to_scheduler();
}

void* in_peer(void* place, unsigned peer) {
    char* own = reinterpret_cast<char*>(dynamic_memory);
    return memory + peer * DYNAMIC_BYTES + (static_cast<char*>(place) - own);
}

void first_threads_barrier(unsigned count) {
    first_threads = count;
    states[current] = AT_FIRST_THREADS_BARRIER;
    to_scheduler();
}

void phase(const Phase* barrier, unsigned parity) {
    if (barrier->parity != parity) return;
    phases[current] = barrier;
    parities[current] = parity;
    states[current] = AT_PHASE;
    to_scheduler();
}

float& operand(unsigned lane, unsigned which) {
    return operands[current / 32 * 32 + lane][which];
}

unsigned long long& exchanged(unsigned lane) {
    return exchange[current / 32 * 32 + lane];
}

void run(const unsigned grid[3], unsigned block, unsigned shared_bytes, void (*entry)(const void*), const void* call,
         unsigned cluster) {
    if (block * cluster > MOST_THREADS || shared_bytes > DYNAMIC_BYTES || cluster > MOST_BLOCKS || grid[0] % cluster) {
        fprintf(stderr, "a block of %u threads with %u bytes does not fit\n", block, shared_bytes);
        abort();
    }
    if (!stacks) {
        size_t bytes = MOST_THREADS * STACK;
        void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (mapped == MAP_FAILED) abort();
        stacks = static_cast<char*>(mapped);
        memory = static_cast<char*>(aligned_alloc(64, MOST_BLOCKS * DYNAMIC_BYTES));
    }
    grid_size = Three{grid[0], grid[1], grid[2]};
    block_size = Three{block, 1, 1};
    threads = block * cluster;
    block_threads = block;
    body = entry;
    argument = call;
    for (unsigned z = 0; z < grid[2]; z++) {
        for (unsigned y = 0; y < grid[1]; y++) {
            for (unsigned x = 0; x < grid[0]; x += cluster) {
                block_index = Three{x, y, z};
                first_block = x;
                // What nobody wrote is NaN, as in the arena.
                for (unsigned peer = 0; peer < cluster; peer++) memset(memory + peer * DYNAMIC_BYTES, 0xff, shared_bytes);
                run_blocks();
            }
        }
    }
}

}  // namespace shim
