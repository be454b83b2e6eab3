#include "annulus/store/files/file_system.hpp"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>
#include <vector>

#include "annulus/comm/activity.hpp"
#include "annulus/core/error.hpp"

namespace annulus::store {
namespace {

using core::ErrorKind;
using core::fail;

constexpr off_t flush_bytes = off_t(64) << 20;  // flushing this much takes some seconds on a slow disk

std::string folder_of(const std::string& file) {
  const std::string folder = std::filesystem::path(file).parent_path().string();
  return folder.empty() ? "." : folder;
}

/// Writes a file to disk piece by piece, because one call that flushed everything to a slow disk would look as if it
/// hung. Call fsync afterwards, because this function writes no metadata and, on some file systems, nothing at all.
void flush_in_pieces(const Descriptor& descriptor, const std::string& file) {
  struct stat found {};
  if (fstat(descriptor.id(), &found) != 0) return;
  constexpr unsigned flags = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  for (off_t begin = 0; begin < found.st_size; begin += flush_bytes) {
    const comm::BlockingScope inside(fmt::format("the flushing of {} from byte {} on", file, begin));
    if (sync_file_range(descriptor.id(), begin, flush_bytes, flags) != 0) {
      if (errno == ENOSYS || errno == EINVAL || errno == ESPIPE || errno == EOPNOTSUPP) return;
      // The system reports an error only once, so a later fsync would not report it.
      fail(ErrorKind::failure, "{}: flushing failed: {}", file, std::strerror(errno));
    }
    comm::watchdog_progress();
  }
}

}  // namespace

bool exists(const std::string& file) {
  const comm::BlockingScope inside("the search for " + file);
  std::error_code ignored;
  return std::filesystem::exists(file, ignored);
}

bool is_taken(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::symlink_status(path, ignored));
}

std::string why_too_long(const std::string& file) {
  const comm::BlockingScope inside("the check of the folder of " + file);
  // Length of the longest text that is added to a name: ".tmp." and 58 letters (temporary_name() in process_name.hpp).
  constexpr long longest_ending = 63;
  const long known = pathconf(folder_of(file).c_str(), _PC_NAME_MAX), most = (known < 0 ? NAME_MAX : known);
  const auto letters = long(std::filesystem::path(file).filename().native().size());
  if (letters + longest_ending <= most) return "";
  return fmt::format("the name has {} bytes, expected at most {}: until the file is finished it has a longer one",
                     letters, most - longest_ending);
}

void check_can_be_made(const std::string& file, bool overwrite) {
  const comm::BlockingScope inside("the check of the location of " + file);
  if (file.empty()) fail(ErrorKind::usage, "'': names no file, expected the name of a file to make");
  if (const std::string why = why_too_long(file); !why.empty()) fail(ErrorKind::failure, "{}: {}", file, why);
  const std::string folder = folder_of(file);
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    const bool there = std::filesystem::exists(folder, error);
    fail(ErrorKind::failure, "{}: the output folder {} {}", file, folder, there ? "is not a folder" : "does not exist");
  }
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    fail(ErrorKind::failure, "{}: cannot write in the output folder {}: {}", file, folder, std::strerror(errno));
  }
  struct stat there {};
  if (lstat(file.c_str(), &there) != 0) return;
  if (!S_ISREG(there.st_mode)) fail(ErrorKind::failure, "{}: is {}, expected a file", file, kind_of_file(there));
  if (!overwrite) {
    fail(ErrorKind::failure,
         "{}: the output exists already; set output.overwrite: true (generate, plan --calibrate: --overwrite) or name "
         "another file",
         file);
  }
}

void check_free_space(const std::string& file, core::Index bytes) {
  const comm::BlockingScope inside("the check of the free space for " + file);
  struct statvfs system {};
  if (statvfs(folder_of(file).c_str(), &system) != 0) return;  // if space is missing, a later write will fail
  const double free = double(system.f_bavail) * double(system.f_frsize);
  if (double(bytes) > free) {
    fail(ErrorKind::failure, "{}: needs {} bytes, the file system has {:.0f} free", file, bytes, free);
  }
}

void reserve(const Descriptor& descriptor, const std::string& name, core::Index bytes) {
  const comm::BlockingScope inside("the reservation of space for " + name);
  int code = ftruncate(descriptor.id(), bytes) == 0 ? 0 : errno;  // fails if a limit is exceeded, but reserves no space
  if (code == 0 && fallocate(descriptor.id(), 0, 0, bytes) != 0) {
    // Other error codes mean that this file system cannot reserve space.
    if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG) code = errno;
  }
  if (code != 0) fail(ErrorKind::failure, "{}: no room for {} bytes: {}", name, bytes, std::strerror(code));
}

void extend(const Descriptor& descriptor, const std::string& name, core::Index bytes) {
  const comm::BlockingScope inside("the extension of " + name);
  struct stat about {};
  int code = fstat(descriptor.id(), &about) == 0 ? 0 : errno;
  const std::vector<char> zeros(std::size_t(bytes), 0);
  if (code == 0) code = write_all(descriptor, zeros.data(), zeros.size(), about.st_size);
  if (code != 0) fail(ErrorKind::failure, "{}: no room for {} more bytes: {}", name, bytes, std::strerror(code));
}

core::Index read_bytes(const Descriptor& descriptor, void* to, core::Index count, core::Index offset) {
  constexpr core::Index call_bytes = core::Index(64) << 20;  // most bytes of one call; a second on a slow disk
  core::Index done = 0;
  while (done < count) {
    const ssize_t now = pread(descriptor.id(), static_cast<char*>(to) + done,
                              std::size_t(std::min(count - done, call_bytes)), off_t(offset + done));
    if (now < 0 && errno == EINTR) continue;
    if (now < 0) return -1;
    if (now == 0) break;
    done += now;
  }
  return done;
}

int write_all(const Descriptor& descriptor, const char* bytes, std::size_t count, core::Index offset) {
  for (std::size_t written = 0; written < count;) {
    const ssize_t now = pwrite(descriptor.id(), bytes + written, count - written, offset + off_t(written));
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) return now < 0 ? errno : EIO;
    written += std::size_t(now);
  }
  return 0;
}

void flush_folder(const std::string& file) {
  const comm::BlockingScope inside("the flushing of the folder of " + file);
  const int id = open(folder_of(file).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (id < 0) return;
  fsync(id);
  close(id);
}

void flush_to_disk(const Descriptor& descriptor, const std::string& name) {
  flush_in_pieces(descriptor, name);
  const comm::BlockingScope inside("the flushing of " + name);
  if (fsync(descriptor.id()) != 0) fail(ErrorKind::failure, "{}: flushing failed: {}", name, std::strerror(errno));
}

void flush_and_close(Descriptor& descriptor, const std::string& name) {
  flush_to_disk(descriptor, name);
  const comm::BlockingScope inside("the closing of " + name);
  const int code = descriptor.close();
  if (code != 0) fail(ErrorKind::failure, "{}: closing failed: {}", name, std::strerror(code));
}

}  // namespace annulus::store
