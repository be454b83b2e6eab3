// NAME.journal records which units of an output are finished, and which process works on which unit. It is a text file.
// All processes that work on the output append whole lines to it, under a lock. No other program reads it. The journal
// also protects the output: while a process that has signed on (line `owner`) lives, no other run makes the file.
//
//   head {...}             what is computed: settings, input, version, and how the work is cut into units
//   making                 a launch lays out the part file; a part file made after this line belongs to this journal
//   part {...}             the layout of the part file (PartLayout in part_file.hpp)
//   owner ID LAUNCH PROCESS ABOUT
//                          a process signs on; while it lives, it locks a byte whose position follows from ID
//   claim PHASE UNIT ID    owner ID works on this unit, which may read what units of earlier phases have written
//   check PHASE UNIT TEXT  the checksums of what the unit has written (unit_checks.hpp)
//   done PHASE UNIT NOTE   the unit's numbers are in the part file and on disk; NOTE, which may be empty, is everything
//                          else that later launches must know about the unit
//   again PHASE UNIT       the unit's numbers changed on disk, so it and all units of later phases are unfinished
//   stop LAUNCH            the processes of this launch must begin no more units
//   record                 from now on, HDF5 may add the record to the part file
//
// Each line begins with a checksum of its text, so readers ignore a line that a killed process left incomplete.
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

/// A process that works on the output: a line `owner`. Processes that were launched together have the same `launch`.
struct JournalOwner {
  std::uint64_t id = 0;
  std::uint64_t launch = 0;
  std::string about;      ///< "process 4711 on n7, rank 0 of 2, since ..."
  std::string process{};  ///< name of the process, from this_process()
};

struct Unit {
  Index phase = 0;
  Index index = 0;
  auto operator<=>(const Unit&) const = default;
};

class Journal {
 public:
  /// Opens the journal at `path`, or makes an empty one; does not follow a link. Throws Error(failure) if `path` leads
  /// to something that is not a journal.
  explicit Journal(const std::string& path);

  /// Reads an existing journal. Empty if there is none, or if its line head or part is missing. Makes no file. Throws
  /// as Journal().
  static std::optional<Journal> find(const std::string& path);

  const std::string& path() const { return path_; }
  bool is_empty() const { return head_.empty() || part_.empty(); }  ///< the line head or the line part is missing
  const std::string& head() const { return head_; }
  const std::string& part() const { return part_; }
  bool is_making() const { return making_; }        ///< true if it has the line making
  bool has_locks() const { return locks_; }         ///< true if the file system supports locks
  bool is_recording() const { return recording_; }  ///< true if it has the line record
  /// ABOUT of a living process that works on the output in a launch other than `launch`; empty if there is none. If the
  /// file system has no locks, a process of another machine counts as living, because this machine cannot look at it.
  std::optional<std::string> worker(std::uint64_t launch = 0) const;
  /// Returns the end of a message that names a worker(). This end says what to do if that process is gone. Empty if the
  /// file system has locks.
  std::string if_gone(const std::string& part_file) const;
  /// For file systems without locks: ABOUT of another living process of this machine that works on the output; empty if
  /// there is none.
  std::optional<std::string> neighbour() const;

  /// Locks the journal while this object lives. The constructor also reads everything that other processes have
  /// written.
  class Lock {
   public:
    /// Throws Error(failure) if the journal was removed, replaced or cut short since it was opened.
    explicit Lock(Journal& journal);

    void write(const std::string& line);
    /// Returns when all appended lines are on disk.
    void flush();
    /// Empties the journal: removes all its lines.
    void begin_anew();

   private:
    Journal& journal_;
    std::optional<ByteLock> lock_;
  };

  std::uint64_t self() const { return self_; }  ///< ID of this process; 0 before sign_on()
  /// Writes a line `owner` for this process, and locks its byte until the journal is closed.
  void sign_on(const JournalOwner& owner, Lock& lock);
  void sign_on(const JournalOwner& owner);

  bool is_done(const Unit& unit) const { return done_.contains(unit); }
  Index done_in(Index phase) const;  ///< number of finished units of a phase
  Index done() const { return Index(done_.size()); }
  /// The notes of the finished units, in the order of the units.
  std::vector<std::string> notes() const;
  /// The finished units, with the text of their line `check`; "" for a unit without this line.
  std::map<Unit, std::string> checks() const;
  /// True if the unit is not finished, and a living process works on it.
  bool is_claimed(const Unit& unit) const;
  bool is_stopped(std::uint64_t launch) const { return stopped_.contains(launch); }

  /// Reserves the completion of the file for this process, until the journal is closed. False if another process has
  /// reserved it. Without locks, reserves nothing and returns true.
  bool take_completion();

  /// Removes the file of the journal. Call it when the run has ended, so that another run can make this output.
  void remove();
  /// True if the path still leads to this journal.
  bool is_there() const { return file_.is_named(path_); }

 private:
  Journal(const std::string& path, Descriptor file);
  void read_new();
  void forget();  // forgets everything that was read
  void take(const std::string& line);

  std::string path_;
  Descriptor file_;
  bool locks_ = true;
  Index read_ = 0;  // bytes read so far
  std::string head_, part_;
  bool making_ = false;
  bool recording_ = false;
  std::map<std::uint64_t, JournalOwner> owners_;
  std::map<Unit, std::uint64_t> claims_;
  std::map<Unit, std::string> done_;  // finished units with their notes
  std::map<Unit, std::string> checks_;
  std::set<std::uint64_t> stopped_;
  std::uint64_t self_ = 0;
  std::optional<ByteLock> alive_, completing_;
};

}  // namespace annulus::store
