// Copies on their way: barriers that count them, and groups that a thread waits for.
#include "warp.h"

namespace shim {

namespace {

Phase* phase_at(unsigned long long* barrier) {
    return reinterpret_cast<Phase*>(barrier);
}

void end_phase(Phase* phase) {
    if (phase->left > 0 || phase->bytes != 0) return;
    phase->left = phase->arrivals;
    phase->parity ^= 1;
    races::end_phase(phase);
}

void count_sent(Phase* phase, unsigned bytes) {
    phase->bytes -= (int)bytes;
    end_phase(phase);
}

// Sixteen bytes that a thread copies ahead.
struct Copy {
    void* to;
    const void* from;
};
const unsigned MOST_COPIES = 256, MOST_GROUPS = 16, COPY_BYTES = 16;
// Of a thread: copies in the order they were asked for, and how many there were at the end of each group.
struct Copies {
    Copy waiting[MOST_COPIES];
    unsigned ends[MOST_GROUPS], groups, count;
};
Copies copies[MOST_THREADS];

}  // namespace

void prepare_phases(unsigned long long* barrier, int arrivals) {
    races::write(barrier, sizeof(*barrier));
    *phase_at(barrier) = Phase{(short)arrivals, (short)arrivals, 0, 0};
}

void arrive(unsigned long long* barrier, unsigned expected_bytes) {
    races::read(barrier, sizeof(*barrier));
    races::arrive(barrier);
    Phase* phase = phase_at(barrier);
    phase->bytes += expected_bytes;
    phase->left--;
    end_phase(phase);
}

void wait_for_phase(unsigned long long* barrier, unsigned parity) {
    races::read(barrier, sizeof(*barrier));
    phase(phase_at(barrier), parity);
}

void send(void* to, const void* from, unsigned bytes, unsigned long long* barrier) {
    races::read(from, bytes);
    races::send(to, bytes, barrier);
    memcpy(to, from, bytes);
    count_sent(phase_at(barrier), bytes);
}

// The words of `Map` in machine.rs: address, words of a row, rows, words and rows of a box.
void send_box(void* to, const unsigned long long* map, int word, int row, unsigned long long* barrier) {
    const unsigned* from = reinterpret_cast<const unsigned*>(map[0]);
    unsigned long long words = map[1], rows = map[2], box_words = map[3], box_rows = map[4];
    unsigned bytes = (unsigned)(box_words * box_rows * 4);
    races::send(to, bytes, barrier);
    char* row_to = static_cast<char*>(to);
    for (unsigned long long y = row; y < row + box_rows; y++, row_to += box_words * 4) {
        unsigned long long seen = y < rows && (unsigned)word < words ? words - word : 0;
        if (seen > box_words) seen = box_words;
        if (seen > 0) races::read(from + y * words + word, seen * 4);
        if (seen > 0) memcpy(row_to, from + y * words + word, seen * 4);
        memset(row_to + seen * 4, 0, (box_words - seen) * 4);
    }
    count_sent(phase_at(barrier), bytes);
}

// Where races are looked for, copies come as late as they may.
void copy_ahead(void* to, const void* from) {
    if (!races::ARE_FOUND) {
        memcpy(to, from, COPY_BYTES);
        return;
    }
    races::read(from, COPY_BYTES);
    races::write(to, COPY_BYTES);
    Copies& own = copies[current];
    if (own.count == MOST_COPIES) {
        fprintf(stderr, "a thread copies more than %u pieces ahead\n", MOST_COPIES);
        abort();
    }
    own.waiting[own.count++] = Copy{to, from};
}

void end_copies() {
    if (!races::ARE_FOUND) return;
    Copies& own = copies[current];
    if (own.groups == MOST_GROUPS) wait_for_copies(MOST_GROUPS - 1);
    own.ends[own.groups++] = own.count;
}

void wait_for_copies(unsigned left) {
    if (!races::ARE_FOUND) return;
    Copies& own = copies[current];
    if (own.groups <= left) return;
    unsigned ended = own.groups - left, arrived = own.ends[ended - 1];
    for (unsigned index = 0; index < arrived; index++) {
        const Copy& copy = own.waiting[index];
        races::read(copy.from, COPY_BYTES);
        races::write(copy.to, COPY_BYTES);
        memcpy(copy.to, copy.from, COPY_BYTES);
    }
    own.count -= arrived;
    own.groups = left;
    memmove(own.waiting, own.waiting + arrived, own.count * sizeof(Copy));
    for (unsigned group = 0; group < left; group++) own.ends[group] = own.ends[ended + group] - arrived;
}

void forget_copies(unsigned thread) {
    copies[thread].count = copies[thread].groups = 0;
}

}  // namespace shim
