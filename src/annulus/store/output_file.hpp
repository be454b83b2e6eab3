// HDF5 files of tensors that this program makes. A file appears under its final name complete or not at all.
//
// Rank 0 lays out NAME.part before anything is computed (part_file.hpp), and every rank writes its rows to NAME.part.
// At the end every rank flushes and closes NAME.part; rank 0 adds the record and renames the file to NAME. Meanwhile
// NAME.journal (journal.hpp) says which processes make the file. No other run makes the file while one of these
// processes lives. When all of them have ended, the next run makes the file anew, or continues it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "annulus/store/journal.hpp"
#include "annulus/store/part_file.hpp"
#include "annulus/store/shared_blocks.hpp"

namespace annulus::store {

/// Text of the line `head` in the journal of a file that one launch makes alone, and that no later launch continues.
inline constexpr const char* whole_head = "{}";

/// Describes the file to be made.
struct OutputPlan {
  OutputTarget where;
  std::vector<PartTensor> tensors;
  std::string head = whole_head;  ///< text of the journal's line `head`: what is computed
  bool keeps_units = false;       ///< true: if a launch ends early, a later launch continues after its finished units
};
/// Returns a plan for a file that one launch makes, and whose numbers have the same type in memory as in the file.
OutputPlan output_plan(const OutputTarget& where, const std::vector<TensorSpec>& tensors);

class OutputFile : public RowWriter {
 public:
  /// Called on rank 0, under the journal's lock, if another launch has finished units or works on this output. Returns
  /// true if this launch can continue, and false if the other launch has cut the output into other units. Throws Error
  /// if this launch must not continue.
  using MayContinue = std::function<bool(const Journal&, const PartLayout&)>;

  /// Lays the file out, or opens a file that `may_continue` accepts. Collective. Throws the same Error(failure) on
  /// every rank if the folder is missing or not writable, if the file exists and must not be replaced or is not a
  /// regular file, if space is missing, or if another run makes the file. In the last case, the message names the
  /// process of that run.
  OutputFile(OutputPlan plan, const comm::Communicator& comm, const MayContinue& may_continue = {});
  /// If publish() was not called, removes the file, unless finished units are kept. Not collective.
  ~OutputFile() override;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// False if another launch has cut the output into other units: then this object has not opened the file.
  bool is_open() const { return launch_ != 0; }
  /// A number that is the same in all processes of this launch.
  std::uint64_t launch() const { return launch_; }

  /// If finished units are kept, call it on any rank. Otherwise call it only on rank 0, because other ranks have not
  /// opened the journal.
  Journal& journal() { return *journal_; }
  const Journal& journal() const { return *journal_; }
  /// nullptr if another launch has already given the file its final name.
  PartFile* part() { return part_ ? &*part_ : nullptr; }
  /// True if the part file with this layout has been renamed to the final name.
  bool has_final_name(const PartLayout& layout) const;

  void write(const std::vector<RowsOut>& tensors, const std::vector<core::Interval>& rows,
             const RowOwners& owners) override;
  void write_parts(const std::vector<MatrixPart>& parts,
                   const std::function<RankOf(const std::string& dataset)>& rank_of) override;

  /// Flushes and closes the file on every rank, adds the record, and gives the file its final name. Collective. Throws
  /// as write(); if the file cannot get its final name, the error says where the result is kept.
  void publish(const Record& record);

 private:
  bool lay_out(const MayContinue& may_continue);
  void begin(Journal::Lock& lock);
  Journal::Lock open_journal();
  static void note_unfinished(const std::string& path, std::optional<UnfinishedFile>& guard);

  const OutputPlan plan_;
  const comm::Communicator& comm_;
  const std::string final_path_, part_path_, journal_path_;
  std::uint64_t launch_ = 0;
  std::optional<Journal> journal_;
  std::optional<PartFile> part_;
  std::optional<UnfinishedFile> part_guard_, journal_guard_;  // set if finished units are not kept
};

}  // namespace annulus::store
