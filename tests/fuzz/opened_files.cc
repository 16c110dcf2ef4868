// Functions of the C library that open or make a file, noted and handed on. A program's own functions take
// the place of a shared library's, for all other libraries, too.
#include "opened_files.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>

namespace {

thread_local dgx::fuzz::OpenedFiles* g_active = nullptr;

void note(const char* path) {
  if (g_active != nullptr) g_active->add(path);
}

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

/// The mode, which callers give only with flags that make a file.
#define DGX_MODE(flags, mode)                      \
  mode_t mode = 0;                                 \
  if (((flags) & (O_CREAT | O_TMPFILE)) != 0) {    \
    va_list more;                                  \
    va_start(more, flags);                         \
    mode = static_cast<mode_t>(va_arg(more, int)); \
    va_end(more);                                  \
  }

}  // namespace

namespace dgx::fuzz {

OpenedFiles::OpenedFiles() { g_active = this; }
OpenedFiles::~OpenedFiles() { g_active = nullptr; }

}  // namespace dgx::fuzz

extern "C" {

int open(const char* path, int flags, ...) {
  DGX_MODE(flags, mode)
  note(path);
  static const auto real = next<int (*)(const char*, int, mode_t)>("open");
  return real(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  DGX_MODE(flags, mode)
  note(path);
  static const auto real = next<int (*)(const char*, int, mode_t)>("open64");
  return real(path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  DGX_MODE(flags, mode)
  note(path);
  static const auto real = next<int (*)(int, const char*, int, mode_t)>("openat");
  return real(folder, path, flags, mode);
}
int openat64(int folder, const char* path, int flags, ...) {
  DGX_MODE(flags, mode)
  note(path);
  static const auto real = next<int (*)(int, const char*, int, mode_t)>("openat64");
  return real(folder, path, flags, mode);
}
FILE* fopen(const char* path, const char* mode) {
  note(path);
  static const auto real = next<FILE* (*)(const char*, const char*)>("fopen");
  return real(path, mode);
}
FILE* fopen64(const char* path, const char* mode) {
  note(path);
  static const auto real = next<FILE* (*)(const char*, const char*)>("fopen64");
  return real(path, mode);
}
int mkdir(const char* path, mode_t mode) {
  note(path);
  static const auto real = next<int (*)(const char*, mode_t)>("mkdir");
  return real(path, mode);
}

}  // extern "C"
