// A run of attention alone: q, k and v in, out, lse and statistics out; with gradients dout in, dq, dk and dv out.
#include <map>

#include "annulus/app/job/host_side.hpp"
#include "annulus/app/job/work.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/io/finite.hpp"
#include "annulus/io/generated.hpp"

namespace annulus::app {
namespace {

using core::TensorId;

/// One tensor to be filled.
struct Wanted {
  TensorId id;
  std::string dataset;
  HostSide* host;
};

class AttentionWork : public Work {
 public:
  AttentionWork(const Job& job, const comm::Communicator& comm) : job_(job), comm_(comm) {
    for (const PassKind pass : passes_of(job.problem)) {
      schedules_[pass] = schedule_of(job, pass);
      const strategies::Schedule* sums = pass == PassKind::forward ? nullptr : schedules_[pass].get();
      strategies::check_ranks(of(PassKind::forward), sums, comm);
    }
  }

  void read_inputs() override {
    const comm::Scope scope("the reading of q, k and v");
    const Index kv_bytes = numbers_of_rows() * job_.problem.kv_row_bytes();
    comm::agree(comm_, [&] {
      tensors_.q = core::Buffer("q", numbers_of_rows() * job_.problem.query_row_bytes());
      tensors_.kv = core::Buffer("kv", 2 * kv_bytes);
    });
    HostSide q(tensors_.q), k(tensors_.kv.data(), kv_bytes), v(tensors_.kv.at(kv_bytes), kv_bytes);
    const io::InputSettings& input = job_.run.settings.input;
    fill({{TensorId::q, input.q, &q}, {TensorId::k, input.k, &k}, {TensorId::v, input.v, &v}});
    const core::DType type = job_.problem.type;
    const Index each = Index(core::bytes_of(type));
    check_scores(job_, io::largest_magnitude(q.data(), type, tensors_.q.bytes() / each),
                 io::largest_magnitude(k.data(), type, kv_bytes / each), comm_);
  }

  layer::LayerMetrics pass(PassKind pass, const strategies::Progress& progress) override {
    const auto run = pass == PassKind::forward      ? strategies::run_forward_pass
                     : pass == PassKind::statistics ? strategies::run_statistics_pass
                                                    : strategies::run_backward_pass;
    return {.attention = run(of(pass), comm_, tensors_, progress)};
  }

  LseFindings write_outputs(const io::ResultFile* file) override {
    const comm::Scope scope("the writing of out and lse");
    if (!job_.run.settings.compute.gradients) tensors_.q = tensors_.kv = tensors_.normalizers = {};
    HostSide out(tensors_.out), lse(tensors_.lse);
    out.from_device();
    lse.from_device();
    check_results(job_, {{"out", out.data(), tensors_.out.bytes(), job_.problem.type}}, rows().intervals(), comm_);
    const LseFindings findings = look_at_lse(job_, lse.data(), comm_);
    if (file != nullptr) {
      file->write({{"out", out.data(), job_.problem.type}, {"lse", lse.data()}}, rows().intervals());
    }
    write_statistics(file);
    return findings;
  }

  void read_gradients() override {
    const comm::Scope scope("the reading of dout");
    const io::InputSettings& input = job_.run.settings.input;
    comm::agree(comm_, [&] {
      tensors_.dout = core::Buffer("dout", numbers_of_rows() * job_.problem.query_row_bytes());
      if (input.dlse) tensors_.dlse = core::Buffer("dlse", numbers_of_rows() * job_.problem.lse_row_bytes());
    });
    HostSide dout(tensors_.dout), dlse(tensors_.dlse);
    std::vector<Wanted> wanted{{TensorId::dout, input.dout, &dout}};
    if (input.dlse) wanted.push_back({TensorId::dlse, *input.dlse, &dlse});
    fill(wanted);
  }

  void write_gradients(const io::ResultFile* file) override {
    strategies::Tensors gradients;
    gradients.dq = std::move(tensors_.dq);
    gradients.dkv = std::move(tensors_.dkv);
    tensors_ = std::move(gradients);
    const comm::Scope scope("the writing of dq, dk and dv");
    const Index kv_bytes = tensors_.dkv.bytes() / 2;
    HostSide dq(tensors_.dq), dk(tensors_.dkv.data(), kv_bytes), dv(tensors_.dkv.at(kv_bytes), kv_bytes);
    for (HostSide* side : {&dq, &dk, &dv}) side->from_device();
    const core::DType type = job_.problem.type;
    check_results(job_,
                  {{"dq", dq.data(), tensors_.dq.bytes(), type},
                   {"dk", dk.data(), kv_bytes, type},
                   {"dv", dv.data(), kv_bytes, type}},
                  rows().intervals(), comm_);
    if (file == nullptr) return;
    file->write({{"dq", dq.data(), type}, {"dk", dk.data(), type}, {"dv", dv.data(), type}}, rows().intervals());
  }

