// One slice of a run of attention: its heads out of the input's rows, and into the result's.
#pragma once

#include "annulus/app/job/attention_work.hpp"

namespace annulus::app {

/// The job of slice i of a job.
Job job_of_slice(const Job& whole, Index i);

class SliceWork : public AttentionWork {
 public:
  /// `job` as job_of_slice() makes it. `sink`: nullptr where nothing is written. All of them outlive the work.
  SliceWork(const Job& job, const comm::Communicator& comm, core::RowSource& source, core::RowSink* sink)
      : AttentionWork(job, comm), source_(source), sink_(sink) {}
  /// Waits for what is being read.
  ~SliceWork() override;

  /// Begins to read everything that the slice reads, which read_inputs() and read_gradients() then wait for;
  /// collective.
  void begin_reading();
  void read_inputs() override;
  void read_gradients() override;

  /// With what else is there during the passes of a slice that reads ahead.
  Index predicted_bytes(PassKind pass) const override;
  /// Bytes of all that a slice reads, on this rank.
  static Index input_bytes_of(const Job& slice, int rank);
  /// Bytes that the next slice's inputs take meanwhile.
  void set_beside(Index bytes) { beside_ = bytes; }

 protected:
  void fill(std::vector<Input>& inputs) override;
  void write(const io::ResultFile* file, const std::vector<io::RowsOut>& tensors) override;

 private:
  std::vector<core::RowPiece> pieces_of(core::StoredTensor tensor, void* memory, Index number_bytes) const;
  void begin(std::vector<Input>& inputs);

  core::RowSource& source_;
  core::RowSink* const sink_;
  std::vector<Input> inputs_, gradient_inputs_;  // that are being read
  bool is_begun_ = false;
  core::RowSource::Ticket last_ = 0;  // 0: nothing is being read
  Index beside_ = 0;
};

}  // namespace annulus::app
