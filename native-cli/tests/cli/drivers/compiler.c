/* NVRTC of the version MAJOR.8, which knows the architectures ARCHS and makes the same empty binary of every text. */
#include <string.h>

static const int archs[] = {ARCHS};

int nvrtcVersion(int *major, int *minor) { *major = MAJOR; *minor = 8; return 0; }
int nvrtcGetNumSupportedArchs(int *count) { *count = sizeof archs / sizeof *archs; return 0; }
int nvrtcGetSupportedArchs(int *to) { memcpy(to, archs, sizeof archs); return 0; }
const char *nvrtcGetErrorString(int code) { return "an error"; }

int nvrtcCreateProgram(void **program, const char *source, const char *name, int headers, const char *const *texts, const char *const *names) {
    *program = (void *)archs;
    return 0;
}
int nvrtcCompileProgram(void *program, int count, const char *const *options) { return 0; }
int nvrtcDestroyProgram(void **program) { return 0; }
int nvrtcGetProgramLogSize(void *program, size_t *bytes) { *bytes = 1; return 0; }
int nvrtcGetProgramLog(void *program, char *log) { *log = 0; return 0; }
int nvrtcGetCUBINSize(void *program, size_t *bytes) { *bytes = 4; return 0; }
int nvrtcGetCUBIN(void *program, char *binary) { memcpy(binary, "\177ELF", 4); return 0; }
