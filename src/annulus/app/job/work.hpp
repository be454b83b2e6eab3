// The work of a run: it computes attention, or a layer that contains attention.
#pragma once

#include <memory>

#include "annulus/app/job/job.hpp"
#include "annulus/app/job/ranges.hpp"
#include "annulus/layer/layer.hpp"
#include "annulus/store/file_rows.hpp"
#include "annulus/store/shared_blocks.hpp"

namespace annulus::app {

/// The input tensors that the request reads: q, k, v and, with gradients, dout and perhaps dlse.
std::vector<core::StoredTensor> input_tensors(const Request& request);

/// Returns the origin of the rows of an input tensor: a file or a seed. Local. Throws Error(failure).
store::RowOrigin input_origin(const Request& request, core::StoredTensor tensor);

/// Sets the origin of each input tensor in `rows`. Reading later fails for numbers that `wanted` does not allow.
void put_inputs(const Request& request, store::Wanted wanted, store::FileRows& rows);

/// Bytes that this rank has read from the input and written to the result.
struct FileBytes {
  Index read = 0;
  Index written = 0;
};

/// This rank's tensors in one unit of a run; each tensor is in memory only while it is needed. Call the functions that
/// read, compute and write in the order in which they are declared; call those for gradients only if the run computes
/// gradients. Call pass() for each of passes_of(problem): forward and statistics before write_outputs(), backward after
/// read_gradients(). All these functions are collective and throw the same Error on every rank, except that pass() may
/// fail on one rank alone. To time passes repeatedly, read all inputs first, and call drop_results() before each time.
class Work {
 public:
  virtual ~Work() = default;

  /// Begins to read all inputs while another unit is computed, if this work can do that.
  virtual void read_ahead() {}
  virtual void read_inputs() = 0;
  virtual layer::LayerMetrics pass(PassKind pass, const strategies::Progress& progress) = 0;
  /// Checks that the results are finite, and writes them; if `file` is nullptr, writes nothing.
  virtual report::LseFindings write_outputs(store::RowWriter* file) = 0;
  virtual void read_gradients() = 0;
  virtual void write_gradients(store::RowWriter* file) = 0;
  /// The unit's part of the sink gradients, to be noted in the journal; empty if there are none. Call it after
  /// write_gradients().
  virtual std::string sink_note() const { return ""; }

  /// Uses the inputs of `other`, including dout and dlse. Both works must have the same rows of the same tensors.
  /// Returns false if this work cannot share inputs.
  virtual bool share_inputs(const Work& other) = 0;
  /// Bytes of the inputs that this rank has in memory now. Local.
  virtual Index input_bytes() const = 0;
  /// Frees the results of the passes.
  virtual void drop_results() = 0;
  /// Row numbers, in the sequence, of this rank's rows.
  virtual const pattern::StoredRows& rows() const = 0;

  /// The pass's name in messages of the watchdog.
  virtual std::string name(PassKind pass) const = 0;
  /// Predicted peak bytes of this rank's tensors and buffers in the pass. Local.
  virtual Index predicted_bytes(PassKind pass) const = 0;
  /// Sets how many bytes are read ahead for the next unit during the passes; predicted_bytes() includes them.
  virtual void set_read_ahead_bytes(Index) {}
  /// Predicted floating-point operations of this rank's attention in a pass. Local.
  virtual double predicted_flops(PassKind pass) const = 0;
  /// Bytes that this rank's attention receives from each rank in a pass. Local.
  virtual std::vector<Index> bytes_from(PassKind pass) const = 0;
  /// Bytes read and written until now. Local.
  virtual FileBytes file_bytes() const = 0;
};

/// Rows of a job's inputs, from the input file or a seed; none for a layer. Collective. Throws the same Error on every
/// rank.
std::unique_ptr<store::FileRows> input_rows(const Job& job, const comm::Communicator& comm);

/// Makes the work of a job, or of one slice. The work reads its inputs from `source`, and must not outlive the
/// arguments. Collective. Throws the same Error on every rank if these ranks lack something that the strategy needs.
std::unique_ptr<Work> make_work(const Job& job, core::RowSource& source, const comm::Communicator& comm);
std::unique_ptr<Work> make_layer_work(const Job& job, const comm::Communicator& comm);

/// Bytes of all inputs of a job of attention on one rank.
Index input_bytes_of(const Job& job, int rank);

}  // namespace annulus::app
