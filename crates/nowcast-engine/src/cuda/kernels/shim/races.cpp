// Finds races of kernels: accesses to the same memory, one of them a write, that nothing orders.
//
// The compiler tells every access of a kernel, as it would tell ThreadSanitizer (`-fsanitize=thread`, without its library).
// Each thread has a clock that ticks whenever others may learn what it did, and knows up to which tick of each other
// thread's clock everything is done (FastTrack, Flanagan and Freund 2009). Barriers, phases that end and the end of the
// kernel before hand such knowledge on; shuffles and products of a warp do not. Findings depend on what kernels do, not on
// whose turn it was, but only shared memory and what one launch does are looked at, and, before a thread waits for the
// kernel before, what kernels wrote that may still run then.
#include "clocks.h"
#include "shadow.h"

#include <cstdarg>
#include <set>
#include <string>

namespace shim {
namespace races {
namespace {

// What the host tells of a launch: the first run of the kernels that may still run when it begins, if it begins early.
unsigned horizon;
bool is_early;
// Blocks that run side by side make a run; runs are counted from one on.
unsigned run, first_run;
std::set<std::pair<const void*, const void*>> found;
std::string findings;
const unsigned MOST_FINDINGS = 12;

// Of each thread: whether nobody uses what it reads now.
bool reads_in_vain[MOST_THREADS];

// Where a thread was when it came to the memory.
struct Access {
    unsigned who, clock;
    const void* code;
    bool is_write, is_at_once;
};

void tell(const void* code, const void* other, const char* format, ...) {
    if (found.size() >= MOST_FINDINGS || !found.insert({code, other}).second) return;
    char text[256];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof(text), format, values);
    va_end(values);
    findings += text;
    // Where calls return to lies behind them.
    snprintf(text, sizeof(text), code ? " (code at %#zx" : " (", offset_of(code) - 1);
    findings += text;
    snprintf(text, sizeof(text), other ? " and %#zx)\n" : ")\n", offset_of(other) - 1);
    findings += text;
}

std::string name_of(unsigned who) {
    char text[80];
    if (who >= clocks.reader(clocks.threads)) {
        snprintf(text, sizeof(text), "a copy that a barrier counts");
    } else {
        who %= clocks.threads;
        unsigned block = who / clocks.block_threads;
        snprintf(text, sizeof(text), "thread %u of block %u %u %u", who % clocks.block_threads, block_index.x, block_index.y,
                 block_index.z);
        if (clocks.blocks > 1) {
            snprintf(text, sizeof(text), "thread %u of block %u in its cluster", who % clocks.block_threads, block);
        }
    }
    return text;
}

std::string place_of(const void* address) {
    char text[64];
    if (is_dynamic(address)) {
        size_t place = static_cast<const char*>(address) - memory;
        snprintf(text, sizeof(text), "byte %zu of shared memory", place % DYNAMIC_BYTES);
    } else {
        snprintf(text, sizeof(text), is_fixed(address) ? "fixed shared memory" : "global memory");
    }
    return text;
}

void tell_race(const Access& now, const char* before, unsigned who, const void* code, const void* address) {
    tell(now.code, code, "%s %s %s, which %s %s, in no order", name_of(now.who).c_str(), now.is_write ? "writes" : "reads",
         place_of(address).c_str(), name_of(who).c_str(), before);
}

// Two writes in no order of a word, which are no race if they write the same: that is seen once the second one is done.
struct TwoWrites {
    Access now;
    // The first one, of a thread of the run or of another block.
    bool is_of_run;
    unsigned who;
    const void* code;
    size_t place;
    unsigned word;
};
std::vector<TwoWrites> doubtful;

unsigned word_at(size_t place) {
    unsigned word;
    memcpy(&word, reinterpret_cast<const void*>(place / WORD * WORD), WORD);
    return word;
}

void settle_doubts() {
    for (const TwoWrites& writes : doubtful) {
        if (word_at(writes.place) == writes.word) continue;
        if (writes.is_of_run) {
            tell_race(writes.now, "writes otherwise", writes.who, writes.code, reinterpret_cast<const void*>(writes.place));
        } else {
            tell(writes.now.code, writes.code, "%s writes global memory that another block writes otherwise",
                 name_of(writes.now.who).c_str());
        }
    }
    doubtful.clear();
}

// Of global memory: what other blocks of the launch did, and kernels that may still run.
void look_beyond_run(const Cell& cell, const Access& now, size_t place) {
    const void* before = code_at(cell.write_code);
    if (cell.write_run >= first_run && cell.write_run != run && !(cell.is_at_once && now.is_at_once)) {
        if (now.is_write) {
            doubtful.push_back({now, false, cell.writer, before, place, word_at(place)});
        } else {
            tell(now.code, before, "%s reads global memory that another block writes", name_of(now.who).c_str());
        }
    }
    if (now.is_write && cell.first_read_run >= first_run && cell.first_read_run != run) {
        tell(now.code, code_at(cell.read_code), "%s writes global memory that another block reads", name_of(now.who).c_str());
    }
    if (!is_early || clocks.knows_previous(current)) return;
    if (now.is_write) {
        tell(now.code, nullptr, "%s writes global memory before it waits for the kernel before", name_of(now.who).c_str());
    } else if (cell.write_run >= horizon && cell.write_run < first_run) {
        tell(now.code, before, "%s reads, before it waits, global memory that a kernel writes which may still run",
             name_of(now.who).c_str());
    }
}

void look_at(Cell& cell, unsigned bytes, const Access& now, bool is_global, size_t place) {
    const void* address = reinterpret_cast<const void*>(place);
    auto is_ordered = [](unsigned who, unsigned clock) { 
        return who == current || who == clocks.reader(current) || clocks.knows(current, who, clock);
    };
    if (is_global) look_beyond_run(cell, now, place);
    bool is_atomic = cell.is_at_once && now.is_at_once;
    if (cell.write_run == run && cell.written & bytes && !is_atomic && !is_ordered(cell.writer, cell.write_clock)) {
        if (now.is_write) {
            doubtful.push_back({now, true, cell.writer, code_at(cell.write_code), place, word_at(place)});
        } else if (cell.kept_run != run) {
            tell_race(now, "writes", cell.writer, code_at(cell.write_code), address);
        }
    }
    if (now.is_write) {
        if (cell.read_run == run && cell.read & bytes && cell.kept_run != run) {
            cell.each_reader([&](const Reading& reading) {
                if (is_ordered(reading.who, reading.clock)) return;
                tell_race(now, "reads", reading.who, code_at(cell.read_code), address);
            });
        }
        cell.write_down(run, now.who, now.clock, bytes, now.is_at_once, code_of(now.code));
    } else {
        cell.read_down(run, first_run, {(unsigned short)now.who, now.clock}, bytes, code_of(now.code), is_ordered);
    }
}

void look(const void* address, size_t size, const Access& now) {
    if (is_private(address) || (reads_in_vain[current] && !now.is_write)) return;
    if (!doubtful.empty()) settle_doubts();
    bool is_global = true;
    if (is_dynamic(address)) {
        is_global = false;
        unsigned block = (static_cast<const char*>(address) - memory) / DYNAMIC_BYTES;
        if (block != current / clocks.block_threads && !clocks.touch(current, now.who, now.clock, block)) {
            tell(now.code, nullptr, "%s uses shared memory of a block that may not have begun", name_of(now.who).c_str());
        }
    } else if (is_fixed(address)) {
        is_global = false;
    }
    size_t place = reinterpret_cast<size_t>(address), end = place + size;
    while (place < end) {
        size_t in_word = place % WORD, here = WORD - in_word < end - place ? WORD - in_word : end - place;
        look_at(cell_at(place), ((1u << here) - 1) << in_word, now, is_global, place);
        place += here;
    }
}

void look_by_thread(const void* address, size_t size, bool is_write, bool is_at_once, const void* code) {
    unsigned who = is_write ? current : clocks.reader(current);
    look(address, size, Access{who, clocks.now(current), code, is_write, is_at_once});
}

}  // namespace

void begin_launch(unsigned most_threads) {
    clocks.make_room(most_threads);
    first_run = run + 1;
}

void begin_blocks(unsigned blocks, unsigned block_threads, unsigned live_threads) {
    run++;
    forget_readings();
    clocks.begin(blocks, block_threads, live_threads, !is_early);
}

void end_blocks() {
    settle_doubts();
    clocks.each_left_too_early([](unsigned who, unsigned block) {
        tell(nullptr, nullptr, "block %u of a cluster may have left while %s uses its shared memory", block, name_of(who).c_str());
    });
}

void leave() {
    if (!clocks.has_waited(current)) {
        tell(nullptr, nullptr, "%s ends without having waited for the kernel before", name_of(current).c_str());
    }
    reads_in_vain[current] = false;
    clocks.leave(current);
}

void meet(const unsigned* threads, unsigned count) {
    clocks.meet(threads, count);
}

void end_reading(const unsigned* threads, unsigned count) {
    clocks.end_reading(threads, count);
}

void arrive_in_cluster() {
    clocks.arrive_in_cluster(current);
}

void meet_in_cluster(const unsigned* threads, unsigned count) {
    clocks.meet_in_cluster(threads, count);
}

void wait_for_previous() {
    clocks.wait_for_previous(current);
}

void read(const void* from, size_t bytes) {
    look_by_thread(from, bytes, false, false, __builtin_return_address(0));
}

void write(void* to, size_t bytes) {
    look_by_thread(to, bytes, true, false, __builtin_return_address(0));
}

void change_at_once(void* place, size_t bytes) {
    look_by_thread(place, bytes, true, true, __builtin_return_address(0));
}

void keep_for_later(const void* place, size_t bytes) {
    size_t first = reinterpret_cast<size_t>(place);
    for (size_t next = first; next < first + bytes; next += WORD) cell_at(next).kept_run = run;
}

void use_reads(bool are_used) {
    reads_in_vain[current] = !are_used;
}

void arrive(const void* barrier) {
    clocks.arrive(current, barrier);
}

void pass(const void* barrier) {
    clocks.pass(current, barrier);
}

void end_phase(const void* barrier) {
    clocks.end_phase(barrier);
}

void send(void* to, size_t bytes, const void* barrier) {
    unsigned who = 0, clock = 0;
    clocks.send(barrier, &who, &clock);
    const void* code = __builtin_return_address(0);
    look(barrier, sizeof(unsigned long long), Access{who, clock, code, false, false});
    look(to, bytes, Access{who, clock, code, true, false});
}

}  // namespace races
}  // namespace shim

