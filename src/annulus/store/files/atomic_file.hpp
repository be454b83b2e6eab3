// The one way in which this program puts a file in place: complete or not at all. The file is made beside its final
// name under a temporary one, flushed to disk, and renamed.
//
// The temporary file is new (never one that is there, never through a link) and its name cannot be guessed. Before each
// opening and before the renaming its device and inode are compared with those it had when it was made. A process that
// is ended before its file is finished takes it along (core/unfinished_files.hpp); what one that was killed leaves
// behind is removed by the next that makes the same file (process_name.hpp).
#pragma once

#include <optional>
#include <string>

#include "annulus/store/files/descriptor.hpp"

namespace annulus::store {

/// An unfinished file as every rank knows it. The path may be seen from several machines, with device numbers of their
/// own; inode numbers are the file system's.
class UnfinishedFile {
 public:
  /// A file that is there. Throws Error(failure) when the path is not the file with this inode.
  UnfinishedFile(std::string path, ino_t inode);
  /// Removes it, if it is still that file and it was not released.
  ~UnfinishedFile();
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;

  const std::string& path() const { return path_; }

  /// Throws Error(failure), which says what changed, when the path stands for another file now, or for none.
  void check() const;
  /// It is finished, or another's business: forgets it.
  void release();

 private:
  std::string path_;
  core::FileIdentity identity_;
  int noted_ = -1;
  bool ours_ = true;
};

/// A file that this process makes. For one rank.
class AtomicFile {
 public:
  /// What becomes of a finished file that cannot have its final name.
  enum class Refused { is_renamed, stays };

  /// Makes an empty temporary file beside `file`, or beside what a link of that name points to; removes those of dead
  /// processes. Throws Error(failure) as check_can_be_made() does.
  AtomicFile(const std::string& file, bool overwrite);
  /// Takes `made`, a file that is there, for `file`, links of which have been followed. Throws Error(failure).
  AtomicFile(const std::string& file, bool overwrite, const std::string& made, Refused refused);

  const std::string& final_path() const { return final_path_; }
  const UnfinishedFile& unfinished() const { return *unfinished_; }
  const Descriptor& descriptor() const { return descriptor_; }

  /// Appends text. Throws Error(failure).
  void write(const std::string& text);

  /// Flushes the file to disk and gives it its final name; a file that it replaces hands on its permissions. Throws
  /// Error(failure). If the name was taken meanwhile and may not be, or the renaming fails for another reason, the file
  /// is kept as NAME.kept.<random>, or stays where it is, and the error says where.
  void publish();

 private:
  void take_permissions() const;
  void take_name() const;
  [[noreturn]] void keep(const std::string& why);

  std::string final_path_;
  bool overwrite_;
  Refused refused_ = Refused::is_renamed;
  mode_t new_mode_ = 0;    // of a file that replaces none
  Descriptor descriptor_;  // held open, so that its inode number is not given to another file
  std::optional<UnfinishedFile> unfinished_;
};

}  // namespace annulus::store
