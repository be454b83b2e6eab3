#include "annulus/store/files/descriptor.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "annulus/comm/activity.hpp"
#include "annulus/core/error.hpp"

namespace annulus::store {
namespace {

/// Calls fcntl for a lock of one byte. Uses open file description locks, because a normal lock of fcntl ends as soon as
/// the process closes any descriptor of the file. Returns 0 or the error's number.
int call(int file, int command, short kind, long long byte, struct flock* found = nullptr) {
  struct flock lock {};
  lock.l_type = kind;
  lock.l_whence = SEEK_SET;
  lock.l_start = off_t(byte);
  lock.l_len = 1;
  int result = 0;
  do {
    result = fcntl(file, command, &lock);
  } while (result != 0 && errno == EINTR);
  if (found != nullptr) *found = lock;
  return result == 0 ? 0 : errno;
}

}  // namespace

const char* kind_of_file(const struct stat& about) {
  if (S_ISDIR(about.st_mode)) return "a folder";
  if (S_ISFIFO(about.st_mode)) return "a FIFO";
  if (S_ISSOCK(about.st_mode)) return "a socket";
  return S_ISCHR(about.st_mode) || S_ISBLK(about.st_mode) ? "a device" : "no regular file";
}

Descriptor::Descriptor(const std::string& path, int flags, mode_t mode)
    : id_(open(path.c_str(), flags | O_CLOEXEC, mode)) {
  if (id_ >= 0) return;
  const int code = errno;
  const bool is_link = code == ELOOP && (flags & O_NOFOLLOW) != 0, makes = (flags & O_CREAT) != 0;
  std::error_code ignored;
  const bool has_folder = std::filesystem::is_directory(std::filesystem::path(path).parent_path(), ignored);
  core::fail(core::ErrorKind::failure, "{}: cannot be {}: {}{}", path, makes ? "made" : "opened",
             is_link ? "it is a link, and links are not followed here" : std::strerror(code),
             makes && code == ENOENT && has_folder ? ", though its folder exists: no file can be made in it" : "");
}

Descriptor::~Descriptor() { close(); }

int Descriptor::close() {
  const int id = std::exchange(id_, -1);
  return id < 0 || ::close(id) == 0 ? 0 : errno;
}

Descriptor::Descriptor(Descriptor&& other) noexcept : id_(std::exchange(other.id_, -1)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(id_, other.id_);
  return *this;
}

core::FileIdentity Descriptor::identity() const {
  struct stat about {};
  if (fstat(id_, &about) != 0) return {};
  return {about.st_dev, about.st_ino};
}

bool Descriptor::is_named(const std::string& path) const {
  struct stat about {};
  return lstat(path.c_str(), &about) == 0 && core::FileIdentity{about.st_dev, about.st_ino} == identity();
}

bool has_locks(const Descriptor& file) {
  struct flock found {};
  return call(file.id(), F_OFD_GETLK, F_WRLCK, 0, &found) == 0;
}

ByteLock::ByteLock(const Descriptor& file, long long byte) : file_(file.id()), byte_(byte) {
  const comm::BlockingScope inside("the locking of a journal");
  const int code = call(file_, F_OFD_SETLKW, F_WRLCK, byte);
  if (code == 0) return;
  std::error_code ignored;
  const std::string name = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(file_), ignored).string();
  core::fail(core::ErrorKind::failure, "{}: cannot be locked: {}", name, std::strerror(code));
}

ByteLock::ByteLock(ByteLock&& other) noexcept : file_(std::exchange(other.file_, -1)), byte_(other.byte_) {}

ByteLock::~ByteLock() {
  if (file_ >= 0) call(file_, F_OFD_SETLK, F_UNLCK, byte_);
}

std::optional<ByteLock> ByteLock::without_waiting(const Descriptor& file, long long byte) {
  if (call(file.id(), F_OFD_SETLK, F_WRLCK, byte) != 0) return std::nullopt;
  return ByteLock(file.id(), byte);
}

bool is_locked(const Descriptor& file, long long byte) {
  struct flock found {};
  return call(file.id(), F_OFD_GETLK, F_WRLCK, byte, &found) == 0 && found.l_type != F_UNLCK;
}

}  // namespace annulus::store
