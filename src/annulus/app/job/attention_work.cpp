// A run of attention alone: q, k and v in, out, lse and statistics out; with gradients dout in, dq, dk and dv out.
#include "annulus/app/job/attention_work.hpp"

#include <algorithm>

#include "annulus/app/job/input_tensors.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/io/finite.hpp"
#include "annulus/io/generated.hpp"

namespace annulus::app {
using core::StoredTensor;

AttentionWork::AttentionWork(const Job& job, const comm::Communicator& comm) : job_(job), comm_(comm) {
  for (const PassKind pass : passes_of(job.problem)) {
    schedules_[pass] = schedule_of(job, pass);
    const strategies::Schedule* sums = pass == PassKind::forward ? nullptr : schedules_[pass].get();
    strategies::check_ranks(of(PassKind::forward), sums, comm);
  }
}

std::vector<AttentionWork::Input> AttentionWork::make_inputs() {
  const Index kv_bytes = numbers_of_rows() * job_.problem.kv_row_bytes();
  std::vector<Input> inputs;
  comm::agree(comm_, [&] {
    tensors_.q = core::Buffer("q", numbers_of_rows() * job_.problem.query_row_bytes());
    tensors_.kv = core::Buffer("kv", 2 * kv_bytes);
    inputs.push_back({StoredTensor::q, HostSide(tensors_.q)});
    inputs.push_back({StoredTensor::k, HostSide(tensors_.kv.data(), kv_bytes)});
    inputs.push_back({StoredTensor::v, HostSide(tensors_.kv.at(kv_bytes), kv_bytes)});
  });
  return inputs;
}

std::vector<AttentionWork::Input> AttentionWork::make_gradient_inputs() {
  std::vector<Input> inputs;
  comm::agree(comm_, [&] {
    tensors_.dout = core::Buffer("dout", numbers_of_rows() * job_.problem.query_row_bytes());
    inputs.push_back({StoredTensor::dout, HostSide(tensors_.dout)});
    if (!job_.run.settings.input.dlse) return;
    tensors_.dlse = core::Buffer("dlse", numbers_of_rows() * job_.problem.lse_row_bytes());
    inputs.push_back({StoredTensor::dlse, HostSide(tensors_.dlse)});
  });
  return inputs;
}

void AttentionWork::take(std::vector<Input>& inputs) {
  for (Input& input : inputs) {
    if (job_.input) files_.read += input.host.bytes();
    input.host.to_device();
  }
}

void AttentionWork::read_inputs() {
  const comm::Scope scope("the reading of q, k and v");
  std::vector<Input> inputs = make_inputs();
  fill(inputs);
  look_at_inputs(inputs);
}

void AttentionWork::look_at_inputs(std::vector<Input>& inputs) {
  take(inputs);
  const core::DType type = job_.problem.type;
  const auto largest = [&](Input& input) {
    return io::largest_magnitude(input.host.data(), type, input.host.bytes() / Index(core::bytes_of(type)));
  };
  check_scores(job_, largest(inputs[0]), largest(inputs[1]), comm_);
}

layer::LayerMetrics AttentionWork::pass(PassKind pass, const strategies::Progress& progress) {
  const auto run = pass == PassKind::forward      ? strategies::run_forward_pass
                   : pass == PassKind::statistics ? strategies::run_statistics_pass
                                                  : strategies::run_backward_pass;
  return {.attention = run(of(pass), comm_, tensors_, progress)};
}

LseFindings AttentionWork::write_outputs(const io::ResultFile* file) {
  const comm::Scope scope("the writing of out and lse");
  if (!job_.run.settings.compute.gradients) tensors_.q = tensors_.kv = tensors_.normalizers = {};
  HostSide out(tensors_.out), lse(tensors_.lse);
  out.from_device();
  lse.from_device();
  check_results(job_, {{"out", out.data(), tensors_.out.bytes(), job_.problem.type}}, rows().intervals(), comm_);
  const LseFindings findings = look_at_lse(job_, lse.data(), comm_);
  write(file, {{"out", out.data(), job_.problem.type}, {"lse", lse.data()}});
  write_statistics(file);
  return findings;
}

void AttentionWork::read_gradients() {
  const comm::Scope scope("the reading of dout");
  std::vector<Input> inputs = make_gradient_inputs();
  fill(inputs);
  take(inputs);
}

void AttentionWork::write_gradients(const io::ResultFile* file) {
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
  write(file, {{"dq", dq.data(), type}, {"dk", dk.data(), type}, {"dv", dv.data(), type}});
}

bool AttentionWork::share_inputs(const Work& other) {
  const auto* known = dynamic_cast<const AttentionWork*>(&other);
  if (known == nullptr) return false;
  const strategies::Tensors& theirs = known->tensors_;
  tensors_.q = theirs.q;
  tensors_.kv = theirs.kv;
  tensors_.dout = theirs.dout;
  tensors_.dlse = theirs.dlse;
  return true;
}

Index AttentionWork::input_bytes() const {
  return tensors_.q.bytes() + tensors_.kv.bytes() + tensors_.dout.bytes() + tensors_.dlse.bytes();
}

void AttentionWork::drop_results() {
  tensors_.out = tensors_.lse = tensors_.normalizers = tensors_.dq = tensors_.dkv = {};
  drop_statistics();
}

void AttentionWork::show_results(const std::function<void(const MadeRows&)>& look) const {
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

std::string AttentionWork::name(PassKind pass) const {
  return pass == PassKind::forward      ? "the attention"
         : pass == PassKind::statistics ? "the statistics"
                                        : "the backward pass";
}

Index AttentionWork::predicted_bytes(PassKind pass) const { return of(pass).predict(comm_.rank()).memory_bytes; }

double AttentionWork::predicted_flops(PassKind pass) const {
  return flops_of(pass, double(of(pass).predict(comm_.rank()).kept), job_.problem.shape.head_dim);
}

std::vector<Index> AttentionWork::bytes_from(PassKind pass) const { return of(pass).bytes_from(comm_.rank()); }

void AttentionWork::drop_statistics() {
  tensors_.entropy = tensors_.received = tensors_.top_rows = tensors_.top_weights = {};
}

/// Those that were asked for, and frees them.
void AttentionWork::write_statistics(const io::ResultFile* file) {
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
  if (!all.empty()) write(file, all);
  drop_statistics();
}

void AttentionWork::fill(std::vector<Input>& inputs) {
  const io::InputSettings& input = job_.run.settings.input;
  if (job_.input) {
    std::vector<io::RowsIn> reads;
    for (Input& one : inputs) reads.push_back({dataset_of(input, one.tensor), one.host.data()});
    job_.input->read(reads, rows().intervals(), comm_);
    return;
  }
  for (Input& one : inputs) {
    io::fill_generated(*input.generate, seeded_id(one.tensor), rows().intervals(), one.host.data());
  }
}

void AttentionWork::write(const io::ResultFile* file, const std::vector<io::RowsOut>& tensors) {
  if (file == nullptr) return;
  file->write(tensors, rows().intervals());
  for (const io::RowsOut& tensor : tensors) files_.written += stored_bytes(tensor.dataset);
}

const io::TensorSpec& AttentionWork::result(const std::string& dataset) const {
  const auto& all = job_.results;
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& spec) { return spec.name == dataset; });
  core::require(found != all.end(), [&] { return "the result has no dataset " + dataset; });
  return *found;
}

Index AttentionWork::stored_bytes(const std::string& dataset) const {
  const core::Shape& s = job_.problem.shape;
  const io::TensorSpec& spec = result(dataset);
  const bool keys = dataset == "dk" || dataset == "dv";
  const Index each = spec.extents.size() == 4 ? spec.extents[3] : 1;
  return numbers_of_rows() * (keys ? s.kv_heads : s.heads) * each * Index(bytes_of(spec.type));
}

std::unique_ptr<Work> make_work(const Job& job, const comm::Communicator& comm) {
  if (job.layer) return make_layer_work(job, comm);
  return std::make_unique<AttentionWork>(job, comm);
}

}  // namespace annulus::app
