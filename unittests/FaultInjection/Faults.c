/*===- Faults.c - File operations that fail or kill -------------------------===
 *
 * Part of the Optimus project, under the Apache License v2.0 with LLVM
 * Exceptions. See LICENSE for licence information.
 * SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===----------------------------------------------------------------------===
 *
 * A library to preload (LD_PRELOAD) into a tool that is under test. It counts
 * the file operations below a folder and makes one of them go wrong:
 *
 *   OPTIMUS_FAULTS_UNDER    the folder, without symbolic links
 *   OPTIMUS_FAULTS_PROGRAM  the program's name; its children are left alone
 *   OPTIMUS_FAULTS_AT       which operation, from 1; 0: none
 *   OPTIMUS_FAULTS_DO       kill: the process gets SIGKILL before the operation,
 *                           in the midst of it if it is a write
 *                           EIO: it fails, later ones do not
 *                           ENOSPC: it and all later ones that need space fail,
 *                           as on a full disk
 *   OPTIMUS_FAULTS_LOG      a file elsewhere that lists the operations
 *
 *===----------------------------------------------------------------------===*/

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum Mode { None, Kill, Eio, Enospc };
/* What an operation needs. */
enum Need { Nothing, Space };

static enum Mode mode;
static long at;
static atomic_long count;
static _Thread_local long mine; /* the number of this thread's last operation */
static char under[PATH_MAX];
static size_t under_length;
static int log_file = -1;
static atomic_bool isOurs[4096]; /* by descriptor: opened below the folder */

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void start(void) {
  const char *folder = getenv("OPTIMUS_FAULTS_UNDER");
  const char *program = getenv("OPTIMUS_FAULTS_PROGRAM");
  const char *action = getenv("OPTIMUS_FAULTS_DO");
  const char *number = getenv("OPTIMUS_FAULTS_AT");
  const char *log = getenv("OPTIMUS_FAULTS_LOG");
  if (!folder || !program || strcmp(program, program_invocation_short_name))
    return;
  under_length = strlen(folder);
  if (under_length + 1 >= sizeof(under))
    abort();
  memcpy(under, folder, under_length + 1);
  at = number ? atol(number) : 0;
  if (action)
    mode = !strcmp(action, "kill")     ? Kill
           : !strcmp(action, "EIO")    ? Eio
           : !strcmp(action, "ENOSPC") ? Enospc
                                       : None;
  if (log) {
    int file = REAL(open)(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    log_file = fcntl(file, F_DUPFD_CLOEXEC, 1000);
    REAL(close)(file);
  }
}

static int is_below(const char *path) {
  if (!under_length || !path)
    return 0;
  char whole[2 * PATH_MAX];
  if (path[0] != '/') {
    if (!getcwd(whole, PATH_MAX))
      return 0;
    strcat(whole, "/");
    strncat(whole, path, PATH_MAX - 1);
    path = whole;
  }
  return !strncmp(path, under, under_length) &&
         (path[under_length] == '/' || !path[under_length]);
}

static int is_descriptor_ours(int descriptor) {
  return descriptor >= 0 && descriptor < 4096 && isOurs[descriptor];
}

/* Counts an operation. Returns the errno with which it is to fail, or 0. */
static int next(const char *what, const char *name, enum Need need, int fails) {
  int error = errno;
  long number = mine = ++count;
  if (log_file >= 0) {
    char line[PATH_MAX + 64];
    int length =
        snprintf(line, sizeof(line), "%ld %s %s\n", number, what, name);
    if (REAL(write)(log_file, line, (size_t)length) != length)
      abort();
  }
  errno = error;
  if (!at || number < at)
    return 0;
  if (mode == Kill && number == at && strcmp(what, "write"))
    raise(SIGKILL);
  if (mode == Eio && number == at && fails)
    return EIO;
  if (mode == Enospc && need == Space && fails)
    return ENOSPC;
  return 0;
}

#define FAIL_IF(error, result)                                                 \
  do {                                                                         \
    int wrong = (error);                                                       \
    if (wrong) {                                                               \
      errno = wrong;                                                           \
      return result;                                                           \
    }                                                                          \
  } while (0)

static int note(int descriptor) {
  if (descriptor >= 0 && descriptor < 4096)
    isOurs[descriptor] = 1;
  return descriptor;
}

static enum Need need_of(int flags) {
  return flags & O_CREAT ? Space : Nothing;
}

#define MODE_OF(flags)                                                         \
  mode_t mode_argument = 0;                                                    \
  if ((flags) & (O_CREAT | O_TMPFILE)) {                                       \
    va_list list;                                                              \
    va_start(list, flags);                                                     \
    mode_argument = va_arg(list, mode_t);                                      \
    va_end(list);                                                              \
  }

#define OPEN(name)                                                             \
  int name(const char *path, int flags, ...) {                                 \
    MODE_OF(flags)                                                             \
    if (!is_below(path))                                                       \
      return REAL(name)(path, flags, mode_argument);                           \
    FAIL_IF(next("open", path, need_of(flags), 1), -1);                        \
    return note(REAL(name)(path, flags, mode_argument));                       \
  }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                           \
  int name(int folder, const char *path, int flags, ...) {                     \
    MODE_OF(flags)                                                             \
    if (!is_below(path))                                                       \
      return REAL(name)(folder, path, flags, mode_argument);                   \
    FAIL_IF(next("open", path, need_of(flags), 1), -1);                        \
    return note(REAL(name)(folder, path, flags, mode_argument));               \
  }
OPENAT(openat)
OPENAT(openat64)

#define FOPEN(name)                                                            \
  FILE *name(const char *path, const char *how) {                              \
    if (!is_below(path))                                                       \
      return REAL(name)(path, how);                                            \
    FAIL_IF(next("open", path, how[0] == 'r' ? Nothing : Space, 1), NULL);     \
    FILE *file = REAL(name)(path, how);                                        \
    if (file)                                                                  \
      note(fileno(file));                                                      \
    return file;                                                               \
  }
FOPEN(fopen)
FOPEN(fopen64)

/* A write that goes wrong has got half way. */
static ssize_t half(int descriptor, const void *data, size_t bytes) {
  return REAL(write)(descriptor, data, bytes / 2);
}

static int isKilled(void) { return mode == Kill && at && mine == at; }

static char *name_of(int descriptor, char *buffer) {
  char link[64];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
  ssize_t length = readlink(link, buffer, PATH_MAX - 1);
  buffer[length < 0 ? 0 : length] = '\0';
  return buffer;
}

ssize_t write(int descriptor, const void *data, size_t bytes) {
  if (!is_descriptor_ours(descriptor))
    return REAL(write)(descriptor, data, bytes);
  char buffer[PATH_MAX];
  int error = next("write", name_of(descriptor, buffer), Space, 1);
  if (isKilled()) {
    half(descriptor, data, bytes);
    raise(SIGKILL);
  }
  /* The disk fills: a short count first, the error with the next call. */
  if (error == ENOSPC && mine == at && bytes > 1)
    return half(descriptor, data, bytes);
  FAIL_IF(error, -1);
  return REAL(write)(descriptor, data, bytes);
}

ssize_t writev(int descriptor, const struct iovec *pieces, int number) {
  if (!is_descriptor_ours(descriptor))
    return REAL(writev)(descriptor, pieces, number);
  char buffer[PATH_MAX];
  int error = next("write", name_of(descriptor, buffer), Space, 1);
  if (isKilled()) {
    half(descriptor, pieces[0].iov_base, pieces[0].iov_len);
    raise(SIGKILL);
  }
  FAIL_IF(error, -1);
  return REAL(writev)(descriptor, pieces, number);
}

#define PWRITE(name, offset_type)                                              \
  ssize_t name(int descriptor, const void *data, size_t bytes,                 \
               offset_type offset) {                                           \
    if (!is_descriptor_ours(descriptor))                                       \
      return REAL(name)(descriptor, data, bytes, offset);                      \
    char buffer[PATH_MAX];                                                     \
    int error = next("write", name_of(descriptor, buffer), Space, 1);          \
    if (isKilled()) {                                                          \
      REAL(name)(descriptor, data, bytes / 2, offset);                         \
      raise(SIGKILL);                                                          \
    }                                                                          \
    FAIL_IF(error, -1);                                                        \
    return REAL(name)(descriptor, data, bytes, offset);                        \
  }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

#define OF_DESCRIPTOR(name, need, fails, parameters, arguments)                \
  int name parameters {                                                        \
    if (!is_descriptor_ours(descriptor))                                       \
      return REAL(name) arguments;                                             \
    char buffer[PATH_MAX];                                                     \
    FAIL_IF(next(#name, name_of(descriptor, buffer), need, fails), -1);        \
    return REAL(name) arguments;                                               \
  }
OF_DESCRIPTOR(fsync, Nothing, 1, (int descriptor), (descriptor))
OF_DESCRIPTOR(fdatasync, Nothing, 1, (int descriptor), (descriptor))
OF_DESCRIPTOR(ftruncate, Nothing, 1, (int descriptor, off_t size),
              (descriptor, size))
OF_DESCRIPTOR(ftruncate64, Nothing, 1, (int descriptor, off64_t size),
              (descriptor, size))

#define FALLOCATE(name, offset_type)                                           \
  int name(int descriptor, offset_type begin, offset_type size) {              \
    if (is_descriptor_ours(descriptor)) {                                      \
      char buffer[PATH_MAX];                                                   \
      int error = next(#name, name_of(descriptor, buffer), Space, 1);          \
      if (error)                                                               \
        return error;                                                          \
    }                                                                          \
    return REAL(name)(descriptor, begin, size);                                \
  }
FALLOCATE(posix_fallocate, off_t)
FALLOCATE(posix_fallocate64, off64_t)

/* Closing may report what a write did not. The descriptor is gone. */
int close(int descriptor) {
  if (!is_descriptor_ours(descriptor))
    return REAL(close)(descriptor);
  isOurs[descriptor] = 0;
  char buffer[PATH_MAX];
  int writes = (fcntl(descriptor, F_GETFL) & O_ACCMODE) != O_RDONLY;
  int error = next("close", name_of(descriptor, buffer), Nothing, writes);
  int result = REAL(close)(descriptor);
  FAIL_IF(error, -1);
  return result;
}

#define OF_TWO_PATHS(name, parameters, arguments)                              \
  int name parameters {                                                        \
    if (is_below(from) || is_below(to))                                        \
      FAIL_IF(next(#name, to, Nothing, 1), -1);                                \
    return REAL(name) arguments;                                               \
  }
OF_TWO_PATHS(rename, (const char *from, const char *to), (from, to))
OF_TWO_PATHS(renameat,
             (int folder, const char *from, int other, const char *to),
             (folder, from, other, to))
OF_TWO_PATHS(renameat2,
             (int folder, const char *from, int other, const char *to,
              unsigned flags),
             (folder, from, other, to, flags))
OF_TWO_PATHS(link, (const char *from, const char *to), (from, to))

int mkdir(const char *path, mode_t permissions) {
  if (is_below(path))
    FAIL_IF(next("mkdir", path, Space, 1), -1);
  return REAL(mkdir)(path, permissions);
}

char *mkdtemp(char *pattern) {
  if (is_below(pattern))
    FAIL_IF(next("mkdtemp", pattern, Space, 1), NULL);
  return REAL(mkdtemp)(pattern);
}

/* What cannot be removed stays: these never fail. */
#define REMOVAL(name)                                                          \
  int name(const char *path) {                                                 \
    if (is_below(path))                                                        \
      next(#name, path, Nothing, 0);                                           \
    return REAL(name)(path);                                                   \
  }
REMOVAL(unlink)
REMOVAL(rmdir)
REMOVAL(remove)
