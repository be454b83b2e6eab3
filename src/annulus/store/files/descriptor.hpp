// An open file that closes itself, and knows which file it is.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <string>

#include "annulus/core/unfinished_files.hpp"

namespace annulus::store {

/// What is there instead of a regular file, in words: "a folder", "a FIFO".
const char* kind_of_file(const struct stat& about);

class Descriptor {
 public:
  Descriptor() = default;
  /// Opens; the file is not handed on to programs that this one starts. Throws Error(failure).
  Descriptor(const std::string& path, int flags, mode_t mode = 0);
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;

  int id() const { return id_; }
  /// Closes it now; 0 or the error's number.
  int close();
  core::FileIdentity identity() const;
  /// The path stands for this file and not for a link to it.
  bool is_named(const std::string& path) const;

 private:
  int id_ = -1;
};

}  // namespace annulus::store
