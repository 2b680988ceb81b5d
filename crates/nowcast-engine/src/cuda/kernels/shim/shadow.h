// What is known of each word of memory: who wrote it last, and who read it since.
#pragma once

#include "shim.h"
#include "warp.h"

#include <unordered_map>
#include <vector>

#pragma GCC visibility push(hidden)
namespace shim {
namespace races {

const size_t WORD = 4;

struct Reading {
    unsigned short who;
    unsigned clock;
};

// Readers of words that several threads read, of the run.
extern std::vector<std::vector<Reading>> readings;
extern unsigned readings_in_use;
inline void forget_readings() {
    readings_in_use = 0;
}

// Bits of `written` and `read` stand for bytes of the word.
struct Cell {
    unsigned write_run, write_clock, write_code;
    unsigned read_run, read_clock, read_code;
    // The first run of the launch that read it, and the last one that kept it for kernels behind.
    unsigned first_read_run, kept_run;
    unsigned short writer, reader;
    unsigned char written, read;
    bool is_at_once;

    // Stands for a reader where there are several; `read_clock` tells their place.
    static const unsigned short MANY = 0xffff;

    template <typename Use>
    void each_reader(Use use) const {
        if (reader != MANY) return use(Reading{reader, read_clock});
        for (const Reading& reading : readings[read_clock]) use(reading);
    }

    void write_down(unsigned run, unsigned who, unsigned clock, unsigned bytes, bool at_once, unsigned code) {
        bool is_same = write_run == run && writer == who;
        write_run = run, writer = (unsigned short)who, write_clock = clock, write_code = code;
        written = (unsigned char)(is_same ? written | bytes : bytes);
        is_at_once = at_once;
        read_run = 0;
    }

    template <typename Ordered>
    void read_down(unsigned run, unsigned first_run, Reading now, unsigned bytes, unsigned code, Ordered is_ordered) {
        if (first_read_run < first_run) first_read_run = run;
        read_code = code;
        if (read_run != run) {
            read_run = run, reader = now.who, read_clock = now.clock, read = (unsigned char)bytes;
            return;
        }
        read |= (unsigned char)bytes;
        if (reader != MANY && is_ordered(reader, read_clock)) {
            reader = now.who, read_clock = now.clock;
            return;
        }
        if (reader != MANY) share(Reading{reader, read_clock});
        add(now);
    }

private:
    void share(Reading before) {
        if (readings_in_use == readings.size()) readings.emplace_back();
        reader = MANY, read_clock = readings_in_use++;
        readings[read_clock].assign(1, before);
    }
    void add(Reading now) {
        std::vector<Reading>& all = readings[read_clock];
        if (all.back().who == now.who) {
            all.back().clock = now.clock;
            return;
        }
        all.push_back(now);
        if (all.size() > 4 * MOST_THREADS) keep_last(all);
    }
    // Of each reader the last reading.
    static void keep_last(std::vector<Reading>& all) {
        static unsigned last[1 << 16];
        for (const Reading& reading : all) last[reading.who] = 0;
        for (const Reading& reading : all) last[reading.who] = reading.clock > last[reading.who] ? reading.clock : last[reading.who];
        size_t kept = 0;
        for (const Reading& reading : all) {
            if (last[reading.who] == 0) continue;
            all[kept++] = Reading{reading.who, last[reading.who]};
            last[reading.who] = 0;
        }
        all.resize(kept);
    }
};

// The word's cell, wherever it is.
Cell& cell_at(size_t place);
// Nobody of the device has written or read that memory.
void forget_cells(size_t place, size_t bytes);

// Stacks, and what the shim itself remembers.
inline bool is_private(const void* address) {
    const char* place = static_cast<const char*>(address);
    size_t in_stacks = place - stacks, in_warps = place - reinterpret_cast<const char*>(warps);
    const void* own[] = {&grid_size, &block_index, &block_size, &thread, &dynamic_memory};
    if (in_stacks < MOST_THREADS * STACK || in_warps < sizeof(warps)) return true;
    for (const void* each : own) {
        if ((size_t)(place - static_cast<const char*>(each)) < sizeof(Three)) return true;
    }
    return false;
}
inline bool is_dynamic(const void* address) {
    return (size_t)(static_cast<const char*>(address) - memory) < MOST_BLOCKS * DYNAMIC_BYTES;
}

// Fixed shared memory lies where the library has what nobody initialises; code is told from its beginning on.
extern "C" char __bss_start, _end, __ehdr_start;
inline bool is_fixed(const void* address) {
    return address >= &__bss_start && address < &_end;
}
inline size_t offset_of(const void* code) {
    return code ? static_cast<const char*>(code) - &__ehdr_start : 0;
}
inline unsigned code_of(const void* code) {
    return (unsigned)offset_of(code);
}
inline const void* code_at(unsigned offset) {
    return offset ? &__ehdr_start + offset : nullptr;
}

}  // namespace races
}  // namespace shim
#pragma GCC visibility pop
