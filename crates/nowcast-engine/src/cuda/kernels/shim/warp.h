// A warp: which of its lanes run, and which wait where.
#pragma once

#include "shim.h"

#pragma GCC visibility push(hidden)
namespace shim {

const unsigned LANES = 32;
const unsigned ALL_LANES = 0xffffffffu;

enum Barrier { OF_WARP, OF_PRODUCT, OF_BLOCK, OF_CLUSTER, OF_FIRST_THREADS, OF_PHASE, BARRIERS };

// Multiplies what the lanes of a warp hand over.
void multiply(const Factors* const (&lanes)[LANES]);

struct Warp {
    // A bit for each lane; those that no thread stands for are done.
    unsigned ready, done, waiting[BARRIERS];
    // The first thread, in its block.
    unsigned first_thread;
    // Barriers of the warp that are over.
    unsigned turn;
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
    // Once no lane can run: lets those go that wait for each other.
    void meet() {
        if (waiting[OF_PRODUCT] == ALL_LANES) {
            multiply(factors);
            release(OF_PRODUCT);
        } else if (waiting[OF_WARP] && (waiting[OF_WARP] | done) == ALL_LANES) {
            turn++;
            release(OF_WARP);
        }
    }
};

}  // namespace shim
#pragma GCC visibility pop
