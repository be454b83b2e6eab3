#include "annulus/store/files/descriptor.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "annulus/core/error.hpp"

namespace annulus::store {

const char* kind_of_file(const struct stat& about) {
  if (S_ISDIR(about.st_mode)) return "a folder";
  if (S_ISFIFO(about.st_mode)) return "a FIFO";
  if (S_ISSOCK(about.st_mode)) return "a socket";
  return S_ISCHR(about.st_mode) || S_ISBLK(about.st_mode) ? "a device" : "no regular file";
}

Descriptor::Descriptor(const std::string& path, int flags, mode_t mode)
    : id_(open(path.c_str(), flags | O_CLOEXEC, mode)) {
  if (id_ >= 0) return;
  const bool is_link = errno == ELOOP && (flags & O_NOFOLLOW) != 0;
  core::fail(core::ErrorKind::failure, "{}: cannot be opened: {}", path,
             is_link ? "it is a link, and links are not followed here" : std::strerror(errno));
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

}  // namespace annulus::store
