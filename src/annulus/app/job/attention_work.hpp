// A run of attention alone, or of a slice of it. It reads q, k and v and writes out, lse and statistics. With gradients
// it also reads dout and dlse and writes dq, dk and dv.
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
  /// Waits for what is being read.
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
  /// Memory that rows of a tensor are read into.
  struct Input {
    core::StoredTensor tensor;
    HostSide host;
    store::Spacing spacing;
  };
  /// A tensor that a pass has made, on the host.
  struct HostTensor {
    core::StoredTensor tensor;
    HostSide host;
  };

  const strategies::Schedule& of(PassKind pass) const { return *schedules_.at(pass); }
  core::Interval heads_of(core::StoredTensor tensor) const;
  /// This rank's rows of a tensor, as the tensor numbers them.
  const pattern::StoredRows& rows_of(core::StoredTensor tensor) const;
  /// Bytes of this rank's rows of a tensor, in memory.
  Index bytes_of(core::StoredTensor tensor) const;
  HostTensor on_host(core::StoredTensor tensor, const core::Buffer& buffer, Index begin = 0) const;

  /// Begin to read: start_inputs() q, k and v, start_gradients() dout and dlse. Collective.
  void start_inputs();
  void start_gradients();
  /// Into memory where heads lie `apart` bytes from each other; 0: one after another.
  void start(core::StoredTensor tensor, std::vector<Input>& inputs, void* memory, Index apart = 0);
  /// Waits until these inputs are read, checks them, counts their bytes and copies them to the device. Collective.
  void finish_reading(std::vector<Input>& inputs);
  /// Checks that tensors other than lse are finite, and writes all tensors. Collective.
  void write(store::RowWriter* file, std::vector<HostTensor> tensors);
  void write_statistics(store::RowWriter* file);
  /// With input.lengths, batch entries lie end to end: makes row numbers count from the start of their entry.
  void count_in_entry(HostSide& top_rows) const;
  void drop_statistics();

  const Job& job_;
  core::RowSource& source_;
  const comm::Communicator& comm_;
  const strategies::Slice slice_;                                              // of the tensors in the files
  const pattern::Partition query_rows_;                                        // of every rank; empty: as those of keys
  std::map<PassKind, std::unique_ptr<const strategies::Schedule>> schedules_;  // of the passes that are made
  strategies::Tensors tensors_;
  std::vector<Input> inputs_, gradient_inputs_;  // that are being read
  std::string sink_note_;
  bool reads_ahead_ = false;
  core::RowSource::Ticket last_ = 0;  // 0: nothing is being read
  Index read_ahead_bytes_ = 0;
  FileBytes files_;
};

}  // namespace annulus::app
