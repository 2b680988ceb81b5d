// What threads do to memory and how they wait for each other, told to a detector of races where one is built in: with
// `NOWCAST_RACES`. See races.cpp.
#pragma once

#include <cstddef>

#pragma GCC visibility push(hidden)
namespace shim {
namespace races {

#ifdef NOWCAST_RACES
const bool ARE_FOUND = true;

// A launch; then blocks that run side by side, with so many threads each, a multiple of a warp's.
void begin_launch(unsigned most_threads);
void begin_blocks(unsigned blocks, unsigned block_threads, unsigned live_threads);
void end_blocks();
// The thread that runs is done.
void leave();
// These threads have come to a barrier; what they did before it is done for all of them.
void meet(const unsigned* threads, unsigned count);
// The same in a cluster: what they did before they arrived.
void arrive_in_cluster();
void meet_in_cluster(const unsigned* threads, unsigned count);
// These threads multiply together what they have read, so that reading is over for all of them.
void end_reading(const unsigned* threads, unsigned count);
// What the kernel before did is done.
void wait_for_previous();

// A piece of memory that the thread uses now, whose accesses are not instrumented.
void read(const void* from, size_t bytes);
void write(void* to, size_t bytes);
void change_at_once(void* place, size_t bytes);
// What is written there is for kernels behind; what others of this run read there meanwhile, nobody uses.
void keep_for_later(const void* place, size_t bytes);
// Whether what the thread reads from here on is used.
void use_reads(bool are_used);
// Of a barrier for copies: its thread arrives, passes, ends the phase, or has so many bytes sent that the barrier counts.
void arrive(const void* barrier);
void pass(const void* barrier);
void end_phase(const void* barrier);
void send(void* to, size_t bytes, const void* barrier);
#else
const bool ARE_FOUND = false;

inline void begin_launch(unsigned) {}
inline void begin_blocks(unsigned, unsigned, unsigned) {}
inline void end_blocks() {}
inline void leave() {}
inline void meet(const unsigned*, unsigned) {}
inline void arrive_in_cluster() {}
inline void meet_in_cluster(const unsigned*, unsigned) {}
inline void end_reading(const unsigned*, unsigned) {}
inline void wait_for_previous() {}
inline void read(const void*, size_t) {}
inline void write(void*, size_t) {}
inline void change_at_once(void*, size_t) {}
inline void keep_for_later(const void*, size_t) {}
inline void use_reads(bool) {}
inline void arrive(const void*) {}
inline void pass(const void*) {}
inline void end_phase(const void*) {}
inline void send(void*, size_t, const void*) {}
#endif

}  // namespace races
}  // namespace shim
#pragma GCC visibility pop
