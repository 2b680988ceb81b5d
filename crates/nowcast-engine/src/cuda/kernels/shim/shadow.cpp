// See shadow.h.
#include "shadow.h"

namespace shim {
namespace races {

std::vector<std::vector<Reading>> readings;
unsigned readings_in_use;

namespace {

const size_t PAGE = 4096, CELLS = PAGE / WORD, MOST_NEAR = 1024;
std::unordered_map<size_t, Cell*> pages;
// The pages used last.
struct Near {
    size_t page;
    Cell* cells;
} nears[MOST_NEAR];

}  // namespace

Cell& cell_at(size_t place) {
    size_t page = place / PAGE + 1;
    Near& near = nears[page % MOST_NEAR];
    if (near.page != page) {
        Cell*& cells = pages[page];
        if (!cells) cells = static_cast<Cell*>(calloc(CELLS, sizeof(Cell)));
        if (!cells) abort();
        near = Near{page, cells};
    }
    return near.cells[place % PAGE / WORD];
}

void forget_cells(size_t place, size_t bytes) {
    for (size_t end = place + bytes; place < end;) {
        size_t next = (place / PAGE + 1) * PAGE, here = (next < end ? next : end) - place;
        auto page = pages.find(place / PAGE + 1);
        if (page != pages.end()) memset(page->second + place % PAGE / WORD, 0, (here + WORD - 1) / WORD * sizeof(Cell));
        place += here;
    }
}

}  // namespace races
}  // namespace shim
