// HDF5 files that this program makes. They appear under their final name complete or not at all.
//
// Rank 0 lays NAME.part out before anything is computed (part_file.hpp); every rank writes its rows there; at the end
// every rank flushes and closes it, rank 0 adds the record, and renames it to NAME. NAME.journal (journal.hpp) says
// meanwhile which process makes the file: no other run makes it as long as that one lives, and the next one takes over
// what a dead one has left.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "annulus/store/journal.hpp"
#include "annulus/store/part_file.hpp"
#include "annulus/store/shared_blocks.hpp"

namespace annulus::store {

/// Head of the journal of a file that is made in one go: no later launch goes on with it.
inline constexpr const char* whole_head = "{}";

/// What is to be made.
struct OutputPlan {
  OutputTarget where;
  std::vector<PartTensor> tensors;
  std::string head = whole_head;  ///< what is computed, for the journal: one line
  bool keeps_units = false;  ///< a launch that ends early leaves what is finished to a later one, which goes on with it
};
/// A plan for a file that is made in one go, whose numbers are in memory as they are in the file.
OutputPlan output_plan(const OutputTarget& where, const std::vector<TensorSpec>& tensors);

class OutputFile : public RowWriter {
 public:
  /// Asked on rank 0, under the journal's lock, where another launch has finished units of this output or works on it:
  /// whether this launch goes on with them. False: they are cut otherwise. Throws Error where it must not.
  using GoesOn = std::function<bool(const Journal&, const PartLayout&)>;

  /// Lays the file out, or opens what `goes_on` accepts; collective. Throws the same Error(failure) on every rank when
  /// the folder is missing or not writable, the file exists and may not be overwritten or is no regular file, the space
  /// is not there, or another run makes the file: it says which process.
  OutputFile(OutputPlan plan, const comm::Communicator& comm, const GoesOn& goes_on = {});
  /// Without publish(): removes the file, unless it keeps units. Not collective.
  ~OutputFile() override;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// False: another launch has cut the units otherwise, and nothing was opened here.
  bool is_open() const { return launch_ != 0; }
  /// The processes of this launch have it in common.
  std::uint64_t launch() const { return launch_; }
  const std::string& final_path() const { return final_path_; }

  /// On every rank where units are kept, else on rank 0.
  Journal& journal() { return *journal_; }
  const Journal& journal() const { return *journal_; }
  /// None where another launch has given the file its name already.
  PartFile* part() { return part_ ? &*part_ : nullptr; }
  /// The part file of this layout has the final name by now.
  bool has_final_name(const PartLayout& layout) const;

  void write(const std::vector<RowsOut>& tensors, const std::vector<core::Interval>& rows,
             const RowOwners& owners) override;
  void write_parts(const std::vector<MatrixPart>& parts,
                   const std::function<RankOf(const std::string& dataset)>& rank_of) override;

  /// Flushes and closes the file on every rank, adds the record and gives it its final name; collective. Throws as
  /// write(); where the final name cannot be had, the error names the file that keeps the result.
  void publish(const Record& record);

 private:
  bool lay_out(const GoesOn& goes_on);
  bool begin(Journal::Turn& turn);
  Journal::Turn open_journal();
  [[noreturn]] void refuse_other_run(const std::string& worker) const;
  static void note_unfinished(const std::string& path, std::optional<UnfinishedFile>& guard);

  const OutputPlan plan_;
  const comm::Communicator& comm_;
  const std::string final_path_, part_path_, journal_path_;
  std::uint64_t launch_ = 0;
  std::optional<Journal> journal_;
  std::optional<PartFile> part_;
  std::optional<UnfinishedFile> part_guard_, journal_guard_;  // where no units are kept
};

}  // namespace annulus::store
