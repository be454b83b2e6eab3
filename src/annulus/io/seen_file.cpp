#include "annulus/io/file_identity.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "annulus/comm/activity.hpp"
#include "annulus/io/hdf5_support.hpp"
#include "annulus/io/root.hpp"

namespace annulus::io {
namespace {

using core::ErrorKind;
using core::fail;

constexpr Index second = 1'000'000'000;  // ns

/// "2026-11-03 12:00:01.123456789" UTC.
std::string time_text(Index nanoseconds) {
  const std::time_t seconds = std::time_t(nanoseconds / second);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  return fmt::format("{}.{:09}", text, nanoseconds % second);
}

/// What differs: "inode 12 -> 15, 4096 -> 8192 bytes, modified ... -> ...".
std::string changes(const FileIdentity& before, const FileIdentity& now) {
  std::string text;
  const auto add = [&](const std::string& change) { text += (text.empty() ? "" : ", ") + change; };
  if (before.device != now.device) add(fmt::format("device {} -> {}", before.device, now.device));
  if (before.inode != now.inode) add(fmt::format("inode {} -> {}", before.inode, now.inode));
  if (before.bytes != now.bytes) add(fmt::format("{} -> {} bytes", before.bytes, now.bytes));
  if (before.modified != now.modified) {
    add(fmt::format("modified {} -> {}", time_text(before.modified), time_text(now.modified)));
  }
  return text;
}

}  // namespace

FileIdentity identity_of(const std::string& path) {
  check_openable(path, false);
  const comm::Blocked inside("the opening of " + path);
  // Opened, because only that makes a network file system ask its server; not blocking, because a pipe would.
  const int descriptor = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) fail(ErrorKind::failure, "{}: cannot be opened: {}", path, std::strerror(errno));
  struct stat status {};
  const int code = fstat(descriptor, &status) == 0 ? 0 : errno;
  close(descriptor);
  if (code != 0) fail(ErrorKind::failure, "{}: cannot be looked at: {}", path, std::strerror(code));
  return {Index(status.st_dev), Index(status.st_ino), Index(status.st_size),
          Index(status.st_mtim.tv_sec) * second + Index(status.st_mtim.tv_nsec)};
}

FileIdentity identity_together(const std::string& path, const comm::Communicator& comm) {
  const std::vector<Index> root = numbers_from_root(comm, [&] {
    const FileIdentity found = identity_of(path);
    return std::vector<Index>{found.bytes, found.modified};
  });
  FileIdentity mine;
  comm::agree(comm, [&] {
    mine = identity_of(path);
    const FileIdentity expected{mine.device, mine.inode, root.at(0), root.at(1)};
    if (mine == expected) return;
    fail(ErrorKind::failure, "{}: is another file here than on rank 0: {}; every host must see the same one", path,
         changes(expected, mine));
  });
  return mine;
}

void check_unchanged(const std::string& path, const FileIdentity& seen) {
  FileIdentity now = identity_of(path);
  now.device = seen.device;  // a network file system that was mounted anew meanwhile has another number
  if (now == seen) return;
  fail(ErrorKind::failure,
       "{}: changed since the run looked at it first: {}; old and new numbers would be mixed. Leave the file as it is "
       "and run again",
       path, changes(seen, now));
}

}  // namespace annulus::io
