// A name that is taken before its file is there.
#pragma once

#include <string>

#include "annulus/io/descriptor.hpp"

namespace annulus::io {

/// Keeps other runs from making the same file while this lives: NAME.lock beside it, locked (flock) by this process.
/// The lock ends with the process however that ends, so a dead one never blocks another, and the file left behind is
/// taken over by the next. Where the file system has no locks nothing is reserved: two runs then find each other at the
/// end.
class Reservation {
 public:
  /// Throws Error(failure), which says who has it, when another process reserves the file.
  explicit Reservation(const std::string& file);
  ~Reservation();
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

  /// Removes what a dead process left of its reservation.
  static void remove_stale(const std::string& file);

 private:
  bool take(const std::string& file);
  void sign(const std::string& file);

  std::string path_;
  Descriptor descriptor_;
  int noted_ = -1;
};

}  // namespace annulus::io
