#include "annulus/io/reservation.hpp"

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "annulus/core/error.hpp"

namespace annulus::io {
namespace {

using core::ErrorKind;
using core::fail;

constexpr std::string_view signature = "annulus: process ";  // every reservation begins so

std::string lock_of(const std::string& file) { return file + ".lock"; }

std::string content_of(const Descriptor& descriptor) {
  std::array<char, 512> text{};
  const ssize_t size = pread(descriptor.id(), text.data(), text.size(), 0);
  return size > 0 ? std::string(text.data(), std::size_t(size)) : "";
}

/// "process 4711 on node17 since 2026-11-21 12:00:00 UTC", as the owner signed.
std::string owner_of(const Descriptor& descriptor) {
  std::string text = content_of(descriptor);
  if (text.rfind(signature, 0) != 0) return "another process";
  text = text.substr(signature.find("process"));
  return text.substr(0, text.find('\n'));
}

/// Opens the file, which another user may have made so that we can only read it: a lock needs no more.
Descriptor open_lock(const std::string& path, const std::string& file) {
  constexpr int how = O_NOFOLLOW | O_NONBLOCK;
  const bool read_only =
      faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS | AT_SYMLINK_NOFOLLOW) != 0 && errno == EACCES;
  if (!read_only) return Descriptor(path, O_RDWR | O_CREAT | how, 0666);
  try {
    return Descriptor(path, O_RDONLY | how);
  } catch (const core::Error& error) {
    fail(ErrorKind::failure,
         "{}; it keeps others from making {}: remove it, or ask its owner to, if no run makes that file", error.what(),
         file);
  }
}

}  // namespace

Reservation::Reservation(const std::string& file) : path_(lock_of(file)) {
  while (!take(file)) {  // the one before removed the file between our opening and our locking
  }
}

/// Opens and locks the file; false when it is no longer the one under that name.
bool Reservation::take(const std::string& file) {
  const core::MakingScope making;
  descriptor_ = open_lock(path_, file);
  struct stat about {};
  if (fstat(descriptor_.id(), &about) != 0 || !S_ISREG(about.st_mode)) {
    fail(ErrorKind::failure, "{}: is in the way: {} is reserved by a file of that name, and this is no file", path_,
         file);
  }
  if (flock(descriptor_.id(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      fail(ErrorKind::failure,
           "{}: another run makes this output already: {}; wait for it, name another file, or set output.overwrite: "
           "true (generate, plan --calibrate: --overwrite)",
           file, owner_of(descriptor_));
    }
    if (about.st_size == 0) unlink(path_.c_str());
    descriptor_ = {};  // no locks here
    return true;
  }
  if (!descriptor_.is_named(path_)) return false;
  if (about.st_size > 0 && content_of(descriptor_).rfind(signature, 0) != 0) {
    fail(ErrorKind::failure, "{}: is in the way: {} is reserved by a file of that name, and this one is not ours",
         path_, file);
  }
  sign(file);
  return true;
}

void Reservation::sign(const std::string& file) {
  noted_ = core::note_unfinished_file(path_, descriptor_.identity());
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 32> time{};
  std::strftime(time.data(), time.size(), "%Y-%m-%d %H:%M:%S UTC", &parts);
  const std::string text =
      fmt::format("{}{} on {} since {}\nmakes {}\n", signature, getpid(), host.data(), time.data(), file);
  // What counts is the lock: on a full disk the file stays empty.
  if (ftruncate(descriptor_.id(), 0) == 0) (void)!pwrite(descriptor_.id(), text.data(), text.size(), 0);
}

Reservation::~Reservation() {
  core::forget_unfinished_file(noted_);
  if (descriptor_.id() >= 0 && descriptor_.is_named(path_)) unlink(path_.c_str());  // before the lock is given back
}

void Reservation::remove_stale(const std::string& file) {
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::symlink_status(lock_of(file), error))) return;
  try {
    const Reservation taken_over(file);
  } catch (const core::Error&) {  // it is alive, or not ours
  }
}

}  // namespace annulus::io
