// A run of a layer: it reads x and weights and writes y; with gradients it also reads dy and writes all gradients.
#include "annulus/app/job/host_side.hpp"
#include "annulus/app/job/layer_tensors.hpp"
#include "annulus/app/job/work.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/layer/predict.hpp"
#include "annulus/store/finite.hpp"

namespace annulus::app {
namespace {

class LayerWork : public Work {
 public:
  LayerWork(const Job& job, const comm::Communicator& comm)
      : job_(job), comm_(comm), layer_(*job.layer, *job.strategy, comm) {}

  void read_inputs() override {
    weights_ = load_weights(job_, layer_.problem(), comm_);
    x_ = load_rows(job_, layer_, job_.run.settings.layer->x, comm_);
    files_.read += input_bytes();
  }

  /// `pass` is forward or backward: a run file that asks for statistics of a layer is refused.
  layer::LayerMetrics pass(PassKind pass, const strategies::Progress& progress) override {
    if (pass == PassKind::forward) {
      forward_ = layer_.forward(weights_, x_, progress);
      return forward_.metrics;
    }
    backward_ = layer_.backward(weights_, x_, std::exchange(forward_.saved, {}), dy_, progress);
    return backward_.metrics;
  }

  /// Also checks whether scores may overflow. This is not possible earlier, because the layer makes q and k itself.
  report::LseFindings write_outputs(store::RowWriter* file) override {
    write("y", forward_.y, file);
    forward_.y = {};
    const strategies::Tensors& saved = forward_.saved;
    const core::DType type = job_.problem.type;
    const Index each = Index(core::bytes_of(type)), kv_bytes = saved.kv.bytes() / 2;
    HostSide q(saved.q), k(saved.kv.data(), kv_bytes), lse(saved.lse);
    for (HostSide* side : {&q, &k, &lse}) side->from_device();
    check_scores(job_, store::largest_magnitude(q.data(), type, saved.q.bytes() / each),
                 store::largest_magnitude(k.data(), type, kv_bytes / each), comm_);
    return lse_findings(job_, lse.data(), saved.lse.bytes() / Index(core::bytes_of(core::lse_type(type))), comm_);
  }

  void read_gradients() override {
    dy_ = load_rows(job_, layer_, job_.run.settings.layer->dy, comm_);
    files_.read += dy_.bytes();
  }

  void write_gradients(store::RowWriter* file) override {
    weights_ = {};
    x_ = dy_ = {};
    write("dx", backward_.dx, file);
    const layer::LayerProblem& problem = layer_.problem();
    write_weights("d", backward_.gradients, problem,
                  fmt::format("on rank {}, {}", comm_.rank(), causes_of_no_number(job_.problem)), comm_, file);
    if (file == nullptr) return;
    for (const layer::Weight weight : layer::all_weights) {
      if (!problem.has(weight)) continue;
      files_.written += layer::written(problem, weight, comm_.rank(), comm_.size()).count() * result_number_bytes();
    }
  }

  bool share_inputs(const Work&) override { return false; }  // each sharding keeps other parts of weights on a rank

  Index input_bytes() const override {
    Index bytes = x_.bytes() + dy_.bytes();
    for (const layer::Weight weight : layer::all_weights) bytes += weights_[weight].bytes();
    return bytes;
  }

  void drop_results() override {
    forward_ = {};
    backward_ = {};
  }

  const pattern::StoredRows& rows() const override { return layer_.rows(); }

  std::string name(PassKind pass) const override {
    return pass == PassKind::backward ? "the layer's backward pass" : "the layer";
  }

  Index predicted_bytes(PassKind pass) const override {
    const auto memory = layer::predict_memory(layer_.problem(), *job_.strategy, layer_.partition(), comm_.rank());
    return pass == PassKind::backward ? memory.backward : memory.forward;
  }

  double predicted_flops(PassKind pass) const override {
    const auto cost = layer::predict_attention(layer_.problem(), *job_.strategy, layer_.partition(), comm_.rank(),
                                               pass == PassKind::backward);
    return flops_of(pass, double(cost.kept), job_.problem.shape);
  }

  std::vector<Index> bytes_from(PassKind pass) const override {
    return layer::attention_bytes_from(layer_.problem(), *job_.strategy, layer_.partition(), comm_.rank(),
                                       pass == PassKind::backward);
  }

  FileBytes file_bytes() const override { return files_; }

 private:
  void write(const std::string& name, const core::Buffer& rows, store::RowWriter* file) {
    const comm::Scope scope("the writing of " + name);
    HostSide host(rows);
    host.from_device();
    check_result(job_, name, {host.data(), job_.problem.type}, rows.bytes(), layer_.rows().intervals(), comm_);
    if (file == nullptr) return;
    const Index entry_rows = job_.is_end_to_end() ? job_.file_shape().sequence : 0;
    file->write({{name, host.data(), job_.problem.type, core::Interval{0, job_.problem.shape.batch}}},
                layer_.rows().intervals(), store::RowOwners(layer_.partition(), entry_rows));
    files_.written += rows.bytes() / Index(core::bytes_of(job_.problem.type)) * result_number_bytes();
  }

  Index result_number_bytes() const { return Index(bytes_of(job_.results.front().type)); }

  const Job& job_;
  const comm::Communicator& comm_;
  const layer::Layer layer_;
  layer::Weights weights_;
  core::Buffer x_, dy_;
  layer::ForwardResult forward_;
  layer::BackwardResult backward_;
  FileBytes files_;
};

}  // namespace

std::unique_ptr<Work> make_layer_work(const Job& job, const comm::Communicator& comm) {
  return std::make_unique<LayerWork>(job, comm);
}

}  // namespace annulus::app
