// Writes when every kernel of a program began and ended: start, end, name, grid (three numbers) and threads, in nanoseconds.
//
// For CUDA_INJECTION64_PATH, by which the driver loads a library of the profiling interface into any program; see timeline.py.
#include <cuda.h>
#include <cupti.h>
#include <stdio.h>
#include <stdlib.h>

static FILE *out;

static void CUPTIAPI give_buffer(uint8_t **buffer, size_t *size, size_t *most_records) {
    *size = 8 << 20, *most_records = 0;
    *buffer = aligned_alloc(64, *size);
}

static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid) {
    CUpti_Activity *record = NULL;
    while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
        if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
        CUpti_ActivityKernel9 *kernel = (CUpti_ActivityKernel9 *)record;
        fprintf(out, "%llu %llu %s %d %d %d %d\n", (unsigned long long)kernel->start, (unsigned long long)kernel->end,
                kernel->name, kernel->gridX, kernel->gridY, kernel->gridZ, kernel->blockX);
    }
    fflush(out);
    free(buffer);
}

static void flush(void) {
    cuptiActivityFlushAll(1);
}

int InitializeInjection(void) {
    const char *path = getenv("TIMELINE");
    out = path ? fopen(path, "w") : NULL;
    if (!out) return 0;
    cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
    cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
    atexit(flush);
    return 1;
}
