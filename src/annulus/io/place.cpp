#include "annulus/io/place.hpp"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "annulus/core/error.hpp"

namespace annulus::io {
namespace {

using core::ErrorKind;
using core::fail;

std::string folder_of(const std::string& file) {
  const std::string folder = std::filesystem::path(file).parent_path().string();
  return folder.empty() ? "." : folder;
}

/// A file descriptor that closes itself.
struct Descriptor {
  Descriptor(const std::string& path, int flags) : id(open(path.c_str(), flags | O_CLOEXEC)) {
    if (id < 0) fail(ErrorKind::failure, "{}: cannot be opened: {}", path, std::strerror(errno));
  }
  ~Descriptor() { close(id); }
  Descriptor(const Descriptor&) = delete;
  int id;
};

}  // namespace

void check_place(const std::string& file, bool overwrite) {
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
    fail(ErrorKind::failure, "{}: the output exists already; allow to overwrite it, or choose another name", file);
  }
}

void check_free_space(const std::string& file, core::Index bytes) {
  struct statvfs system {};
  if (statvfs(folder_of(file).c_str(), &system) != 0) return;  // what cannot be asked is found when writing
  const double free = double(system.f_bavail) * double(system.f_frsize);
  if (double(bytes) > free) {
    fail(ErrorKind::failure, "{}: needs {} bytes, the file system has {:.0f} free", file, bytes, free);
  }
}

void reserve(const std::string& file, core::Index bytes) {
  const Descriptor descriptor(file, O_RDWR);
  if (bytes == 0 || fallocate(descriptor.id, 0, 0, bytes) == 0) return;
  // Only these mean "no room"; other codes mean that this file system does not reserve.
  if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG) {
    fail(ErrorKind::failure, "{}: no room for {} bytes: {}", file, bytes, std::strerror(errno));
  }
}

void flush_to_disk(const std::string& file) {
  const Descriptor descriptor(file, O_RDONLY);
  if (fsync(descriptor.id) != 0) fail(ErrorKind::failure, "{}: flushing failed: {}", file, std::strerror(errno));
}

void publish(const std::string& temporary, const std::string& file, bool overwrite) {
  check_place(file, overwrite);  // a file that came meanwhile is as finished as any
  if (std::rename(temporary.c_str(), file.c_str()) != 0) {
    fail(ErrorKind::failure, "{}: renaming {} failed: {}", file, temporary, std::strerror(errno));
  }
  const Descriptor folder(folder_of(file), O_RDONLY | O_DIRECTORY);
  fsync(folder.id);  // some file systems cannot flush a folder; the file itself is safe
}

}  // namespace annulus::io
