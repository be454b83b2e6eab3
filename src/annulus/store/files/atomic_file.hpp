// Files that appear under their final names complete or not at all. AtomicFile makes a file under a temporary name
// beside the final one, flushes it to disk, and then renames it. It also flushes and renames NAME.part (part_file.hpp).
//
// The temporary file is always new, never an existing file or a link, and its name cannot be guessed. Before a
// process writes text to the file or renames it, the process checks that the name still leads to the same inode, and
// throws if not. A process that ends early removes the file (core/unfinished_files.hpp). If the process was killed, the
// next process that makes the same file on this machine removes the temporary file (process_name.hpp).
#pragma once

#include <optional>
#include <string>

#include "annulus/store/files/descriptor.hpp"

namespace annulus::store {

/// An unfinished file. Every rank may have an object for the same file. The constructor and check() compare only inode
/// numbers, because a file may have different device numbers on machines that share the file system.
class UnfinishedFile {
 public:
  /// Notes an existing file. Throws Error(failure) if the path does not lead to the file with this inode.
  UnfinishedFile(std::string path, ino_t inode);
  /// Removes the file, if the path still leads to it and release() was not called.
  ~UnfinishedFile();
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;

  const std::string& path() const { return path_; }

  /// Throws Error(failure) if the path now leads to another file, or to none. The message says to which inode, or why
  /// none was found.
  void check() const;
  /// Forgets the file, so that it is not removed. Call it when the file is finished, or belongs to another process.
  void release();

 private:
  std::string path_;
  core::FileIdentity identity_;
  int noted_ = -1;
  bool ours_ = true;
};

/// A file that this process makes. Use it on one rank.
class AtomicFile {
 public:
  /// Says what happens to a finished file that cannot get its final name.
  enum class Unnamed { gets_another_name, stays };

  /// Makes an empty temporary file beside `file`, or, if `file` is a link, beside the file to which it leads. Removes
  /// the temporary files that dead processes have left for this file. Throws Error(failure), or as check_can_be_made().
  AtomicFile(const std::string& file, bool overwrite);
  /// Opens the existing file `made`, which publish() renames to `file`, a path without links. Throws Error(failure).
  AtomicFile(const std::string& file, bool overwrite, const std::string& made, Unnamed unnamed);

  const UnfinishedFile& unfinished() const { return *unfinished_; }
  const Descriptor& descriptor() const { return descriptor_; }

  /// Appends text. Throws Error(failure).
  void write(const std::string& text);

  /// Flushes the file to disk and gives it its final name. If the file replaces another file, it takes that file's
  /// owner, group and permissions, as far as this process may set them. Throws Error(failure), for example if another
  /// file has got the name meanwhile and must not be replaced. The new file is then kept as NAME.kept.<random>, or
  /// (Unnamed::stays) under its present name; the error says where.
  void publish();

 private:
  void take_permissions() const;
  void take_name() const;
  [[noreturn]] void keep(const std::string& why);

  std::string final_path_;
  bool overwrite_;
  Unnamed unnamed_ = Unnamed::gets_another_name;
  mode_t new_mode_ = 0;    // used if the file replaces no other file
  Descriptor descriptor_;  // stays open, so that no other file can get its inode number
  std::optional<UnfinishedFile> unfinished_;
};

}  // namespace annulus::store
