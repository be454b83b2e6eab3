// NAME.part: an HDF5 file that is being made, perhaps unit by unit and by several launches.
//
// Rank 0 lets HDF5 make the layout, with room for all numbers, flushes it to disk and closes it. From then on every
// rank writes its numbers straight to their places in the file, and no rank opens it by HDF5 until all are there: a
// process that is killed leaves a file that is whole but for the numbers that it had not written. Tensors that later
// units read and that the result does not have (scratch) lie after HDF5's end of the file.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "annulus/store/files/atomic_file.hpp"
#include "annulus/store/raw_file.hpp"
#include "annulus/store/result_layout.hpp"

namespace annulus::store {

/// A dataset of the result, or scratch.
struct PartTensor {
  TensorSpec spec;
  core::DType memory = core::DType::float32;  ///< of the numbers that are written and read
  bool is_scratch = false;
};

/// What a part file is once it is laid out: all that is needed to open it, and to undo what HDF5 does to it at the end.
struct PartLayout {
  Index inode = 0;
  Index bytes = 0;                       ///< of the layout; scratch begins there
  std::map<std::string, Index> offsets;  ///< of the tensors by name, in bytes
  /// Bytes [begin, begin + size) that are HDF5's own.
  struct Bytes {
    Index begin = 0;
    std::string bytes;
  };
  std::vector<Bytes> bookkeeping;

  std::string text() const;
  static PartLayout parse(const std::string& text);
};

class PartFile final : public core::RowSink {
 public:
  /// Makes a new file at `path`, never through a link, with room for all numbers, flushed to disk and closed; others
  /// may not read it where they may not read the file that it will replace. `result` is what it will be. `guard`
  /// removes the file when this process ends early, from the moment that it is there. For one rank. Throws
  /// Error(failure).
  static PartLayout lay_out(const std::string& path, const OutputTarget& result, const std::vector<PartTensor>& tensors,
                            std::optional<UnfinishedFile>& guard);

  /// Opens one that was laid out. Throws Error(failure) where another file is there, or not all of it; scratch is gone
  /// once the record was begun.
  PartFile(std::string path, PartLayout layout, const std::vector<PartTensor>& tensors, bool has_scratch);

  /// Writes rows of a tensor on this rank alone, while other ranks write others. Blocks of the file that may hold other
  /// ranks' bytes, too (shared_blocks.hpp), are kept in memory until write_borders().
  void write(core::StoredTensor tensor, const std::vector<core::RowPiece>& pieces) override;
  core::RowTraffic traffic() const override { return traffic_; }
  /// Writes what write() has kept, through a descriptor of its own that is flushed and closed. Only while no other
  /// process does the same: under the journal's lock, which makes file systems forget what they had cached.
  void write_borders();
  bool has_borders() const { return !borders_.empty(); }

  /// Where a dataset lies: numbers in memory are of the type of its PartTensor.
  const RawTensor& place(const std::string& dataset) const;

  /// Flushes to disk what this machine has of it. Throws Error(failure).
  void flush() const;
  /// Opens the file anew: what other machines have written and flushed is seen from then on.
  void reopen();
  /// Flushes and closes it, and checks both. Throws Error(failure).
  void close();

  /// Adds the record after the layout, without scratch and without what an earlier attempt has added, and gives the
  /// file its final name. For one rank, when all ranks have closed it. Throws Error(failure); `refused` says what
  /// becomes of the file where the name cannot be had.
  void publish(const std::string& final_path, bool overwrite, const Record& record, AtomicFile::Refused refused) const;

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
  Index bytes_ = 0;  // at least, until the record is begun
  std::shared_ptr<Descriptor> file_;
  std::map<std::string, RawTensor> tensors_;  // by dataset
  std::vector<Border> borders_;
  core::RowTraffic traffic_;
};

}  // namespace annulus::store
