// NAME.journal: which units of an output are finished, and which process works on which. A text file to which all
// processes that work on the output append whole lines, under a lock; no other program reads it. It is the lock of the
// output, too: while a process that signed on lives, no other run makes the same file.
//
//   head {...}             what is computed: settings, input, version, cuts
//   making                 the part file is being laid out: one that is there is ours
//   part {...}             it is laid out (part_file.hpp)
//   owner ID LAUNCH PROCESS ABOUT
//                          a process that takes units; while it lives it holds the lock on a byte that follows from ID
//   claim PHASE UNIT ID    it works on this one
//   done PHASE UNIT NOTE   its numbers are in the part file, and on disk; of the unit there is to know what NOTE says,
//                          if anything
//   stop LAUNCH            the processes of this launch shall take no more
//   record                 the part file is being completed by HDF5
//
// Each line begins with a checksum of the rest: what a killed process left of a line counts for nothing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "annulus/core/types.hpp"
#include "annulus/store/files/descriptor.hpp"

namespace annulus::store {

using core::Index;

/// Processes that were launched together have one launch.
struct JournalOwner {
  std::uint64_t id = 0;
  std::uint64_t launch = 0;
  std::string about;      ///< "process 4711 on n7, started ..."
  std::string process{};  ///< as this_process() names it
};

struct UnitName {
  Index phase = 0;
  Index unit = 0;
  auto operator<=>(const UnitName&) const = default;
};

class Journal {
 public:
  /// Opens the journal at `path`, or makes an empty one; never through a link. Throws Error(failure) where something
  /// else is there.
  explicit Journal(const std::string& path);

  /// Where there is a journal with a head and a part: what it says; nothing else is changed. Throws as above.
  static std::optional<Journal> find(const std::string& path);

  const std::string& path() const { return path_; }
  bool is_empty() const { return head_.empty() || part_.empty(); }
  const std::string& head() const { return head_; }
  const std::string& part() const { return part_; }
  bool is_making() const { return making_; }
  bool has_locks() const { return locks_; }
  bool is_recording() const { return recording_; }
  /// The process of another launch that works on the output, if there is one. Where the file system has no locks, that
  /// is one that lives, or that ran on another machine, of which this cannot be known.
  std::optional<std::string> worker(std::uint64_t launch = 0) const;

  /// The journal stays locked while this lives; all that others have written is known then.
  class Turn {
   public:
    /// Throws Error(failure) where the file under this name is another one by now.
    explicit Turn(Journal& journal);

    /// Appends a line.
    void write(const std::string& line);
    /// Appended lines are on disk.
    void flush();
    /// Empties it: nothing that was written counts.
    void begin_anew();

   private:
    Journal& journal_;
    std::optional<ByteLock> lock_;
  };

  std::uint64_t self() const { return self_; }
  /// From now on this process is at work, until the journal is closed.
  void sign_on(const JournalOwner& owner, Turn& turn);
  void sign_on(const JournalOwner& owner);

  bool is_done(const UnitName& unit) const { return done_.contains(unit); }
  Index done_in(Index phase) const;
  Index done() const { return Index(done_.size()); }
  /// What was noted with the finished units, in their order.
  std::vector<std::string> notes() const;
  /// The process that works on a unit, if it lives.
  bool is_claimed(const UnitName& unit) const;
  bool is_stopped(std::uint64_t launch) const { return stopped_.contains(launch); }

  /// Keeps other launches from completing the file; nothing where one does. While the journal is open.
  bool take_completion();

  /// The run is through: the name is free again.
  void remove();
  /// Whether the path still leads to this file.
  bool is_there() const { return file_.is_named(path_); }

 private:
  Journal(const std::string& path, Descriptor file);
  void read_new();
  void take(const std::string& line);

  std::string path_;
  Descriptor file_;
  bool locks_ = true;
  Index read_ = 0;  // bytes
  std::string head_, part_;
  bool making_ = false;
  bool recording_ = false;
  std::map<std::uint64_t, JournalOwner> owners_;
  std::map<UnitName, std::uint64_t> claims_;
  std::map<UnitName, std::string> done_;  // with the notes
  std::set<std::uint64_t> stopped_;
  std::uint64_t self_ = 0;
  std::optional<ByteLock> alive_, completing_;
};

}  // namespace annulus::store
