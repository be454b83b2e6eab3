#include "annulus/store/files/atomic_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "annulus/comm/activity.hpp"
#include "annulus/core/error.hpp"
#include "annulus/runfile/user_files.hpp"
#include "annulus/store/files/file_system.hpp"
#include "annulus/store/files/process_name.hpp"

namespace annulus::store {
namespace {

using core::ErrorKind;
using core::fail;

struct Found {
  int error = 0;  // errno; 0: something has this name
  core::FileIdentity identity;
};
Found look(const std::string& path) {
  const comm::BlockingScope inside("the look-up of " + path);
  struct stat about {};
  if (lstat(path.c_str(), &about) != 0) return {errno, {}};
  return {0, {about.st_dev, about.st_ino}};
}

/// Throws an error that says what `path` leads to instead of the file that was made under this name.
[[noreturn]] void complain(const std::string& path, ino_t inode, const Found& found) {
  if (found.error != 0) {
    fail(ErrorKind::failure, "{}: the file that was made under this name (inode {}) cannot be found: {}", path, inode,
         std::strerror(found.error));
  }
  fail(ErrorKind::failure,
       "{}: is no longer the file that was made under this name: inode {} on device {}, expected inode {}; it is left "
       "as it is",
       path, found.identity.inode, found.identity.device, inode);
}

/// Renames if nothing has the new name. Returns 0 or the error's number.
int rename_to_new(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) return errno;
  // Some file systems (NFS) do not support RENAME_NOREPLACE. link() never replaces a file either.
  if (link(from.c_str(), to.c_str()) == 0) return unlink(from.c_str()) == 0 ? 0 : errno;
  if (errno == EEXIST) return errno;
  // On a file system without links, rename() replaces a file that another process makes after look().
  if (look(to).error != ENOENT) return EEXIST;
  return std::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

}  // namespace

UnfinishedFile::UnfinishedFile(std::string path, ino_t inode) : path_(std::move(path)) {
  const Found found = look(path_);
  if (found.error != 0 || found.identity.inode != inode) complain(path_, inode, found);
  identity_ = found.identity;
  noted_ = core::note_unfinished_file(path_, identity_);
}

UnfinishedFile::~UnfinishedFile() {
  if (ours_ && look(path_).identity == identity_) unlink(path_.c_str());
  release();
}

void UnfinishedFile::check() const {
  const Found found = look(path_);
  // Does not compare the device, because a network file system may get another number when it is mounted again.
  if (found.error != 0 || found.identity.inode != identity_.inode) complain(path_, identity_.inode, found);
}

void UnfinishedFile::release() {
  core::forget_unfinished_file(noted_);
  noted_ = -1;
  ours_ = false;
}

AtomicFile::AtomicFile(const std::string& file, bool overwrite)
    : final_path_(runfile::follow_links(file)), overwrite_(overwrite) {
  const comm::BlockingScope inside("the making of a file beside " + final_path_);
  check_can_be_made(final_path_, overwrite_);
  remove_leftovers(final_path_);
  const std::string path = temporary_name(final_path_);
  {
    const core::MakingScope making;
    descriptor_ = Descriptor(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0666);
    unfinished_.emplace(path, descriptor_.identity().inode);
  }
  struct stat made {
  }, replaced{};
  fstat(descriptor_.id(), &made);
  new_mode_ = made.st_mode & 07777;
  // From the start, users who may not read the file that is replaced must not read the new file either.
  if (stat(final_path_.c_str(), &replaced) == 0) fchmod(descriptor_.id(), 0600);
}

AtomicFile::AtomicFile(const std::string& file, bool overwrite, const std::string& made, Unnamed unnamed)
    : final_path_(file), overwrite_(overwrite), unnamed_(unnamed), descriptor_(made, O_RDWR | O_NOFOLLOW) {
  {
    const core::MakingScope making;  // until release(), no signal can remove `made` as an unfinished file
    unfinished_.emplace(made, descriptor_.identity().inode);
    unfinished_->release();
  }
  struct stat about {};
  fstat(descriptor_.id(), &about);
  new_mode_ = about.st_mode & 07777;
}

void AtomicFile::write(const std::string& text) {
  const comm::BlockingScope inside("the writing of " + final_path_);
  unfinished_->check();
  struct stat about {};
  int code = fstat(descriptor_.id(), &about) == 0 ? 0 : errno;
  if (code == 0) code = write_all(descriptor_, text.data(), text.size(), about.st_size);
  if (code != 0) fail(ErrorKind::failure, "{}: writing failed: {}", final_path_, std::strerror(code));
}

/// Gives the new file the owner, group and permissions of the file that it replaces, if this process may. If this
/// process may not set that group, the new file's group gets only permissions that all other users have, too.
void AtomicFile::take_permissions() const {
  struct stat replaced {
  }, made{};
  mode_t mode = new_mode_;
  if (stat(final_path_.c_str(), &replaced) == 0 && fstat(descriptor_.id(), &made) == 0) {
    mode = replaced.st_mode & 0777;
    if (made.st_uid != replaced.st_uid) (void)!fchown(descriptor_.id(), replaced.st_uid, gid_t(-1));
    if (made.st_gid != replaced.st_gid && fchown(descriptor_.id(), uid_t(-1), replaced.st_gid) != 0) {
      mode &= ~mode_t(070) | ((mode & 07) << 3);
    }
  }
  fchmod(descriptor_.id(), mode);  // fails on a file system without permissions, which is no error
}

void AtomicFile::take_name() const {
  check_can_be_made(final_path_, overwrite_);
  take_permissions();
  const int code = !overwrite_ ? rename_to_new(unfinished_->path(), final_path_)
                   : std::rename(unfinished_->path().c_str(), final_path_.c_str()) == 0 ? 0
                                                                                        : errno;
  if (code == EEXIST) check_can_be_made(final_path_, overwrite_);  // throws and names the file that has just appeared
  if (code != 0) {
    fail(ErrorKind::failure, "{}: renaming {} failed: {}", final_path_, unfinished_->path(), std::strerror(code));
  }
}

void AtomicFile::publish() {
  unfinished_->check();
  flush_to_disk(descriptor_, unfinished_->path());
  const comm::BlockingScope inside("the renaming of " + unfinished_->path());
  try {
    take_name();
  } catch (const core::Error& error) {
    keep(error.what());
  }
  unfinished_->release();
  flush_folder(final_path_);  // does nothing on some file systems; at least the file's content is on disk
}

/// Keeps the file, which may have taken hours to compute. Throws an error that begins with `why` and names the file.
void AtomicFile::keep(const std::string& why) {
  if (unnamed_ == Unnamed::stays) fail(ErrorKind::failure, "{}; the finished file is {}", why, unfinished_->path());
  std::string kept = final_path_ + ".kept." + random_digits();
  if (rename_to_new(unfinished_->path(), kept) != 0) kept = unfinished_->path();
  unfinished_->release();
  fail(ErrorKind::failure, "{}; the finished file is kept as {}", why, kept);
}

}  // namespace annulus::store
