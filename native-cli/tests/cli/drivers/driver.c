/* The CUDA driver as far as a kernel is loaded, with host memory for the device's.
 *
 * The environment says what it answers: DRIVER_START, DRIVER_OPEN, DRIVER_MEMORY and DRIVER_LOAD are the results of cuInit, of retaining a
 * context, of allocating, and of loading a kernel; DRIVER_CUDA is its version, DRIVER_CAPABILITY that of its devices, DRIVER_NAMES their
 * names, with semicolons between them. Built with WITHOUT_MEMORY it lacks the calls for memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int number(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}

static const char *names(void) {
    const char *text = getenv("DRIVER_NAMES");
    return text ? text : "Imaginary GPU";
}

int cuInit(unsigned flags) { return number("DRIVER_START", 0); }
int cuDriverGetVersion(int *version) { *version = number("DRIVER_CUDA", 12080); return 0; }

int cuGetErrorName(int code, const char **name) {
    *name = code < 900 ? "SOME_ERROR" : NULL;
    return code < 900 ? 0 : 1;
}
int cuGetErrorString(int code, const char **text) { return cuGetErrorName(code, text); }

int cuDeviceGetCount(int *count) {
    *count = 1;
    for (const char *at = names(); *at; at++) *count += *at == ';';
    return 0;
}
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetName(char *name, int length, int device) {
    const char *at = names();
    for (int skip = device; skip; at++) skip -= *at == ';';
    snprintf(name, length, "%.*s", (int)strcspn(at, ";"), at);
    return 0;
}
int cuDeviceGetUuid_v2(unsigned char *uuid, int device) { memset(uuid, 0xa0 + device, 16); return 0; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = (size_t)1 << 33; return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    int capability = number("DRIVER_CAPABILITY", 80);
    switch (attribute) {
    case 1: case 2: case 3: case 4: *value = 1024; break; /* threads of a block */
    case 5: case 6: case 7: *value = 65535; break;        /* blocks of a grid */
    case 10: *value = 32; break;                          /* threads of a warp */
    case 16: *value = 8; break;                           /* multiprocessors */
    case 18: case 34: case 50: *value = 0; break;         /* integrated, slot and domain of the bus */
    case 33: *value = 0x65; break;                        /* its number */
    case 75: *value = capability / 10; break;
    case 76: *value = capability % 10; break;
    case 97: *value = 98304; break;                       /* shared memory of a block */
    default: *value = 1;
    }
    return 0;
}

int cuDevicePrimaryCtxRetain(void **context, int device) { *context = &names; return number("DRIVER_OPEN", 0); }
int cuDevicePrimaryCtxRelease_v2(int device) { return 0; }
int cuCtxGetCurrent(void **context) { *context = &names; return 0; }
int cuCtxSetCurrent(void *context) { return 0; }
int cuCtxSynchronize(void) { return 0; }

int cuStreamCreate(void **stream, unsigned flags) { *stream = &names; return 0; }
int cuStreamDestroy_v2(void *stream) { return 0; }
int cuStreamSynchronize(void *stream) { return 0; }
int cuStreamWaitEvent(void *stream, void *event, unsigned flags) { return 0; }
int cuEventCreate(void **event, unsigned flags) { *event = &names; return 0; }
int cuEventDestroy_v2(void *event) { return 0; }
int cuEventRecord(void *event, void *stream) { return 0; }
int cuEventSynchronize(void *event) { return 0; }
int cuEventElapsedTime_v2(float *milliseconds, void *begin, void *end) { *milliseconds = 0.001f; return 0; }

#ifndef WITHOUT_MEMORY
int cuMemAlloc_v2(unsigned long long *pointer, size_t bytes) {
    *pointer = (size_t)malloc(bytes);
    return number("DRIVER_MEMORY", 0);
}
int cuMemFree_v2(unsigned long long pointer) { free((void *)(size_t)pointer); return 0; }
#endif
int cuMemGetInfo_v2(size_t *free, size_t *total) { *free = *total = (size_t)1 << 33; return 0; }
int cuMemsetD8Async(unsigned long long to, unsigned char value, size_t bytes, void *stream) {
    memset((void *)(size_t)to, value, bytes);
    return 0;
}

int cuModuleLoadData(void **module, const void *image) { return number("DRIVER_LOAD", 209); }
