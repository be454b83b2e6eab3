// NAME.part: the numbers of a result that is made unit by unit, perhaps by several launches.
//
// HDF5 makes its layout first and closes it. From then on numbers go straight to their places in the file, and nobody
// opens it by HDF5 until all are there: a process that is killed leaves a file that is whole but for the numbers that
// it had not written. What later units read and the result does not have (scratch) lies behind HDF5's end of the file.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "annulus/io/raw_file.hpp"
#include "annulus/io/result_file.hpp"

namespace annulus::io {

/// Numbers that are whole are moved as they are, as if they were these.
inline constexpr core::DType bits_of_int64 = core::DType::float64;

/// A dataset of the result, or scratch.
struct PartTensor {
  core::StoredTensor id = core::StoredTensor::out;
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
  /// Makes a new file at `path`, never through a link, with room for all numbers, flushed to disk; others may not read
  /// it where they may not read the file that it will replace. `result` is what it will be. For one rank. Throws
  /// Error(failure).
  static PartLayout lay_out(const std::string& path, const OutputLocation& result,
                            const std::vector<PartTensor>& tensors);

  /// Opens one that was laid out. Throws Error(failure) where another file is there, or not all of it; scratch is gone
  /// once the record was begun.
  PartFile(std::string path, PartLayout layout, const std::vector<PartTensor>& tensors, bool has_scratch);

  void write(core::StoredTensor tensor, const std::vector<core::RowPiece>& pieces) override;
  core::RowTraffic traffic() const override { return traffic_; }
  /// Where a tensor lies.
  const RawTensor& place(core::StoredTensor tensor) const { return places_.at(tensor); }

  /// Flushes to disk what this machine has of it. Throws Error(failure).
  void flush() const;

  /// Gives HDF5's own bytes and the length back that the file was laid out with, scratch being gone; the numbers stay.
  /// For one rank. Throws Error(failure).
  void undo_record() const;
  /// Adds the record behind that, and gives the file its final name. For one rank. Throws Error(failure); the file then
  /// stays where it is.
  void publish(const std::string& final_path, bool overwrite, const Record& record) const;

 private:
  void check(Index bytes) const;

  std::string path_;
  PartLayout layout_;
  Index bytes_ = 0;  // at least, until the record is begun
  std::shared_ptr<const Descriptor> file_;
  std::map<core::StoredTensor, RawTensor> places_;
  core::RowTraffic traffic_;
};

}  // namespace annulus::io
