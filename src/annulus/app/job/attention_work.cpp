#include "annulus/app/job/attention_work.hpp"

#include <algorithm>

#include "annulus/app/job/input_tensors.hpp"
#include "annulus/app/job/sink_gradients.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/store/finite.hpp"
#include "annulus/store/row_reading.hpp"
#include "annulus/strategies/stored_tensors.hpp"

namespace annulus::app {
namespace {

using core::StoredTensor;

/// Inputs of the forward pass, and inputs that only the backward pass reads.
const std::vector<StoredTensor> forward_inputs{StoredTensor::q, StoredTensor::k, StoredTensor::v};
std::vector<StoredTensor> backward_inputs(const Job& job) {
  if (!job.run.settings.compute.gradients) return {};
  if (!job.run.settings.input.dlse) return {StoredTensor::dout};
  return {StoredTensor::dout, StoredTensor::dlse};
}

Index bytes_of_rows(const strategies::Problem& problem, StoredTensor tensor, Index rows) {
  return problem.shape.batch * rows * strategies::heads_of(problem, tensor) *
         strategies::head_numbers_of(problem, tensor) * strategies::number_bytes_of(problem, tensor);
}

bool lies_like_keys(StoredTensor tensor) { return entry_of(tensor).rows == core::StoredTensorEntry::Rows::key; }

Index bytes_of_rows(const strategies::Problem& problem, const std::vector<StoredTensor>& tensors,
                    strategies::RowCounts rows) {
  Index bytes = 0;
  for (const StoredTensor tensor : tensors)
    bytes += bytes_of_rows(problem, tensor, lies_like_keys(tensor) ? rows.keys : rows.queries);
  return bytes;
}

/// The rows of q on every rank; empty if they are the same as those of k.
pattern::Partition rows_of_q(const Job& job) {
  if (!job.problem.queries) return {};
  pattern::Partition rows = strategies::query_rows(job.problem, job.partition);
  for (pattern::StoredRows& held : rows) held = strategies::in_tensor(job.problem, held);
  return rows;
}

}  // namespace

AttentionWork::AttentionWork(const Job& job, core::RowSource& source, const comm::Communicator& comm)
    : job_(job),
      source_(source),
      comm_(comm),
      slice_(job.slice.value_or(strategies::slice_of(job.problem.shape, strategies::whole_of(job.problem.shape), 0))),
      query_rows_(rows_of_q(job)) {
  if (job.problem.sink) {
    const core::Interval heads = heads_of(StoredTensor::q);
    tensors_.sink.assign(job.sink().begin() + heads.begin, job.sink().begin() + heads.end);
  }
  for (const PassKind pass : passes_of(job.problem)) {
    schedules_[pass] = schedule_of(job, pass);
    const strategies::Schedule* sums = pass == PassKind::forward ? nullptr : schedules_[pass].get();
    strategies::check_ranks(of(PassKind::forward), sums, comm);
  }
}

AttentionWork::~AttentionWork() {
  try {
    if (last_ > 0) source_.wait(last_);
  } catch (const core::Error&) {  // an error in reading does not matter any more: no one needs these rows
  }
}

core::Interval AttentionWork::heads_of(StoredTensor tensor) const {
  const bool keys = entry_of(tensor).heads == core::StoredTensorEntry::Heads::key;
  return keys ? slice_.kv_heads : slice_.query_heads(job_.problem.shape.group());
}

const pattern::StoredRows& AttentionWork::rows_of(StoredTensor tensor) const {
  return query_rows_.empty() || lies_like_keys(tensor) ? rows() : query_rows_[std::size_t(comm_.rank())];
}

Index AttentionWork::bytes_of(StoredTensor tensor) const {
  return bytes_of_rows(job_.problem, tensor, rows_of(tensor).count());
}

void AttentionWork::start(StoredTensor tensor, std::vector<Input>& inputs, void* memory, Index apart) {
  const strategies::Problem& problem = job_.problem;
  const Index numbers = strategies::head_numbers_of(problem, tensor);
  const Index each = strategies::number_bytes_of(problem, tensor), vectors = bytes_of(tensor) / (numbers * each);
  if (apart == 0) apart = numbers * each;
  const Index bytes = vectors == 0 ? 0 : (vectors - 1) * apart + numbers * each;
  Input& input = inputs.emplace_back(Input{tensor, HostSide(memory, bytes), {numbers, apart / each}});
  last_ = source_.start(tensor, store::pieces_of(slice_.batch, rows_of(tensor).intervals(), heads_of(tensor), numbers,
                                                 each, input.host.data(), apart));
}

void AttentionWork::start_inputs() {
  comm::agree(comm_, [&] {
    tensors_.q = core::Buffer("q", bytes_of(StoredTensor::q));
    const strategies::Problem& problem = job_.problem;
    tensors_.kv = core::Buffer("kv", problem.kv_block_bytes(rows().count()));
    const auto kv = strategies::kv_views(problem, tensors_.kv.data(), rows().count());
    inputs_.reserve(3);  // must not reallocate: reads in flight write to these elements' memory
    start(StoredTensor::q, inputs_, tensors_.q.data());
    start(StoredTensor::k, inputs_, kv[0].data, problem.head_kv_bytes());
    start(StoredTensor::v, inputs_, kv[1].data, problem.head_kv_bytes());
  });
}

void AttentionWork::start_gradients() {
  comm::agree(comm_, [&] {
    gradient_inputs_.reserve(2);
    for (const StoredTensor tensor : backward_inputs(job_)) {
      core::Buffer& buffer = tensor == StoredTensor::dout ? tensors_.dout : tensors_.dlse;
      buffer = core::Buffer(std::string(name_of(tensor)), bytes_of(tensor));
      start(tensor, gradient_inputs_, buffer.data());
    }
  });
}

bool AttentionWork::read_ahead() {
  reads_ahead_ = true;
  start_inputs();
  start_gradients();
  return true;
}

void AttentionWork::finish_reading(std::vector<Input>& inputs) {
  comm::agree(comm_, [&] {
    try {
      if (last_ > 0) source_.wait(std::exchange(last_, 0));
    } catch (const core::Error&) {  // reads fail in many ways if the file was replaced or cut short: say that instead
      if (job_.input) store::check_unchanged(job_.input->inspected());
      throw;
    }
  });
  for (Input& input : inputs) {
    check_input(job_, input.tensor, input.host.data(), input.host.bytes(), rows_of(input.tensor).intervals(), comm_,
                input.spacing);
    if (job_.input) files_.read += bytes_of(input.tensor);
    input.host.to_device();
  }
}

void AttentionWork::read_inputs() {
  const comm::Scope scope("the reading of q, k and v");
  if (!reads_ahead_) start_inputs();
  finish_reading(inputs_);
  const core::DType type = job_.problem.type;
  const auto largest = [&](Input& input) {
    return store::largest_magnitude(input.host.data(), type, input.host.bytes() / Index(core::bytes_of(type)),
                                    input.spacing);
  };
  check_scores(job_, largest(inputs_[0]), largest(inputs_[1]), comm_);
  inputs_.clear();
}

void AttentionWork::read_gradients() {
  const comm::Scope scope("the reading of dout");
  if (!reads_ahead_) start_gradients();
  finish_reading(gradient_inputs_);  // if they were read ahead, finish_reading(inputs_) has waited for them already
  gradient_inputs_.clear();
}

layer::LayerMetrics AttentionWork::pass(PassKind pass, const strategies::Progress& progress) {
  const auto run = pass == PassKind::forward      ? strategies::run_forward_pass
                   : pass == PassKind::statistics ? strategies::run_statistics_pass
                                                  : strategies::run_backward_pass;
  return {.attention = run(of(pass), comm_, tensors_, progress)};
}

AttentionWork::HostTensor AttentionWork::on_host(StoredTensor tensor, const core::Buffer& buffer, Index begin) const {
  HostTensor one{tensor, HostSide(buffer.at(begin), bytes_of(tensor))};
  one.host.from_device();
  return one;
}

void AttentionWork::write(store::RowWriter* file, std::vector<HostTensor> tensors) {
  const auto type_of = [&](const HostTensor& one) { return strategies::memory_type_of(job_.problem, one.tensor); };
  for (HostTensor& one : tensors) {
    if (!type_of(one) || one.tensor == StoredTensor::lse) continue;
    check_results(job_, {{std::string(name_of(one.tensor)), one.host.data(), one.host.bytes(), *type_of(one)}},
                  rows_of(one.tensor).intervals(), comm_);
  }
  if (file == nullptr) return;
  const auto write_like = [&](bool keys, const pattern::Partition& all_rows) {
    std::vector<store::RowsOut> rows_out;
    for (HostTensor& one : tensors) {
      if (lies_like_keys(one.tensor) != keys) continue;
      const std::optional<core::DType> type = type_of(one);
      rows_out.push_back({std::string(name_of(one.tensor)), one.host.data(),
                          type ? store::NumberType(*type) : store::NumberType::int64(), slice_.batch,
                          heads_of(one.tensor)});
    }
    if (rows_out.empty()) return;
    file->write(rows_out, all_rows[std::size_t(comm_.rank())].intervals(),
                store::RowOwners(all_rows, job_.is_end_to_end() ? job_.file_shape().sequence : 0));
  };
  write_like(false, query_rows_.empty() ? job_.partition : query_rows_);
  write_like(true, job_.partition);
  for (const HostTensor& one : tensors) {
    const auto spec = std::find_if(job_.results.begin(), job_.results.end(),
                                   [&](const auto& result) { return result.name == name_of(one.tensor); });
    files_.written +=
        one.host.bytes() / strategies::number_bytes_of(job_.problem, one.tensor) * Index(store::bytes_of(spec->type));
  }
}

report::LseFindings AttentionWork::write_outputs(store::RowWriter* file) {
  const comm::Scope scope("the writing of out and lse");
  if (!job_.run.settings.compute.gradients) tensors_.q = tensors_.kv = tensors_.normalizers = {};
  std::vector<HostTensor> outputs{on_host(StoredTensor::out, tensors_.out), on_host(StoredTensor::lse, tensors_.lse)};
  const report::LseFindings findings = look_at_lse(job_, outputs[1].host.data(), comm_);
  write(file, std::move(outputs));
  write_statistics(file);
  return findings;
}

void AttentionWork::write_gradients(store::RowWriter* file) {
  if (job_.problem.sink) sink_note_ = app::sink_note(heads_of(StoredTensor::q).begin, tensors_.sink_sums);
  strategies::Tensors gradients;
  gradients.dq = std::move(tensors_.dq);
  gradients.dkv = std::move(tensors_.dkv);
  tensors_ = std::move(gradients);
  const comm::Scope scope("the writing of dq, dk and dv");
  write(file, {on_host(StoredTensor::dq, tensors_.dq), on_host(StoredTensor::dk, tensors_.dkv),
               on_host(StoredTensor::dv, tensors_.dkv, bytes_of(StoredTensor::dk))});
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

void AttentionWork::show_results(const std::function<void(const ResultRows&)>& look) const {
  const auto show = [&](StoredTensor tensor, const core::Buffer& buffer, Index begin = 0) {
    HostTensor one = on_host(tensor, buffer, begin);
    const strategies::Problem& p = job_.problem;
    look({std::string(name_of(tensor)), rows_of(tensor), one.host.data(), *strategies::memory_type_of(p, tensor),
          strategies::heads_of(p, tensor) * strategies::head_numbers_of(p, tensor)});
  };
  show(StoredTensor::out, tensors_.out);
  show(StoredTensor::lse, tensors_.lse);
  if (!job_.problem.gradients) return;
  show(StoredTensor::dq, tensors_.dq);
  show(StoredTensor::dk, tensors_.dkv);
  show(StoredTensor::dv, tensors_.dkv, bytes_of(StoredTensor::dk));
}

std::string AttentionWork::name(PassKind pass) const {
  return pass == PassKind::forward      ? "the attention"
         : pass == PassKind::statistics ? "the statistics"
                                        : "the backward pass";
}

Index AttentionWork::predicted_bytes(PassKind pass) const {
  const bool has_gradients_early = reads_ahead_ && pass != PassKind::backward;
  return of(pass).predict(comm_.rank()).memory_bytes + read_ahead_bytes_ +
         (has_gradients_early
              ? bytes_of_rows(job_.problem, backward_inputs(job_), of(PassKind::forward).row_counts(comm_.rank()))
              : 0);
}

double AttentionWork::predicted_flops(PassKind pass) const {
  return flops_of(pass, double(of(pass).predict(comm_.rank()).kept), job_.problem.shape);
}

std::vector<Index> AttentionWork::bytes_from(PassKind pass) const { return of(pass).bytes_from(comm_.rank()); }

void AttentionWork::drop_statistics() {
  tensors_.entropy = tensors_.received = tensors_.top_rows = tensors_.top_weights = {};
}

void AttentionWork::count_in_entry(HostSide& top_rows) const {
  auto* const row = static_cast<std::int64_t*>(top_rows.data());
  const Index sequence = job_.file_shape().sequence;
  std::transform(row, row + top_rows.bytes() / Index(sizeof *row), row,
                 [=](std::int64_t one) { return one < 0 ? one : one % sequence; });
}

/// Writes the statistics that the run file asks for, and frees them.
void AttentionWork::write_statistics(store::RowWriter* file) {
  const comm::Scope scope("the writing of the statistics");
  const strategies::Statistics& wanted = job_.problem.statistics;
  std::vector<HostTensor> all;
  if (wanted.entropy) all.push_back(on_host(StoredTensor::entropy, tensors_.entropy));
  if (wanted.received) all.push_back(on_host(StoredTensor::received, tensors_.received));
  if (wanted.top_keys > 0) {
    all.push_back(on_host(StoredTensor::top_rows, tensors_.top_rows));
    if (job_.is_end_to_end()) count_in_entry(all.back().host);
    all.push_back(on_host(StoredTensor::top_weights, tensors_.top_weights));
  }
  if (!all.empty()) write(file, std::move(all));
  drop_statistics();
}

Index input_bytes_of(const Job& job, int rank) {
  const strategies::RowCounts rows{job.held_queries(rank).count(), job.partition[std::size_t(rank)].count()};
  return bytes_of_rows(job.problem, forward_inputs, rows) + bytes_of_rows(job.problem, backward_inputs(job), rows);
}

std::unique_ptr<store::FileRows> input_rows(const Job& job, const comm::Communicator& comm) {
  auto rows = std::make_unique<store::FileRows>();
  comm::agree(comm, [&] {
    if (job.layer) return;
    for (const StoredTensor tensor : input_tensors(job)) {
      store::RowOrigin origin = input_origin(job, tensor);
      store::allow(origin, store::Wanted::any_numbers);  // check_input() checks them later, on all ranks together
      rows->put(tensor, std::move(origin));
    }
  });
  return rows;
}

std::unique_ptr<Work> make_work(const Job& job, core::RowSource& source, const comm::Communicator& comm) {
  if (job.layer) return make_layer_work(job, comm);
  return std::make_unique<AttentionWork>(job, source, comm);
}

}  // namespace annulus::app