using shim::races::look_by_thread;

// What the compiler calls.
#define SIZED(size)                                                                                                    \
    void __tsan_read##size(void* place) { look_by_thread(place, size, false, false, __builtin_return_address(0)); }   \
    void __tsan_write##size(void* place) { look_by_thread(place, size, true, false, __builtin_return_address(0)); }
#define UNALIGNED(size)                                                                                                \
    void __tsan_unaligned_read##size(void* place) {                                                                    \
        look_by_thread(place, size, false, false, __builtin_return_address(0));                                       \
    }                                                                                                                  \
    void __tsan_unaligned_write##size(void* place) {                                                                   \
        look_by_thread(place, size, true, false, __builtin_return_address(0));                                        \
    }
#pragma GCC visibility push(hidden)
extern "C" {
SIZED(1) SIZED(2) SIZED(4) SIZED(8) SIZED(16)
UNALIGNED(2) UNALIGNED(4) UNALIGNED(8) UNALIGNED(16)
void __tsan_read_range(void* place, size_t size) {
    look_by_thread(place, size, false, false, __builtin_return_address(0));
}
void __tsan_write_range(void* place, size_t size) {
    look_by_thread(place, size, true, false, __builtin_return_address(0));
}
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
}
#pragma GCC visibility pop

// What the host calls: before a launch, whose first run is returned; for what was found since; and where it writes itself.
extern "C" unsigned races_begin(bool starts_early, unsigned first_that_may_run) {
    using namespace shim::races;
    is_early = starts_early;
    horizon = first_that_may_run;
    return run + 1;
}

extern "C" const char* races_found() {
    using namespace shim::races;
    static std::string told;
    told.swap(findings);
    findings.clear();
    found.clear();
    return told.c_str();
}

extern "C" void races_forget(unsigned long long address, unsigned long long bytes) {
    shim::races::forget_cells(address, bytes);
}
