#include "annulus/io/place.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "annulus/comm/activity.hpp"
#include "annulus/core/error.hpp"

namespace annulus::io {
namespace {

using core::ErrorKind;
using core::fail;

constexpr off_t flush_bytes = off_t(64) << 20;  // some seconds on a slow disk

std::string folder_of(const std::string& file) {
  const std::string folder = std::filesystem::path(file).parent_path().string();
  return folder.empty() ? "." : folder;
}

/// A file descriptor that closes itself.
struct Descriptor {
  Descriptor(const std::string& path, int flags) : id(open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (id < 0) fail(ErrorKind::failure, "{}: cannot be opened: {}", path, std::strerror(errno));
  }
  ~Descriptor() { close(id); }
  Descriptor(const Descriptor&) = delete;
  int id;
};

/// Writes a file's content to disk piece by piece, so that no single call takes long: what a slow disk is given at once
/// would look like a call that hangs. Not all that fsync does, and not everywhere.
void flush_in_pieces(const Descriptor& descriptor, const std::string& file) {
  struct stat found {};
  if (fstat(descriptor.id, &found) != 0) return;
  constexpr unsigned flags = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  for (off_t begin = 0; begin < found.st_size; begin += flush_bytes) {
    const comm::Blocked inside(fmt::format("the flushing of {} from byte {} on", file, begin));
    if (sync_file_range(descriptor.id, begin, flush_bytes, flags) != 0) {
      if (errno == ENOSYS || errno == EINVAL || errno == ESPIPE || errno == EOPNOTSUPP) return;
      // An error is told once: fsync would not know of it.
      fail(ErrorKind::failure, "{}: flushing failed: {}", file, std::strerror(errno));
    }
    comm::watchdog_progress();
  }
}

}  // namespace

void check_place(const std::string& file, bool overwrite) {
  const comm::Blocked inside("the check of the place of " + file);
  const std::string folder = folder_of(file);
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    const bool there = std::filesystem::exists(folder, error);
    fail(ErrorKind::failure, "{}: the output folder {} {}", file, folder, there ? "is not a folder" : "does not exist");
  }
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    fail(ErrorKind::failure, "{}: cannot write in the output folder {}: {}", file, folder, std::strerror(errno));
  }
  if (std::filesystem::is_directory(file, error)) fail(ErrorKind::failure, "{}: is a folder, expected a file", file);
  if (!overwrite && std::filesystem::exists(std::filesystem::symlink_status(file, error))) {
    fail(ErrorKind::failure,
         "{}: the output exists already; set output.overwrite: true (generate: --overwrite) or name another file",
         file);
  }
}

void check_free_space(const std::string& file, core::Index bytes) {
  const comm::Blocked inside("the question for the room that " + file + " has");
  struct statvfs system {};
  if (statvfs(folder_of(file).c_str(), &system) != 0) return;  // what cannot be asked is found when writing
  const double free = double(system.f_bavail) * double(system.f_frsize);
  if (double(bytes) > free) {
    fail(ErrorKind::failure, "{}: needs {} bytes, the file system has {:.0f} free", file, bytes, free);
  }
}

void reserve(const std::string& file, core::Index bytes) {
  const comm::Blocked inside("the reservation of room for " + file);
  const Descriptor descriptor(file, O_RDWR | O_CREAT);
  int code = ftruncate(descriptor.id, bytes) == 0 ? 0 : errno;  // checks limits; takes no room
  if (code == 0 && fallocate(descriptor.id, 0, 0, bytes) != 0) {
    // Other codes mean that this file system cannot reserve.
    if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG) code = errno;
  }
  if (code != 0) fail(ErrorKind::failure, "{}: no room for {} bytes: {}", file, bytes, std::strerror(code));
}

void extend(const std::string& file, core::Index bytes) {
  const comm::Blocked inside("the extension of " + file);
  const Descriptor descriptor(file, O_WRONLY | O_APPEND);
  const std::vector<char> zeros(std::size_t(bytes), 0);
  for (core::Index written = 0; written < bytes;) {
    const ssize_t now = write(descriptor.id, zeros.data() + written, std::size_t(bytes - written));
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) fail(ErrorKind::failure, "{}: no room for {} more bytes: {}", file, bytes, std::strerror(errno));
    written += now;
  }
}

void flush_to_disk(const std::string& file) {
  const comm::Blocked inside("the flushing of " + file);
  const Descriptor descriptor(file, O_RDONLY);
  flush_in_pieces(descriptor, file);
  if (fsync(descriptor.id) != 0) fail(ErrorKind::failure, "{}: flushing failed: {}", file, std::strerror(errno));
}

void publish(const std::string& temporary, const std::string& file, bool overwrite) {
  const comm::Blocked inside("the renaming of " + temporary);
  check_place(file, overwrite);  // a file that came meanwhile is as finished as any
  if (std::rename(temporary.c_str(), file.c_str()) != 0) {
    fail(ErrorKind::failure, "{}: renaming {} failed: {}", file, temporary, std::strerror(errno));
  }
  const Descriptor folder(folder_of(file), O_RDONLY | O_DIRECTORY);
  fsync(folder.id);  // some file systems cannot flush a folder; the file itself is safe
}

}  // namespace annulus::io