  bool share_inputs(const Work& other) override {
    const auto* known = dynamic_cast<const AttentionWork*>(&other);
    if (known == nullptr) return false;
    const strategies::Tensors& theirs = known->tensors_;
    tensors_.q = theirs.q;
    tensors_.kv = theirs.kv;
    tensors_.dout = theirs.dout;
    tensors_.dlse = theirs.dlse;
    return true;
  }

  Index input_bytes() const override {
    return tensors_.q.bytes() + tensors_.kv.bytes() + tensors_.dout.bytes() + tensors_.dlse.bytes();
  }

  void drop_results() override {
    tensors_.out = tensors_.lse = tensors_.normalizers = tensors_.dq = tensors_.dkv = {};
    drop_statistics();
  }

  void show_results(const std::function<void(const MadeRows&)>& look) const override {
    const core::Shape& s = job_.problem.shape;
    const core::DType type = job_.problem.type, lse_type = core::lse_type(type);
    const auto show = [&](const char* name, void* data, Index bytes, core::DType of, Index row_numbers) {
      HostSide host(data, bytes);
      host.from_device();
      look({name, host.data(), of, row_numbers});
    };
    show("out", tensors_.out.data(), tensors_.out.bytes(), type, s.heads * s.head_dim);
    show("lse", tensors_.lse.data(), tensors_.lse.bytes(), lse_type, s.heads);
    if (!job_.problem.gradients) return;
    const Index kv_bytes = tensors_.dkv.bytes() / 2, kv_numbers = s.kv_heads * s.head_dim;
    show("dq", tensors_.dq.data(), tensors_.dq.bytes(), type, s.heads * s.head_dim);
    show("dk", tensors_.dkv.data(), kv_bytes, type, kv_numbers);
    show("dv", tensors_.dkv.at(kv_bytes), kv_bytes, type, kv_numbers);
  }

  const pattern::StoredRows& rows() const override { return job_.partition[std::size_t(comm_.rank())]; }

  std::string name(PassKind pass) const override {
    return pass == PassKind::forward      ? "the attention"
           : pass == PassKind::statistics ? "the statistics"
                                          : "the backward pass";
  }

  Index predicted_bytes(PassKind pass) const override { return of(pass).predict(comm_.rank()).memory_bytes; }

  double predicted_flops(PassKind pass) const override {
    return flops_of(pass, double(of(pass).predict(comm_.rank()).kept), job_.problem.shape.head_dim);
  }

  std::vector<Index> bytes_from(PassKind pass) const override { return of(pass).bytes_from(comm_.rank()); }

 private:
  const strategies::Schedule& of(PassKind pass) const { return *schedules_.at(pass); }

  void drop_statistics() { tensors_.entropy = tensors_.received = tensors_.top_rows = tensors_.top_weights = {}; }

  /// Those that were asked for, and frees them.
  void write_statistics(const io::ResultFile* file) {
    const comm::Scope scope("the writing of the statistics");
    const core::DType lse_type = core::lse_type(job_.problem.type);
    std::vector<HostSide> sides;
    std::vector<HostRows> floats;
    std::vector<io::RowsOut> all;
    const auto add = [&](const char* name, const core::Buffer& rows, std::optional<core::DType> type) {
      sides.emplace_back(rows).from_device();
      all.push_back({name, sides.back().data()});
      if (type) floats.push_back({name, all.back().host, rows.bytes(), *type});
    };
    const strategies::Statistics& told = job_.problem.statistics;
    if (told.entropy) add("entropy", tensors_.entropy, lse_type);
    if (told.received) add("received", tensors_.received, core::DType::float64);
    if (told.top_keys > 0) {
      add("top_rows", tensors_.top_rows, std::nullopt);
      add("top_weights", tensors_.top_weights, lse_type);
    }
    check_results(job_, floats, rows().intervals(), comm_);
    if (file != nullptr && !all.empty()) file->write(all, rows().intervals());
    drop_statistics();
  }

  /// Rows of this rank, over all batch entries.
  Index numbers_of_rows() const { return job_.problem.shape.batch * rows().count(); }

  void fill(const std::vector<Wanted>& tensors) const {
    if (job_.input) {
      std::vector<io::RowsIn> reads;
      for (const Wanted& tensor : tensors) reads.push_back({tensor.dataset, tensor.host->data()});
      job_.input->read(reads, rows().intervals(), comm_);
    } else {
      const io::GenerateSettings& what = *job_.run.settings.input.generate;
      for (const Wanted& tensor : tensors) io::fill_generated(what, tensor.id, rows().intervals(), tensor.host->data());
    }
    for (const Wanted& tensor : tensors) tensor.host->to_device();
  }

  const Job& job_;
  const comm::Communicator& comm_;
  std::map<PassKind, std::unique_ptr<const strategies::Schedule>> schedules_;  // of the passes that are made
  strategies::Tensors tensors_;
};

}  // namespace

std::unique_ptr<Work> make_work(const Job& job, const comm::Communicator& comm) {
  if (job.layer) return make_layer_work(job, comm);
  return std::make_unique<AttentionWork>(job, comm);
}

}  // namespace annulus::app
