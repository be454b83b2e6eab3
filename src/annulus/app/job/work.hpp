// What a run computes between its input and its result: attention, or a layer round it.
#pragma once

#include <memory>

#include "annulus/app/job/job.hpp"
#include "annulus/app/job/ranges.hpp"
#include "annulus/layer/layer.hpp"
#include "annulus/store/file_rows.hpp"
#include "annulus/store/shared_blocks.hpp"

namespace annulus::app {

/// This rank's rows of what a pass has made, on the host: (B, rows, row_numbers).
struct ResultRows {
  std::string name;                 ///< of the dataset in a result
  const pattern::StoredRows& rows;  ///< of that dataset
  const void* data;
  core::DType type;
  Index row_numbers;
};

/// Bytes that a rank has read from the input and written to the result.
struct FileBytes {
  Index read = 0;
  Index written = 0;
};

/// This rank's tensors of one unit of a run, each there only while it is needed. Functions are called in the order in
/// which they stand here, those of the gradients where the run makes some, and pass() for each of passes_of() the
/// problem: forward and statistics before write_outputs(), backward after read_gradients(); collective. They throw the
/// same Error on every rank, but for the passes, in which a rank may fail alone. To time the passes again and again,
/// read all inputs first, and call drop_results() before each repetition.
class Work {
 public:
  virtual ~Work() = default;

  /// Begins to read all inputs where that can be done while another unit is computed; false: it cannot.
  virtual bool read_ahead() { return false; }
  virtual void read_inputs() = 0;
  virtual layer::LayerMetrics pass(PassKind pass, const strategies::Progress& progress) = 0;
  /// Checks that the results are numbers, and writes them; nullptr: nothing is written.
  virtual report::LseFindings write_outputs(store::RowWriter* file) = 0;
  virtual void read_gradients() = 0;
  virtual void write_gradients(store::RowWriter* file) = 0;
  /// What the unit adds to the gradients of sink logits, to be noted with it; empty: nothing. After write_gradients().
  virtual std::string sink_note() const { return ""; }

  /// Takes the inputs of a work that has read the same rows of the same tensors, gradients as well; false: it cannot.
  virtual bool share_inputs(const Work& other) = 0;
  virtual Index input_bytes() const = 0;
  /// Frees what the passes have made.
  virtual void drop_results() = 0;
  /// Shows what the passes have made, before it is written; gradients where there are some. Local.
  virtual void show_results(const std::function<void(const ResultRows&)>& look) const = 0;
  /// This rank's rows of the sequence.
  virtual const pattern::StoredRows& rows() const = 0;

  /// What the watchdog calls a pass.
  virtual std::string name(PassKind pass) const = 0;
  /// Bytes of this rank's memory at the peak of a pass. Local.
  virtual Index predicted_bytes(PassKind pass) const = 0;
  /// Adds bytes that something else takes during the passes: what is read ahead for the next unit.
  virtual void set_read_ahead_bytes(Index) {}
  /// Floating-point operations of this rank's attention in a pass. Local.
  virtual double predicted_flops(PassKind pass) const = 0;
  /// Bytes that this rank receives from each rank in a pass, the attention's alone. Local.
  virtual std::vector<Index> bytes_from(PassKind pass) const = 0;
  /// Up to now. Local.
  virtual FileBytes file_bytes() const = 0;
};

/// Rows of all inputs of a job, in its file or made from a seed; of a layer none. Collective; throws as make_work().
std::unique_ptr<store::FileRows> input_rows(const Job& job, const comm::Communicator& comm);

/// The work of a job, or of one slice of it, whose inputs come from `source`; all of them must outlive it. Collective.
/// Throws the same Error on every rank where these ranks lack something that the strategy needs of them.
std::unique_ptr<Work> make_work(const Job& job, core::RowSource& source, const comm::Communicator& comm);
std::unique_ptr<Work> make_layer_work(const Job& job, const comm::Communicator& comm);

/// Bytes of all inputs of a job of attention, on a rank.
Index input_bytes_of(const Job& job, int rank);

}  // namespace annulus::app
