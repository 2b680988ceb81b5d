// A warp: which of its lanes run, and which wait where.
#pragma once

#include "races.h"
#include "shim.h"

#pragma GCC visibility push(hidden)
namespace shim {

const unsigned LANES = 32;
const unsigned MOST_THREADS = 2048;
const unsigned ALL_LANES = 0xffffffffu;

enum Barrier { OF_WARP, OF_PRODUCT, OF_BLOCK, OF_CLUSTER, OF_FIRST_THREADS, OF_PHASE, BARRIERS };

// The thread that runs, in its cluster.
extern unsigned current;
// Where fibers have their stacks, and blocks their dynamic memory. Stacks are no power of two long: the same places of all of
// them would share a few lines of the caches.
const size_t STACK = 64 * 1024 + 25 * 64, DYNAMIC_BYTES = 232 * 1024;
const unsigned MOST_BLOCKS = 8;
extern char *stacks, *memory;

// A phase ends when nobody is to arrive any more and all bytes that were expected have come.
struct Phase {
    short arrivals, left;
    int bytes : 31;
    unsigned parity : 1;
};
static_assert(sizeof(Phase) == sizeof(unsigned long long), "the place of a barrier");

// Of a thread that is done: copies it did not wait for.
void forget_copies(unsigned thread);
// Multiplies what the lanes of a warp hand over.
void multiply(const Factors* const (&lanes)[LANES]);

struct Warp {
    // A bit for each lane; those that no thread stands for are done.
    unsigned ready, done, waiting[BARRIERS];
    // The first thread, in its block.
    unsigned first_thread;
    // Barriers of the warp that are over.
    unsigned turn;
    // Whether the next one orders what lanes do to memory; exchanges do not.
    bool orders;
    unsigned long long exchanged[2][LANES];
    const Factors* factors[LANES];

    void prepare(unsigned first, unsigned threads) {
        *this = Warp{};
        first_thread = first;
        ready = threads < LANES ? (1u << threads) - 1 : ALL_LANES;
        done = ~ready;
    }
    // Lets those of these lanes go that wait there; true if there are any.
    bool release(Barrier barrier, unsigned lanes = ALL_LANES) {
        lanes &= waiting[barrier];
        ready |= lanes;
        waiting[barrier] &= ~lanes;
        return lanes != 0;
    }
    // Once no lane can run: lets those go that wait for each other. `index` is the warp's.
    void meet(unsigned index) {
        if (waiting[OF_PRODUCT] == ALL_LANES) {
            multiply(factors);
            tell(races::end_reading, index, ALL_LANES);
            release(OF_PRODUCT);
        } else if (waiting[OF_WARP] && (waiting[OF_WARP] | done) == ALL_LANES) {
            turn++;
            if (orders) tell(races::meet, index, waiting[OF_WARP]);
            orders = false;
            release(OF_WARP);
        }
    }
    static void tell(void (*what)(const unsigned*, unsigned), unsigned index, unsigned lanes) {
        if (!races::ARE_FOUND) return;
        unsigned threads[LANES], count = 0;
        for (; lanes; lanes &= lanes - 1) threads[count++] = index * LANES + __builtin_ctz(lanes);
        what(threads, count);
    }
};

const unsigned MOST_WARPS = MOST_THREADS / LANES;
extern Warp warps[MOST_WARPS];

}  // namespace shim
#pragma GCC visibility pop
