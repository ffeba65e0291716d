/* A stand-in for NVIDIA's driver library in tests: two devices in the machine's own
 * memory, and one kernel, which adds. It keeps to the driver's function signatures, so
 * that what calls it wrongly fails here too. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int CUresult;
typedef uint64_t CUdeviceptr;

static int ready, current = -1, loaded;

static size_t limit(void) {
    const char *s = getenv("FAKE_CUDA_LIMIT");
    return s ? (size_t)strtoull(s, NULL, 10) : (size_t)40 << 30;
}

CUresult cuGetErrorString(CUresult e, const char **s) {
    *s = e == 3 ? "initialization error" : "invalid argument";
    return 0;
}
CUresult cuInit(unsigned flags) {
    if (getenv("FAKE_CUDA_BROKEN")) return 3;
    ready = 1;
    return flags ? 1 : 0;
}
CUresult cuDriverGetVersion(int *v) { *v = 13000; return 0; }
CUresult cuDeviceGetCount(int *n) { *n = ready ? 2 : 0; return ready ? 0 : 3; }
CUresult cuDeviceGet(int *d, int i) { *d = i; return i < 2 ? 0 : 1; }
CUresult cuDeviceGetName(char *name, int len, int d) {
    strncpy(name, d ? "Fake A100 (1)" : "Fake A100 (0)", len);
    return 0;
}
CUresult cuDeviceTotalMem_v2(size_t *n, int d) { *n = (size_t)40 << 30; return d < 2 ? 0 : 1; }
CUresult cuDevicePrimaryCtxRetain(void **c, int d) { *c = (void *)(intptr_t)(d + 100); return 0; }
CUresult cuDevicePrimaryCtxRelease_v2(int d) { return d == current ? 0 : 1; }
CUresult cuCtxSetCurrent(void *c) { current = (int)(intptr_t)c - 100; return current >= 0 && current < 2 ? 0 : 1; }
CUresult cuCtxSynchronize(void) { return current < 0; }
CUresult cuModuleLoadData(void **m, const void *image) {
    loaded = strstr(image, ".entry add(") != NULL && strstr(image, ".target sm_50") != NULL;
    *m = &loaded;
    return loaded ? 0 : 200;
}
CUresult cuModuleGetFunction(void **f, void *m, const char *name) {
    *f = &current;
    return m == &loaded && !strcmp(name, "add") ? 0 : 500;
}
CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t n) {
    if (n > limit()) return 2;
    *p = (CUdeviceptr)(uintptr_t)calloc(1, n < (1 << 20) ? n : 1 << 20);
    return 0;
}
CUresult cuMemFree_v2(CUdeviceptr p) { free((void *)(uintptr_t)p); return 0; }
CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t n) { memcpy((void *)(uintptr_t)to, from, n); return 0; }
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t n) { memcpy(to, (void *)(uintptr_t)from, n); return 0; }
CUresult cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, void *stream, void **params, void **extra) {
    if (f != &current || gy * gz * by * bz != 1 || shared || stream || extra) return 1;
    float *a = (float *)(uintptr_t) * (CUdeviceptr *)params[0];
    float *b = (float *)(uintptr_t) * (CUdeviceptr *)params[1];
    float *c = (float *)(uintptr_t) * (CUdeviceptr *)params[2];
    uint32_t n = *(uint32_t *)params[3];
    for (uint32_t i = 0; i < n && i < gx * bx; i++) c[i] = a[i] + b[i];
    if (getenv("FAKE_CUDA_WRONG")) c[7]++;
    return 0;
}
