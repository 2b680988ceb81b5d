// The scheduler of the fibers. See shim.h.
#include "shim.h"
#include "warp.h"

#include <sys/mman.h>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace shim {

Three grid_size, block_index, block_size, thread;
float4* dynamic_memory;
Warp warps[MOST_WARPS];
unsigned current;
char *stacks, *memory;

namespace {

#if defined(__x86_64__)
// Saves the registers a call preserves on one stack and takes them from another.
extern "C" void shim_switch(void** save, void* to);
asm(R"(
.text
.globl shim_switch
.hidden shim_switch
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

Place places[MOST_THREADS];
Place scheduler;
const Phase* phases[MOST_THREADS];
unsigned parities[MOST_THREADS];
unsigned first_threads;
// Warps of the blocks that run side by side, and of one of them.
unsigned warps_in_use, block_warps;
// The first of these blocks.
unsigned first_block;
void (*body)(const void*);
const void* argument;

void go(Place& from, Place& to) {
#if defined(__x86_64__)
    shim_switch(&from, to);
#else
    swapcontext(&from, &to);
#endif
}

// The next thread of the warp that can run, else the scheduler.
void give_way() {
    unsigned before = current, first = before / LANES * LANES;
    Warp& warp = warps[before / LANES];
    if (warp.ready == 0) warp.meet(before / LANES);
    if (warp.ready == 0) return go(places[before], scheduler);
    unsigned next = first + __builtin_ctz(warp.ready);
    if (next == before) return;
    current = next;
    thread.x = warp.first_thread + next % LANES;
    go(places[before], places[next]);
}

void wait_at(Barrier barrier) {
    Warp& warp = warps[current / LANES];
    unsigned bit = 1u << current % LANES;
    warp.ready &= ~bit;
    warp.waiting[barrier] |= bit;
    give_way();
}

void enter() {
    body(argument);
    races::leave();
    if (races::ARE_FOUND) forget_copies(current);
    Warp& warp = warps[current / LANES];
    unsigned bit = 1u << current % LANES;
    warp.ready &= ~bit;
    warp.done |= bit;
    give_way();
}

void prepare(unsigned index) {
    char* stack = stacks + index * STACK;
#if defined(__x86_64__)
    // As if `enter` had been called: six saved registers, its address, and a return address that is never used.
    void** top = reinterpret_cast<void**>(stack + STACK) - 2;
    top[0] = reinterpret_cast<void*>(enter);
    top[1] = nullptr;
    places[index] = top - 6;
    memset(top - 6, 0, 6 * sizeof(void*));
#else
    ucontext_t& place = places[index];
    getcontext(&place);
    place.uc_stack.ss_sp = stack;
    place.uc_stack.ss_size = STACK;
    place.uc_link = nullptr;
    makecontext(&place, enter, 0);
#endif
}

// Tells that those of the first `count` threads of these warps have met that wait there.
void tell_meeting(Barrier barrier, unsigned first, unsigned end, unsigned count) {
    static unsigned threads[MOST_THREADS];
    unsigned found = 0;
    for (unsigned index = first * LANES; index < end * LANES && index < first * LANES + count; index++) {
        if (warps[index / LANES].waiting[barrier] >> index % LANES & 1) threads[found++] = index;
    }
    if (found) (barrier == OF_CLUSTER ? races::meet_in_cluster : races::meet)(threads, found);
}

// Lets the first `count` threads of these warps go where all of them wait at a barrier or are done; true if any waits.
bool release_at(Barrier barrier, unsigned first, unsigned end, unsigned count) {
    auto lanes = [&](unsigned index) {
        unsigned before = (index - first) * LANES;
        return count >= before + LANES ? ALL_LANES : count > before ? (1u << (count - before)) - 1 : 0;
    };
    for (unsigned index = first; index < end; index++) {
        if (lanes(index) & ~(warps[index].waiting[barrier] | warps[index].done)) return false;
    }
    if (races::ARE_FOUND) tell_meeting(barrier, first, end, count);
    bool released = false;
    for (unsigned index = first; index < end; index++) released |= warps[index].release(barrier, lanes(index));
    return released;
}

// Lets all threads of a warp go whose phase has ended.
void release_waiting(unsigned index) {
    Warp& warp = warps[index];
    for (unsigned left = warp.waiting[OF_PHASE]; left; left &= left - 1) {
        unsigned lane = __builtin_ctz(left), waiting = index * LANES + lane;
        if (phases[waiting]->parity == parities[waiting]) continue;
        warp.release(OF_PHASE, 1u << lane);
    }
}

// Lets go whoever waits for nobody any more; false where all are done.
bool release() {
    unsigned end = warps_in_use, count = end * LANES, done = ALL_LANES;
    for (unsigned index = 0; index < end; index++) done &= warps[index].done;
    if (done == ALL_LANES) return false;
    bool released = release_at(OF_CLUSTER, 0, end, count);
    for (unsigned first = 0; first < end; first += block_warps) {
        released |= release_at(OF_BLOCK, first, first + block_warps, count);
        released |= release_at(OF_FIRST_THREADS, first, first + block_warps, first_threads);
    }
    if (!released) {
        fprintf(stderr, "threads of block %u %u %u wait for each other at different barriers\n", block_index.x,
                block_index.y, block_index.z);
        abort();
    }
    return true;
}

// Lets the threads of a warp run until all of them wait for others; false if they do already.
bool run_warp(unsigned index) {
    release_waiting(index);
    Warp& warp = warps[index];
    if (warp.ready == 0) return false;
    unsigned block = index / block_warps, lane = __builtin_ctz(warp.ready);
    current = index * LANES + lane;
    thread.x = warp.first_thread + lane;
    block_index.x = first_block + block;
    dynamic_memory = reinterpret_cast<float4*>(memory + block * DYNAMIC_BYTES);
    go(scheduler, places[current]);
    return true;
}

// Warps up and down in turn, and other blocks down first: nothing may depend on whose turn it is.
void run_blocks(bool goes_down) {
    for (unsigned index = 0; index < warps_in_use; index++) {
        unsigned first = index % block_warps * LANES;
        warps[index].prepare(first, block_size.x - first);
        for (unsigned lane = 0; lane < LANES; lane++) prepare(index * LANES + lane);
    }
    for (bool any_left = true; any_left; goes_down = !goes_down) {
        bool has_run = false;
        for (unsigned index = 0; index < warps_in_use; index++) {
            has_run |= run_warp(goes_down ? warps_in_use - 1 - index : index);
        }
        any_left = has_run || release();
    }
}

}  // namespace

void block_barrier() {
    wait_at(OF_BLOCK);
}

void warp_barrier() {
    warps[current / LANES].orders = true;
    wait_at(OF_WARP);
}

void cluster_barrier() {
    wait_at(OF_CLUSTER);
}

void* in_peer(void* place, unsigned peer) {
    char* own = reinterpret_cast<char*>(dynamic_memory);
    return memory + peer * DYNAMIC_BYTES + (static_cast<char*>(place) - own);
}

void first_threads_barrier(unsigned count) {
    first_threads = count;
    wait_at(OF_FIRST_THREADS);
}

void phase(const Phase* barrier, unsigned parity) {
    phases[current] = barrier;
    parities[current] = parity;
    if (barrier->parity == parity) wait_at(OF_PHASE);
    races::pass(barrier);
}

const unsigned long long* exchange(unsigned long long word) {
    Warp& warp = warps[current / LANES];
    // The next exchange is made elsewhere, and none behind it before all lanes come there.
    unsigned long long* words = warp.exchanged[warp.turn % 2];
    words[current % LANES] = word;
    wait_at(OF_WARP);
    return words;
}

void multiply_together(const Factors& factors) {
    Warp& warp = warps[current / LANES];
    warp.factors[current % LANES] = &factors;
    wait_at(OF_PRODUCT);
}

void run(const unsigned grid[3], unsigned block, unsigned shared_bytes, void (*entry)(const void*), const void* call,
         unsigned cluster) {
    block_warps = (block + LANES - 1) / LANES;
    if (block_warps * cluster > MOST_WARPS || shared_bytes > DYNAMIC_BYTES || cluster > MOST_BLOCKS || grid[0] % cluster) {
        fprintf(stderr, "a block of %u threads with %u bytes does not fit\n", block, shared_bytes);
        abort();
    }
    if (!stacks) {
        int protection = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        void* mapped = mmap(nullptr, MOST_THREADS * STACK, protection, flags, -1, 0);
        if (mapped == MAP_FAILED) abort();
        stacks = static_cast<char*>(mapped);
        memory = static_cast<char*>(aligned_alloc(64, MOST_BLOCKS * DYNAMIC_BYTES));
    }
    grid_size = Three{grid[0], grid[1], grid[2]};
    block_size = Three{block, 1, 1};
    warps_in_use = block_warps * cluster;
    body = entry;
    argument = call;
    bool goes_down = false;
    races::begin_launch(block_warps * LANES * cluster);
    for (unsigned z = 0; z < grid[2]; z++) {
        for (unsigned y = 0; y < grid[1]; y++) {
            for (unsigned x = 0; x < grid[0]; x += cluster) {
                block_index = Three{x, y, z};
                first_block = x;
                // What nobody wrote is NaN, as in the arena.
                for (unsigned peer = 0; peer < cluster; peer++) {
                    memset(memory + peer * DYNAMIC_BYTES, 0xff, shared_bytes);
                }
                races::begin_blocks(cluster, block_warps * LANES, block);
                run_blocks(goes_down);
                races::end_blocks();
                goes_down = !goes_down;
            }
        }
    }
}

}  // namespace shim
