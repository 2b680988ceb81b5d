// See clocks.h.
#include "clocks.h"

#include <algorithm>

namespace shim {
namespace races {

Clocks clocks;

// Ticks of threads begin behind the one that tells that a thread has begun.
static const unsigned BEGUN = 1;

void Clocks::make_room(unsigned most_threads) {
    if (threads == most_threads) return;
    for (Thread& state : states) drop(state.known), drop(state.arrived);
    states.clear();
    for (Knowledge* known : unused) free(known);
    unused.clear();
    threads = most_threads;
    length = previous() + 1;
}

void Clocks::begin(unsigned block_count, unsigned threads_of_block, unsigned live_threads, bool know_previous) {
    for (Thread& state : states) drop(state.known), drop(state.arrived);
    states.assign(threads, Thread{nullptr, BEGUN + 1, nullptr, 0, know_previous});
    blocks = block_count, block_threads = threads_of_block;
    counters.clear();
    touched.assign(blocks > 1 ? blocks * length : 0, 0);
    covered = touched;
    for (unsigned block = 0; block < blocks; block++) {
        Knowledge* known = make();
        std::fill(known->at, known->at + length, 0u);
        std::fill_n(known->at + block * block_threads, live_threads, BEGUN);
        known->at[previous()] = know_previous;
        for (unsigned thread = 0; thread < block_threads; thread++) learn(states[block * block_threads + thread], known);
        drop(known);
    }
}

void Clocks::meet(const unsigned* met, unsigned count) {
    Knowledge* known = copy(states[met[0]].known);
    const Knowledge* before = states[met[0]].known;
    for (unsigned index = 1; index < count; index++) {
        const Knowledge* other = states[met[index]].known;
        if (other != before) add(known->at, other->at);
        before = other;
    }
    for (unsigned index = 0; index < count; index++) {
        Thread& state = states[met[index]];
        tick(met[index], known->at);
        learn(state, known);
    }
    drop(known);
}

void Clocks::end_reading(const unsigned* met, unsigned count) {
    static std::vector<unsigned> all;
    all.assign(threads, 0);
    const Knowledge* before = nullptr;
    for (unsigned index = 0; index < count; index++) {
        const Knowledge* known = states[met[index]].known;
        if (known != before) {
            for (unsigned thread = 0; thread < threads; thread++) all[thread] = std::max(all[thread], known->at[reader(thread)]);
        }
        before = known;
    }
    for (unsigned index = 0; index < count; index++) all[met[index]] = states[met[index]].now++;
    // Those that knew the same still do; what they knew stays until all have learnt.
    Knowledge *old = nullptr, *next = nullptr;
    for (unsigned index = 0; index < count; index++) {
        Thread& state = states[met[index]];
        if (state.known != old) {
            drop(old), drop(next);
            old = state.known, old->users++;
            next = copy(old);
            std::copy(all.begin(), all.end(), next->at + reader(0));
        }
        learn(state, next);
    }
    drop(old), drop(next);
}

void Clocks::tick(unsigned thread, unsigned* at) {
    at[thread] = at[reader(thread)] = states[thread].now++;
}

void Clocks::arrive_in_cluster(unsigned thread) {
    Thread& state = states[thread];
    drop(state.arrived);
    state.arrived = state.known;
    state.arrived->users++;
    state.arrived_now = state.now++;
}

void Clocks::meet_in_cluster(const unsigned* met, unsigned count) {
    Knowledge* known = make();
    std::fill(known->at, known->at + length, 0u);
    const Knowledge* before = nullptr;
    for (Thread& state : states) {
        if (state.arrived && state.arrived != before) add(known->at, state.arrived->at);
        before = state.arrived;
    }
    for (unsigned thread = 0; thread < threads; thread++) {
        Thread& state = states[thread];
        if (!state.arrived) continue;
        for (unsigned who : {thread, reader(thread)}) known->at[who] = std::max(known->at[who], state.arrived_now);
        drop(state.arrived);
        state.arrived = nullptr;
    }
    for (unsigned index = 0; index < count; index++) {
        Thread& state = states[met[index]];
        Knowledge* own = copy(known);
        add(own->at, state.known->at);
        learn(state, own);
        drop(own);
    }
    drop(known);
}

void Clocks::wait_for_previous(unsigned thread) {
    Thread& state = states[thread];
    state.has_waited = true;
    if (knows_previous(thread)) return;
    // Most have the knowledge that the thread before had.
    Knowledge* known = copy(state.known);
    known->at[previous()] = 1;
    learn(state, known);
    drop(known);
}

void Clocks::leave(unsigned thread) {
    if (blocks == 1) return;
    unsigned* own = covered.data() + thread / block_threads * length;
    add(own, states[thread].known->at);
    own[thread] = states[thread].now;
}

void Clocks::arrive(unsigned thread, const void* barrier) {
    Counter& counter = counters[counter_of(barrier)];
    Thread& state = states[thread];
    add(counter.gathered.data(), state.known->at);
    tick(thread, counter.gathered.data());
}

void Clocks::end_phase(const void* barrier) {
    Counter& counter = counters[counter_of(barrier)];
    counter.ended = counter.gathered;
}

void Clocks::pass(unsigned thread, const void* barrier) {
    const Counter& counter = counters[counter_of(barrier)];
    Knowledge* known = copy(states[thread].known);
    add(known->at, counter.ended.data());
    learn(states[thread], known);
    drop(known);
}

void Clocks::send(const void* barrier, unsigned* who, unsigned* clock) {
    unsigned place = counter_of(barrier);
    *who = 2 * threads + place;
    *clock = ++counters[place].sent;
    counters[place].gathered[*who] = *clock;
}

bool Clocks::touch(unsigned thread, unsigned who, unsigned clock, unsigned block) {
    touched[block * length + who] = clock;
    const unsigned* at = states[thread].known->at + block * block_threads;
    return std::any_of(at, at + block_threads, [](unsigned tick) { return tick >= BEGUN; });
}

Knowledge* Clocks::make() {
    Knowledge* known;
    if (unused.empty()) {
        known = static_cast<Knowledge*>(malloc(sizeof(Knowledge) + length * sizeof(unsigned)));
    } else {
        known = unused.back();
        unused.pop_back();
    }
    known->users = 1;
    return known;
}

Knowledge* Clocks::copy(const Knowledge* from) {
    Knowledge* known = make();
    std::copy(from->at, from->at + length, known->at);
    return known;
}

void Clocks::drop(Knowledge* known) {
    if (known && --known->users == 0) unused.push_back(known);
}

void Clocks::learn(Thread& state, Knowledge* known) {
    known->users++;
    drop(state.known);
    state.known = known;
}

void Clocks::add(unsigned* to, const unsigned* from) const {
    for (unsigned index = 0; index < length; index++) to[index] = std::max(to[index], from[index]);
}

unsigned Clocks::counter_of(const void* barrier) {
    for (unsigned place = 0; place < counters.size(); place++) {
        if (counters[place].barrier == barrier) return place;
    }
    if (counters.size() == MOST_COUNTERS) {
        fprintf(stderr, "more than %u barriers\n", MOST_COUNTERS);
        abort();
    }
    std::vector<unsigned> nothing(length, 0);
    counters.push_back(Counter{barrier, nothing, nothing, 0});
    return (unsigned)counters.size() - 1;
}

}  // namespace races
}  // namespace shim
