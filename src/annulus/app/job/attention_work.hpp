// A run of attention alone, or of a slice of it.
#pragma once

#include <map>

#include "annulus/app/job/host_side.hpp"
#include "annulus/app/job/work.hpp"
#include "annulus/core/row_store.hpp"

namespace annulus::app {

class AttentionWork : public Work {
 public:
  AttentionWork(const Job& job, const comm::Communicator& comm);

  void read_inputs() override;
  layer::LayerMetrics pass(PassKind pass, const strategies::Progress& progress) override;
  LseFindings write_outputs(const io::ResultFile* file) override;
  void read_gradients() override;
  void write_gradients(const io::ResultFile* file) override;
  bool share_inputs(const Work& other) override;
  Index input_bytes() const override;
  void drop_results() override;
  void show_results(const std::function<void(const MadeRows&)>& look) const override;
  const pattern::StoredRows& rows() const override { return job_.partition[std::size_t(comm_.rank())]; }
  std::string name(PassKind pass) const override;
  Index predicted_bytes(PassKind pass) const override;
  double predicted_flops(PassKind pass) const override;
  std::vector<Index> bytes_from(PassKind pass) const override;
  FileBytes file_bytes() const override { return files_; }

 protected:
  /// Memory that rows of a tensor are read into.
  struct Input {
    core::StoredTensor tensor;
    HostSide host;
  };

  /// Memory of q, k and v, in this order; of dout and, where it is given, dlse. Collective.
  std::vector<Input> make_inputs();
  std::vector<Input> make_gradient_inputs();
  /// They are read: counts them and brings them to the device.
  void take(std::vector<Input>& inputs);
  /// The same of q, k and v, whose scores must have room in the precision; collective.
  void look_at_inputs(std::vector<Input>& inputs);

  /// This rank's rows, from where they are; collective.
  virtual void fill(std::vector<Input>& inputs);
  /// This rank's rows, to where they go (`file`: nullptr where that is nowhere); collective.
  virtual void write(const io::ResultFile* file, const std::vector<io::RowsOut>& tensors);

  /// Rows of this rank, over all batch entries.
  Index numbers_of_rows() const { return job_.problem.shape.batch * rows().count(); }
  const io::TensorSpec& result(const std::string& dataset) const;
  /// Of these rows in a dataset of the result.
  Index stored_bytes(const std::string& dataset) const;

  const Job& job_;
  const comm::Communicator& comm_;
  FileBytes files_;

 private:
  const strategies::Schedule& of(PassKind pass) const { return *schedules_.at(pass); }
  void drop_statistics();
  void write_statistics(const io::ResultFile* file);

  std::map<PassKind, std::unique_ptr<const strategies::Schedule>> schedules_;  // of the passes that are made
  strategies::Tensors tensors_;
};

}  // namespace annulus::app
