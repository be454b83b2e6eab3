#include "annulus/store/files/file_lock.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include "annulus/comm/activity.hpp"
#include "annulus/core/error.hpp"

namespace annulus::store {
namespace {

/// Open file description locks: fcntl's own would end when any descriptor of the file is closed. 0 or the error's
/// number.
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

short type_of(ByteLock::Kind kind) { return kind == ByteLock::Kind::shared ? F_RDLCK : F_WRLCK; }

}  // namespace

bool has_locks(const Descriptor& file) {
  struct flock found {};
  return call(file.id(), F_OFD_GETLK, F_WRLCK, 0, &found) == 0;
}

ByteLock::ByteLock(const Descriptor& file, long long byte, Kind kind) : file_(file.id()), byte_(byte) {
  const comm::BlockingScope inside("the locking of a journal");
  const int code = call(file_, F_OFD_SETLKW, type_of(kind), byte);
  if (code != 0) core::fail(core::ErrorKind::failure, "locking a file failed: {}", std::strerror(code));
}

ByteLock::ByteLock(ByteLock&& other) noexcept : file_(std::exchange(other.file_, -1)), byte_(other.byte_) {}

ByteLock::~ByteLock() {
  if (file_ >= 0) call(file_, F_OFD_SETLK, F_UNLCK, byte_);
}

std::optional<ByteLock> ByteLock::without_waiting(const Descriptor& file, long long byte, Kind kind) {
  if (call(file.id(), F_OFD_SETLK, type_of(kind), byte) != 0) return std::nullopt;
  return ByteLock(file.id(), byte);
}

bool is_locked(const Descriptor& file, long long byte) {
  struct flock found {};
  return call(file.id(), F_OFD_GETLK, F_WRLCK, byte, &found) == 0 && found.l_type != F_UNLCK;
}

}  // namespace annulus::store
