// Preloaded into annulus, makes one of its calls slow, hang or fail, on one rank or on all. Environment variables:
//   SLOW_CALL     which call: a name that is given to maybe() or suffers() below
//   SLOW_RANK     the rank (without a launcher: 0), or "all"
//   SLOW_SECONDS  how much longer the call takes; "stop": the process stops in the call (SIGSTOP) until it is killed
//   SLOW_NUMBER   only the call with this number (default: 1); "all": each of them, without a line on stderr
//   SLOW_PATH     for open: only paths with this ending
// fsync stands for a slow disk: it takes SLOW_SECONDS per 64 MiB of the file that sync_file_range has not flushed yet.
// locks: fcntl fails as on a file system without locks, always.
// pthread_create fails, but only for std::thread, because libraries (UCX, OpenBLAS, PMIx) start threads, too.
#undef _FORTIFY_SOURCE  // it would define some of these functions inline
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "preloaded.hpp"

namespace {

using annulus::test::variable;

bool is_our_rank() { return variable("SLOW_RANK") == "all" || annulus::test::is_rank_of("SLOW_RANK"); }

bool suffers(std::string_view call) { return variable("SLOW_CALL") == call && is_our_rank(); }

bool is_every_call() { return variable("SLOW_NUMBER") == "all"; }

/// Counts the calls that match; true if this one has the number SLOW_NUMBER.
bool now() {
  static int number = 0;
  if (is_every_call()) return true;
  const int wanted = std::atoi(variable("SLOW_NUMBER").empty() ? "1" : std::getenv("SLOW_NUMBER"));
  return ++number == wanted;
}

void suffer(double times = 1) {
  if (variable("SLOW_SECONDS") == "stop") {
    std::fprintf(stderr, "slow: stopped\n");
    raise(SIGSTOP);
    return;
  }
  if (!is_every_call()) std::fprintf(stderr, "slow: sleeps\n");
  usleep(useconds_t(1e6 * times * std::atof(std::getenv("SLOW_SECONDS"))));
}

void maybe(std::string_view call) {
  if (suffers(call) && now()) suffer();
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

constexpr off_t disk_bytes = off_t(64) << 20;  // that the disk takes in SLOW_SECONDS
off_t on_disk = 0;                             // bytes that sync_file_range has flushed
int dropped = -1;                              // file that the page cache was asked to drop, until it is read

}  // namespace

extern "C" {

int MPI_Init_thread(int* argc, char*** argv, int wanted, int* provided) {
  maybe("MPI_Init_thread");
  return PMPI_Init_thread(argc, argv, wanted, provided);
}

int MPI_Comm_split(MPI_Comm comm, int colour, int key, MPI_Comm* part) {
  maybe("MPI_Comm_split");
  return PMPI_Comm_split(comm, colour, key, part);
}

int MPI_Win_allocate(MPI_Aint bytes, int unit, MPI_Info info, MPI_Comm comm, void* base, MPI_Win* window) {
  maybe("MPI_Win_allocate");
  return PMPI_Win_allocate(bytes, unit, info, comm, base, window);
}

int MPI_Ibarrier(MPI_Comm comm, MPI_Request* request) {
  maybe("MPI_Ibarrier");
  return PMPI_Ibarrier(comm, request);
}

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = va_arg(more, mode_t);
  va_end(more);
  const std::string_view name = path, end = variable("SLOW_PATH");
  if (name.size() >= end.size() && name.substr(name.size() - end.size()) == end) maybe("open");
  return next<int(const char*, int, ...)>("open")(path, flags, mode);
}

/// "a read from disk": the first read of a file that the page cache was asked to drop takes SLOW_SECONDS longer.
int posix_fadvise(int file, off_t begin, off_t bytes, int advice) noexcept {
  if (suffers("a read from disk") && advice == POSIX_FADV_DONTNEED) dropped = file;
  return next<int(int, off_t, off_t, int)>("posix_fadvise")(file, begin, bytes, advice);
}

ssize_t pread(int file, void* to, size_t bytes, off_t offset) {
  if (file == dropped) suffer(), dropped = -1;
  return next<ssize_t(int, void*, size_t, off_t)>("pread")(file, to, bytes, offset);
}

int sync_file_range(int file, off_t begin, off_t bytes, unsigned flags) {
  if (suffers("fsync")) {
    suffer();
    on_disk += bytes;
  }
  return next<int(int, off_t, off_t, unsigned)>("sync_file_range")(file, begin, bytes, flags);
}

int fcntl(int file, int command, ...) {
  va_list more;
  va_start(more, command);
  void* const argument = va_arg(more, void*);
  va_end(more);
  const bool locks = command == F_OFD_GETLK || command == F_OFD_SETLK || command == F_OFD_SETLKW;
  if (locks && suffers("locks")) {
    errno = ENOLCK;
    return -1;
  }
  return next<int(int, int, ...)>("fcntl")(file, command, argument);
}

int fsync(int file) {
  struct stat found {};
  if (suffers("fsync") && fstat(file, &found) == 0 && found.st_size > on_disk) {
    suffer(double(found.st_size - on_disk) / double(disk_bytes));
  }
  maybe("a hanging fsync");
  on_disk = 0;
  return next<int(int)>("fsync")(file);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) noexcept {
  Dl_info found{};
  const bool is_std_thread = dladdr(reinterpret_cast<void*>(run), &found) != 0 && found.dli_fname != nullptr &&
                             std::strstr(found.dli_fname, "libstdc++") != nullptr;
  if (is_std_thread && suffers("pthread_create") && now()) return EAGAIN;
  return next<int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>("pthread_create")(thread, attributes,
                                                                                                 run, argument);
}
}
