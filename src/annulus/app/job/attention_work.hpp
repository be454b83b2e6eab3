// A run of attention alone, or of a slice of it. It reads q, k and v, and writes out, lse and statistics. With
// gradients it also reads dout and dlse, and writes dq, dk and dv.
#pragma once

#include <map>

#include "annulus/app/job/host_side.hpp"
#include "annulus/app/job/work.hpp"
#include "annulus/core/row_store.hpp"
#include "annulus/store/shared_blocks.hpp"

namespace annulus::app {

class AttentionWork : public Work {
 public:
  AttentionWork(const Job& job, core::RowSource& source, const comm::Communicator& comm);
  /// Waits until reads in flight have ended.
  ~AttentionWork() override;

  bool read_ahead() override;
  void read_inputs() override;
  layer::LayerMetrics pass(PassKind pass, const strategies::Progress& progress) override;
  report::LseFindings write_outputs(store::RowWriter* file) override;
  void read_gradients() override;
  void write_gradients(store::RowWriter* file) override;
  std::string sink_note() const override { return sink_note_; }
  bool share_inputs(const Work& other) override;
  Index input_bytes() const override;
  void drop_results() override;
  void show_results(const std::function<void(const ResultRows&)>& look) const override;
  const pattern::StoredRows& rows() const override { return job_.partition[std::size_t(comm_.rank())]; }
  std::string name(PassKind pass) const override;
  Index predicted_bytes(PassKind pass) const override;
  void set_read_ahead_bytes(Index bytes) override { read_ahead_bytes_ = bytes; }
  double predicted_flops(PassKind pass) const override;
  std::vector<Index> bytes_from(PassKind pass) const override;
  FileBytes file_bytes() const override { return files_; }

 private:
  /// Memory into which rows of a tensor are read.
  struct Input {
    core::StoredTensor tensor;
    HostSide host;
    store::Spacing spacing;
  };
  /// A tensor in host memory that a pass has made.
  struct HostTensor {
    core::StoredTensor tensor;
    HostSide host;
  };

  const strategies::Schedule& of(PassKind pass) const { return *schedules_.at(pass); }
  core::Interval heads_of(core::StoredTensor tensor) const;
  /// This rank's rows of a tensor, with the tensor's own row numbers (q may have other rows than k).
  const pattern::StoredRows& rows_of(core::StoredTensor tensor) const;
  /// Bytes of memory for this rank's rows of a tensor.
  Index bytes_of(core::StoredTensor tensor) const;
  HostTensor on_host(core::StoredTensor tensor, const core::Buffer& buffer, Index begin = 0) const;

  /// start_inputs() begins to read q, k and v; start_gradients() dout and dlse. Both are collective.
  void start_inputs();
  void start_gradients();
  /// Begins to read a tensor. In `memory` its heads are `apart` bytes from each other; 0: one directly after another.
  void start(core::StoredTensor tensor, std::vector<Input>& inputs, void* memory, Index apart = 0);
  /// Waits until these inputs are read, checks them, counts their bytes and copies them to the device. Collective.
  void finish_reading(std::vector<Input>& inputs);
  /// Checks that tensors other than lse are finite, and writes all tensors. Collective.
  void write(store::RowWriter* file, std::vector<HostTensor> tensors);
  void write_statistics(store::RowWriter* file);
  /// With input.lengths, batch entries lie end to end: changes row numbers to count from their entry's start.
  void count_in_entry(HostSide& top_rows) const;
  void drop_statistics();

  const Job& job_;
  core::RowSource& source_;
  const comm::Communicator& comm_;
  const strategies::Slice slice_;                                              // of the files' tensors; it is computed
  const pattern::Partition query_rows_;                                        // of every rank; empty: those of keys
  std::map<PassKind, std::unique_ptr<const strategies::Schedule>> schedules_;  // one for each pass of the run
  strategies::Tensors tensors_;
  std::vector<Input> inputs_, gradient_inputs_;  // inputs whose reading has begun
  std::string sink_note_;
  bool reads_ahead_ = false;
  core::RowSource::Ticket last_ = 0;  // of the latest read; 0: none is in flight
  Index read_ahead_bytes_ = 0;
  FileBytes files_;
};

}  // namespace annulus::app
