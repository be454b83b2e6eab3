// NAME.part: an HDF5 file that is being made, perhaps unit by unit and by several launches.
//
// On rank 0, HDF5 lays the file out, with space for all numbers. Rank 0 flushes it to disk and closes it. Then every
// rank writes its numbers to their positions in the file, without HDF5. HDF5 opens the file again only when all numbers
// are there. So a process that is killed leaves a valid file that lacks only numbers. Scratch tensors, which later
// units read and which are not in the result, are stored after everything that HDF5 has laid out.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "annulus/store/files/atomic_file.hpp"
#include "annulus/store/raw_file.hpp"
#include "annulus/store/result_layout.hpp"
#include "annulus/store/unit_checks.hpp"

namespace annulus::store {

/// A dataset of the result, or a scratch tensor.
struct PartTensor {
  TensorSpec spec;
  core::DType memory = core::DType::float32;  ///< the type that its numbers have in memory
  bool is_scratch = false;
};

/// The layout of a part file: everything that is needed to open the file, and to undo what HDF5 changes in the file
/// while it adds the record.
struct PartLayout {
  Index inode = 0;
  Index bytes = 0;                       ///< size of the file as HDF5 has laid it out, without scratch tensors
  std::map<std::string, Index> offsets;  ///< position of each tensor in bytes, by name
  /// HDF5's own bytes (no numbers of datasets), as they were laid out; `begin` is the position of the first byte.
  struct Bytes {
    Index begin = 0;
    std::string bytes;
  };
  std::vector<Bytes> bookkeeping;

  std::string text() const;
  /// Throws Error(failure) if the text is damaged; the message names `journal`, the file that has the text.
  static PartLayout parse(const std::string& text, const std::string& journal);
};

class PartFile final : public core::RowSink {
 public:
  /// Makes a new file at `path`, and does not follow a link. It has space for all numbers, is flushed to disk, and is
  /// closed. `result`: the final file. If a file of this name exists, users who may not read that file may not read the
  /// new one either. `guard` removes the new file if this process ends early. Call it on one rank. Throws
  /// Error(failure).
  static PartLayout lay_out(const std::string& path, const OutputTarget& result, const std::vector<PartTensor>& tensors,
                            std::optional<UnfinishedFile>& guard);

  /// Opens a file that was laid out. Throws Error(failure) if the path leads to another file, or if bytes are missing
  /// at the end. `has_scratch`: false once complete() may have begun, because complete() writes the record over the
  /// scratch tensors.
  PartFile(std::string path, PartLayout layout, const std::vector<PartTensor>& tensors, bool has_scratch);

  /// Writes rows of a tensor on this rank alone, while other ranks write other rows. Bytes that do not fill a block of
  /// the file (shared_blocks.hpp) stay in memory until write_borders(), as other ranks may write to the same block.
  void write(core::StoredTensor tensor, const std::vector<core::RowPiece>& pieces) override;
  core::RowTraffic traffic() const override { return traffic_; }
  /// Writes and flushes the bytes that write() has kept. Call it only while this process has the journal's lock, so
  /// that no other process writes to the same blocks. The lock also makes network file systems drop cached blocks.
  void write_borders();
  bool has_borders() const { return !borders_.empty(); }

  /// Adds this rank's pieces to the checksums. Call it for pieces that write_together() writes; write() adds its own.
  void note_written(const RawTensor& to, const std::string& dataset, const std::vector<core::RowPiece>& pieces);
  /// The checksums of what this rank has written since the last call.
  UnitChecks take_checks() { return std::exchange(checks_, {}); }
  /// Reads what a unit has written. Returns the datasets whose numbers do not have these checksums any more.
  std::vector<std::string> changed(const UnitChecks& checks) const;

  /// A dataset or scratch tensor of the file. Its numbers have the type PartTensor::memory in memory.
  const RawTensor& place(const std::string& dataset) const;

  /// Flushes to disk what this machine has written to the file. Throws Error(failure).
  void flush() const;
  /// Opens the file again, so that this process sees what other machines have written and flushed.
  void reopen();
  /// Flushes and closes the file, and checks that both worked. Throws Error(failure).
  void close();

  /// Restores the layout (cuts off scratch tensors, and undoes an interrupted complete()), and adds the record. Call it
  /// on one rank when all ranks have closed the file. Throws Error(failure).
  void complete(const Record& record) const;

 private:
  struct Border {
    std::string dataset;
    Index begin = 0;
    std::vector<std::byte> bytes;
  };
  void check(const Descriptor& file, Index bytes) const;
  void undo_record(const Descriptor& file) const;

  std::string path_;
  PartLayout layout_;
  Index bytes_ = 0;  // until complete(), the file must have at least this many bytes
  std::shared_ptr<Descriptor> file_;
  std::map<std::string, RawTensor> tensors_;  // key: name of the dataset
  std::vector<Border> borders_;
  UnitChecks checks_;
  core::RowTraffic traffic_;
};

}  // namespace annulus::store
