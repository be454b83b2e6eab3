// Preloaded into annulus, records its calls on files NAME.part, NAME.journal, NAME.jsonl and NAME.tmp.*, and can kill
// it in one of them. When a process is killed, the system keeps all that it has written, even without a flush: only the
// order of calls shows that data were flushed before the program relied on them. Environment variables:
//   RECORD_FILE  where lines "PID CALL FILE DETAIL" go: "12 write out.h5.part 4096", "12 flush out.h5.journal",
//                "12 rename out.h5.part out.h5" ("replace" if it would replace a file), "12 flush a folder",
//                "12 remove out.h5.journal", "12 cut out.h5.journal 4096" (ftruncate)
//   RECORD_KILL  number of the recorded call, from 1, in which the rank is killed (SIGKILL): a write after half of its
//                bytes, any other call before it takes effect
//   RECORD_RANK  the rank that is killed; only its calls count
//   RECORD_FULL  from this number on a rank's writes to a journal fail as on a full disk; NAME.part has got its space
//   RECORD_QUOTA from this number on a rank's writes to any of these files fail as beyond the user's quota
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "preloaded.hpp"

namespace {

using annulus::test::variable;

bool is_our_rank() { return annulus::test::is_rank_of("RECORD_RANK"); }

template <class Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

/// The file's name without its folder; empty for files that are not watched.
std::string watched(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const bool is_ours = name.ends_with(".part") || name.ends_with(".journal") || name.ends_with(".jsonl") ||
                       name.find(".tmp.") != name.npos;
  return is_ours ? std::string(name) : "";
}

std::string watched(int file) {
  char path[4096];
  const ssize_t size = readlink(("/proc/self/fd/" + std::to_string(file)).c_str(), path, sizeof path);
  return size > 0 ? watched(std::string_view(path, std::size_t(size))) : "";
}

using Write = ssize_t (*)(int, const void*, size_t);
using WriteAt = ssize_t (*)(int, const void*, size_t, off_t);

void note(const std::string& line) {
  const std::string_view file = variable("RECORD_FILE");
  if (file.empty()) return;
  const int to = open(std::string(file).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  const std::string text = std::to_string(getpid()) + " " + line + "\n";
  (void)!real<Write>("write")(to, text.data(), text.size());
  close(to);
}

/// Counts a call; true if the process must be killed in it.
bool is_last() {
  if (variable("RECORD_KILL").empty() || !is_our_rank()) return false;
  static int number = 0;
  return ++number == std::atoi(std::getenv("RECORD_KILL"));
}

void before_call() {
  if (is_last()) raise(SIGKILL);
}

/// Counts a write in `number`; true if this number is not below the value of the environment variable `name`.
bool fails(const char* name, int& number) {
  return !variable(name).empty() && ++number >= std::atoi(std::getenv(name));
}

ssize_t write_at(const char* function, int file, const void* data, size_t count, off_t offset) {
  const auto call = real<WriteAt>(function);
  const std::string name = watched(file);
  if (name.empty()) return call(file, data, count, offset);
  static int to_journal = 0, to_either = 0;
  const bool is_full = name.ends_with(".journal") && fails("RECORD_FULL", to_journal);
  if (is_full || fails("RECORD_QUOTA", to_either)) {
    errno = is_full ? ENOSPC : EDQUOT;
    return -1;
  }
  if (is_last()) {
    call(file, data, count / 2, offset);
    raise(SIGKILL);
  }
  const bool journal = name.ends_with(".journal");
  std::string text = journal ? std::string(static_cast<const char*>(data), std::min<size_t>(count, 40)) : "";
  if (text.size() > 9) text = text.substr(9, text.find('\n') - 9);  // after the checksum
  note("write " + name + " " + (journal ? text : std::to_string(count)));
  return call(file, data, count, offset);
}

int flush(const char* function, int file) {
  struct stat about {};
  const bool is_folder = fstat(file, &about) == 0 && S_ISDIR(about.st_mode);
  const std::string name = is_folder ? "a folder" : watched(file);
  if (!name.empty()) {
    before_call();
    note("flush " + name);
  }
  return real<int (*)(int)>(function)(file);
}

void note_names(const char* call, const char* from, const char* to) {
  if (watched(from).empty()) return;
  before_call();
  note(std::string(call) + " " + watched(from) + (to == nullptr ? "" : " " + std::string(strrchr(to, '/') + 1)));
}

}  // namespace

extern "C" {

ssize_t pwrite(int file, const void* data, size_t count, off_t offset) {
  return write_at("pwrite", file, data, count, offset);
}
ssize_t pwrite64(int file, const void* data, size_t count, off_t offset) {
  return write_at("pwrite64", file, data, count, offset);
}
int fsync(int file) { return flush("fsync", file); }
int fdatasync(int file) { return flush("fdatasync", file); }

int rename(const char* from, const char* to) {
  note_names("replace", from, to);
  return real<int (*)(const char*, const char*)>("rename")(from, to);
}
int renameat2(int folder, const char* from, int other, const char* to, unsigned flags) {
  note_names((flags & RENAME_NOREPLACE) != 0 ? "rename" : "replace", from, to);
  return real<int (*)(int, const char*, int, const char*, unsigned)>("renameat2")(folder, from, other, to, flags);
}
int unlink(const char* path) {
  note_names("remove", path, nullptr);
  return real<int (*)(const char*)>("unlink")(path);
}
int ftruncate(int file, off_t length) {
  if (!watched(file).empty()) {
    before_call();
    note("cut " + watched(file) + " " + std::to_string(length));
  }
  return real<int (*)(int, off_t)>("ftruncate")(file, length);
}
int ftruncate64(int file, off64_t length) { return ftruncate(file, length); }
}
