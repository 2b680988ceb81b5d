// Who knows how much of what each thread did. See races.cpp.
#pragma once

#include "warp.h"

#include <vector>

#pragma GCC visibility push(hidden)
namespace shim {
namespace races {

// Up to which tick of each clock everything is done; threads that met share one.
struct Knowledge {
    unsigned users;
    unsigned at[];
};

// What is known is told of what threads wrote, then of what they read, then of copies that barriers count, which are nobody's,
// then of the kernel before, which is done or not.
class Clocks {
public:
    unsigned threads, block_threads, blocks;

    void make_room(unsigned most_threads);
    void begin(unsigned blocks, unsigned block_threads, unsigned live_threads, bool know_previous);
    // Whether what `who` did up to a tick is done for a thread.
    bool knows(unsigned thread, unsigned who, unsigned clock) const { return states[thread].known->at[who] >= clock; }
    bool knows_previous(unsigned thread) const { return knows(thread, previous(), 1); }
    bool has_waited(unsigned thread) const { return states[thread].has_waited; }
    unsigned now(unsigned thread) const { return states[thread].now; }
    unsigned reader(unsigned thread) const { return threads + thread; }

    void meet(const unsigned* met, unsigned count);
    // The same of what they read alone.
    void end_reading(const unsigned* met, unsigned count);
    void arrive_in_cluster(unsigned thread);
    void meet_in_cluster(const unsigned* met, unsigned count);
    void wait_for_previous(unsigned thread);
    void leave(unsigned thread);

    void arrive(unsigned thread, const void* barrier);
    void end_phase(const void* barrier);
    void pass(unsigned thread, const void* barrier);
    void send(const void* barrier, unsigned* who, unsigned* clock);

    // Uses memory of another block; false where that may not have begun.
    bool touch(unsigned thread, unsigned who, unsigned clock, unsigned block);
    template <typename Use>
    void each_left_too_early(Use use) const {
        for (unsigned index = 0; blocks > 1 && index < blocks * length; index++) {
            if (touched[index] > covered[index]) use(index % length, index / length);
        }
    }

private:
    struct Thread {
        Knowledge* known;
        unsigned now;
        // What it knew when it came to the cluster's barrier, and its tick then; or null.
        Knowledge* arrived;
        unsigned arrived_now;
        bool has_waited;
    };
    // Of a barrier: what those know that arrived, the same when its last phase ended, and how often something was sent.
    struct Counter {
        const void* barrier;
        std::vector<unsigned> gathered, ended;
        unsigned sent;
    };
    static const unsigned MOST_COUNTERS = 128;

    std::vector<Thread> states;
    std::vector<Counter> counters;
    std::vector<Knowledge*> unused;
    // Of each block and clock: the last tick at which its memory was used, and what its threads knew when they left.
    std::vector<unsigned> touched, covered;
    unsigned length = 0;

    unsigned previous() const { return 2 * threads + MOST_COUNTERS; }
    // What the thread did up to now is known; what it does from here on is not.
    void tick(unsigned thread, unsigned* at);
    Knowledge* make();
    Knowledge* copy(const Knowledge* from);
    void drop(Knowledge* known);
    void learn(Thread& state, Knowledge* known);
    void add(unsigned* to, const unsigned* from) const;
    unsigned counter_of(const void* barrier);
};

extern Clocks clocks;

}  // namespace races
}  // namespace shim
#pragma GCC visibility pop
