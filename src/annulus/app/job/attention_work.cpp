#include <algorithm>
#include <map>

#include "annulus/app/job/host_side.hpp"
#include "annulus/app/job/sink_gradients.hpp"
#include "annulus/app/job/work.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/store/finite.hpp"
#include "annulus/store/row_reading.hpp"
#include "annulus/strategies/stored_tensors.hpp"

namespace annulus::app {
namespace {

using core::StoredTensor;

/// The inputs that only the backward pass reads.
std::vector<StoredTensor> backward_inputs(const Job& job) {
  std::vector<StoredTensor> tensors = input_tensors(job);
  tensors.erase(tensors.begin(), tensors.begin() + 3);  // q, k and v
  return tensors;
}

Index bytes_of_rows(const strategies::Problem& problem, StoredTensor tensor, Index rows) {
  return problem.shape.batch * rows * strategies::heads_of(problem, tensor) *
         strategies::head_numbers_of(problem, tensor) * strategies::number_bytes_of(problem, tensor);
}

bool has_rows_of_k(StoredTensor tensor) { return entry_of(tensor).rows == core::StoredTensorEntry::Rows::key; }

Index bytes_of_rows(const strategies::Problem& problem, const std::vector<StoredTensor>& tensors,
                    strategies::RowCounts rows) {
  Index bytes = 0;
  for (const StoredTensor tensor : tensors)
    bytes += bytes_of_rows(problem, tensor, has_rows_of_k(tensor) ? rows.keys : rows.queries);
  return bytes;
}

/// The rows of q on every rank; empty if they are the rows of k.
pattern::Partition rows_of_q(const Job& job) {
  if (!job.problem.queries) return {};
  pattern::Partition rows = strategies::query_rows(job.problem, job.partition);
  for (pattern::StoredRows& held : rows) held = strategies::in_tensor(job.problem, held);
  return rows;
}

/// A run of attention without a layer, or a slice of such a run (some batch entries, or some heads of one entry). Reads
/// q, k and v, and writes out, lse and statistics. With gradients, also reads dout and, if the run file names it, dlse,
/// and writes dq, dk and dv.
class AttentionWork final : public Work {
 public:
  AttentionWork(const Job& job, core::RowSource& source, const comm::Communicator& comm)
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

  /// Waits until the reads in flight have ended, because they write to this object's memory.
  ~AttentionWork() override {
    try {
      if (last_ > 0) source_.wait(last_);
    } catch (const core::Error&) {  // a read error does not matter, because nothing uses these rows any more
    }
  }

  void read_ahead() override {
    reads_ahead_ = true;
    start_inputs();
    start_gradients();
  }

  void read_inputs() override {
    const comm::Scope scope("the reading of q, k and v");
    if (!reads_ahead_) start_inputs();
    finish_reading(inputs_);
    const core::DType type = job_.problem.type;
    const auto largest = [&](HostTensor& input) {
      return store::largest_magnitude(input.host.data(), type, input.host.bytes() / Index(core::bytes_of(type)),
                                      input.spacing);
    };
    largest_q_ = largest(inputs_[0]);
    largest_k_ = largest(inputs_[1]);
    check_scores(job_, largest_q_, largest_k_, comm_);
    inputs_.clear();
  }

  layer::LayerMetrics pass(PassKind pass, const strategies::Progress& progress) override {
    const auto run = pass == PassKind::forward      ? strategies::run_forward_pass
                     : pass == PassKind::statistics ? strategies::run_statistics_pass
                                                    : strategies::run_backward_pass;
    return {.attention = run(of(pass), comm_, tensors_, progress)};
  }

  report::LseFindings write_outputs(store::RowWriter* file) override {
    const comm::Scope scope("the writing of out and lse");
    if (!job_.run.settings.compute.gradients) tensors_.q = tensors_.kv = tensors_.normalizers = {};
    std::vector<HostTensor> outputs{on_host(StoredTensor::out, tensors_.out), on_host(StoredTensor::lse, tensors_.lse)};
    const report::LseFindings findings = look_at_lse(job_, outputs[1].host.data(), comm_);
    write(file, std::move(outputs));
    write_statistics(file);
    return findings;
  }

  void read_gradients() override {
    const comm::Scope scope("the reading of dout");
    if (!reads_ahead_) start_gradients();
    finish_reading(gradient_inputs_);  // if reads_ahead_, read_inputs() has waited for these reads, too
    gradient_inputs_.clear();
  }

  void write_gradients(store::RowWriter* file) override {
    if (job_.problem.sink) sink_note_ = app::sink_note(heads_of(StoredTensor::q).begin, tensors_.sink_sums);
    strategies::Tensors gradients;
    gradients.dq = std::move(tensors_.dq);
    gradients.dkv = std::move(tensors_.dkv);
    tensors_ = std::move(gradients);
    const comm::Scope scope("the writing of dq, dk and dv");
    write(file, {on_host(StoredTensor::dq, tensors_.dq), on_host(StoredTensor::dk, tensors_.dkv),
                 on_host(StoredTensor::dv, tensors_.dkv, bytes_of(StoredTensor::dk))});
  }

  std::string sink_note() const override { return sink_note_; }
  bool share_inputs(const Work& other) override {
    const auto* known = dynamic_cast<const AttentionWork*>(&other);
    if (known == nullptr) return false;
    const strategies::Tensors& theirs = known->tensors_;
    tensors_.q = theirs.q;
    tensors_.kv = theirs.kv;
    tensors_.dout = theirs.dout;
    tensors_.dlse = theirs.dlse;
    largest_q_ = known->largest_q_;
    largest_k_ = known->largest_k_;
    check_scores(job_, largest_q_, largest_k_, comm_);  // the other case may have another scale or precision
    return true;
  }

  Index input_bytes() const override {
    return tensors_.q.bytes() + tensors_.kv.bytes() + tensors_.dout.bytes() + tensors_.dlse.bytes();
  }

  void drop_results() override {
    tensors_.out = tensors_.lse = tensors_.normalizers = tensors_.dq = tensors_.dkv = {};
    drop_statistics();
  }

  const pattern::StoredRows& rows() const override { return job_.partition[std::size_t(comm_.rank())]; }

  std::string name(PassKind pass) const override {
    return pass == PassKind::forward      ? "the attention"
           : pass == PassKind::statistics ? "the statistics"
                                          : "the backward pass";
  }

  Index predicted_bytes(PassKind pass) const override {
    const bool has_backward_inputs = reads_ahead_ && pass != PassKind::backward;
    return of(pass).predict(comm_.rank()).memory_bytes + read_ahead_bytes_ +
           (has_backward_inputs
                ? bytes_of_rows(job_.problem, backward_inputs(job_), of(PassKind::forward).row_counts(comm_.rank()))
                : 0);
  }

  void set_read_ahead_bytes(Index bytes) override { read_ahead_bytes_ = bytes; }

  double predicted_flops(PassKind pass) const override {
    return flops_of(pass, double(of(pass).predict(comm_.rank()).kept), job_.problem.shape);
  }

  std::vector<Index> bytes_from(PassKind pass) const override { return of(pass).bytes_from(comm_.rank()); }
  FileBytes file_bytes() const override { return files_; }

 private:
  /// A tensor in host memory: a result of a pass, or an input, whose rows are read into this memory.
  struct HostTensor {
    StoredTensor tensor;
    HostSide host;
    store::Spacing spacing{};  ///< how an input's numbers lie in memory
  };

  const strategies::Schedule& of(PassKind pass) const { return *schedules_.at(pass); }
  core::Interval heads_of(StoredTensor tensor) const {
    const bool keys = entry_of(tensor).heads == core::StoredTensorEntry::Heads::key;
    return keys ? slice_.kv_heads : slice_.query_heads(job_.problem.shape.group());
  }

  /// This rank's rows of a tensor, with the tensor's own row numbers (q may have other rows than k).
  const pattern::StoredRows& rows_of(StoredTensor tensor) const {
    return query_rows_.empty() || has_rows_of_k(tensor) ? rows() : query_rows_[std::size_t(comm_.rank())];
  }

  /// How many rows of an input this rank reads in each batch entry: of its rows, those that exist (no padding).
  Index rows_read(StoredTensor tensor) const {
    const strategies::Problem& problem = job_.problem;
    const bool keys = has_rows_of_k(tensor);
    if (!problem.key_ranges.empty() && !keys) return rows_of(tensor).count();
    const Index first = problem.queries && !keys ? problem.queries->begin : 0;
    Index rows = 0;
    for (const core::Interval& held : rows_of(tensor).intervals()) {
      const core::Interval part{held.begin + first, held.end + first};
      rows += problem.key_ranges.empty() ? part.size() - pattern::count_in_gaps(problem.documents, {part})
                                         : core::intersect(problem.key_ranges.front(), part).size();
    }
    return rows;
  }

  /// Bytes of memory for this rank's rows of a tensor.
  Index bytes_of(StoredTensor tensor) const { return bytes_of_rows(job_.problem, tensor, rows_of(tensor).count()); }

  /// Copies a result to host memory. In `buffer`, the result starts at byte `begin` (dk and dv are in one buffer).
  HostTensor on_host(StoredTensor tensor, const core::Buffer& buffer, Index begin = 0) const {
    HostTensor one{tensor, HostSide(buffer.at(begin), bytes_of(tensor))};
    one.host.from_device();
    return one;
  }

  /// Begins to read q, k and v; start_gradients() begins to read dout and perhaps dlse. Both are collective.
  void start_inputs() {
    comm::agree(comm_, [&] {
      tensors_.q = core::Buffer("q", bytes_of(StoredTensor::q));
      const strategies::Problem& problem = job_.problem;
      tensors_.kv = core::Buffer("kv", problem.kv_block_bytes(rows().count()));
      const auto kv = strategies::kv_views(problem, tensors_.kv.data(), rows().count());
      inputs_.reserve(3);
      start(StoredTensor::q, inputs_, tensors_.q.data());
      start(StoredTensor::k, inputs_, kv[0].data, problem.head_kv_bytes());
      start(StoredTensor::v, inputs_, kv[1].data, problem.head_kv_bytes());
    });
  }

  void start_gradients() {
    comm::agree(comm_, [&] {
      gradient_inputs_.reserve(2);
      for (const StoredTensor tensor : backward_inputs(job_)) {
        core::Buffer& buffer = tensor == StoredTensor::dout ? tensors_.dout : tensors_.dlse;
        buffer = core::Buffer(std::string(name_of(tensor)), bytes_of(tensor));
        start(tensor, gradient_inputs_, buffer.data());
      }
    });
  }

  /// Begins to read a tensor into `memory`, row by row, and in each row head by head. The numbers of a head begin
  /// `apart` bytes after the numbers of the head before; if `apart` is 0, there are no gaps between heads.
  void start(StoredTensor tensor, std::vector<HostTensor>& inputs, void* memory, Index apart = 0) {
    const strategies::Problem& problem = job_.problem;
    const Index numbers = strategies::head_numbers_of(problem, tensor);
    const Index each = strategies::number_bytes_of(problem, tensor), vectors = bytes_of(tensor) / (numbers * each);
    if (apart == 0) apart = numbers * each;
    const Index bytes = vectors == 0 ? 0 : (vectors - 1) * apart + numbers * each;
    HostTensor& input = inputs.emplace_back(HostTensor{tensor, HostSide(memory, bytes), {numbers, apart / each}});
    last_ = source_.start(tensor, store::pieces_of(slice_.batch, rows_of(tensor).intervals(), heads_of(tensor), numbers,
                                                   each, input.host.data(), apart));
  }

  /// Waits until these inputs are read, checks them, counts their bytes and copies them to the device. Collective.
  void finish_reading(std::vector<HostTensor>& inputs) {
    comm::agree(comm_, [&] {
      try {
        if (last_ > 0) source_.wait(std::exchange(last_, 0));
      } catch (const core::Error&) {  // if the file was replaced or cut short, say so instead
        if (job_.input) store::check_unchanged(job_.input->inspected());
        throw;
      }
    });
    for (HostTensor& input : inputs) {
      check_input(job_, input.tensor, input.host.data(), input.host.bytes(), rows_of(input.tensor).intervals(), comm_,
                  input.spacing);
      if (job_.input) files_.read += bytes_of_rows(job_.problem, input.tensor, rows_read(input.tensor));
      input.host.to_device();
    }
  }

  /// Checks that these tensors are finite, and writes them. Does not check integers, or lse, because look_at_lse() has
  /// checked it. Collective.
  void write(store::RowWriter* file, std::vector<HostTensor> tensors) {
    const auto type_of = [&](const HostTensor& one) { return strategies::memory_type_of(job_.problem, one.tensor); };
    for (HostTensor& one : tensors) {
      if (!type_of(one) || one.tensor == StoredTensor::lse) continue;
      check_result(job_, std::string(name_of(one.tensor)), {one.host.data(), *type_of(one)}, one.host.bytes(),
                   rows_of(one.tensor).intervals(), comm_);
    }
    if (file == nullptr) return;
    const auto write_like = [&](bool keys, const pattern::Partition& all_rows) {
      std::vector<store::RowsOut> rows_out;
      for (HostTensor& one : tensors) {
        if (has_rows_of_k(one.tensor) != keys) continue;
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

  void write_statistics(store::RowWriter* file) {
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

  /// Changes the row numbers in `top_rows`, so that they start at 0 in each batch entry. Call it if all batch entries
  /// form one sequence.
  void count_in_entry(HostSide& top_rows) const {
    auto* const row = static_cast<std::int64_t*>(top_rows.data());
    const Index sequence = job_.file_shape().sequence;
    std::transform(row, row + top_rows.bytes() / Index(sizeof *row), row,
                   [=](std::int64_t one) { return one < 0 ? one : one % sequence; });
  }

  void drop_statistics() { tensors_.entropy = tensors_.received = tensors_.top_rows = tensors_.top_weights = {}; }

  const Job& job_;
  core::RowSource& source_;
  const comm::Communicator& comm_;
  const strategies::Slice slice_;                                              // batch entries and heads to compute
  const pattern::Partition query_rows_;                                        // q's rows per rank; empty: k's rows
  std::map<PassKind, std::unique_ptr<const strategies::Schedule>> schedules_;  // one for each pass of the run
  strategies::Tensors tensors_;
  std::vector<HostTensor> inputs_, gradient_inputs_;  // inputs whose reading has begun
  double largest_q_ = 0, largest_k_ = 0;              // the largest magnitudes in this rank's q and k
  std::string sink_note_;
  bool reads_ahead_ = false;
  core::RowSource::Ticket last_ = 0;  // ticket of the latest read; 0: no read is in flight
  Index read_ahead_bytes_ = 0;
  FileBytes files_;
};

}  // namespace

std::vector<StoredTensor> input_tensors(const Request& request) {
  std::vector<StoredTensor> all{StoredTensor::q, StoredTensor::k, StoredTensor::v};
  if (!request.problem.gradients) return all;
  all.push_back(StoredTensor::dout);
  if (request.run.settings.input.dlse) all.push_back(StoredTensor::dlse);
  return all;
}

store::RowOrigin input_origin(const Request& request, StoredTensor tensor) {
  const runfile::InputSettings& input = request.run.settings.input;
  if (request.input) return store::origin_of(request.input->inspected(), store::dataset_of(input, tensor));
  return store::SeededTensor{*input.generate, store::seed_of(tensor)};
}

void put_inputs(const Request& request, store::Wanted wanted, store::FileRows& rows) {
  for (const StoredTensor tensor : input_tensors(request)) {
    store::RowOrigin origin = input_origin(request, tensor);
    store::allow(origin, wanted);
    rows.put(tensor, std::move(origin));
  }
}

Index input_bytes_of(const Job& job, int rank) {
  const strategies::RowCounts rows{job.held_queries(rank).count(), job.partition[std::size_t(rank)].count()};
  return bytes_of_rows(job.problem, input_tensors(job), rows);
}

std::unique_ptr<store::FileRows> input_rows(const Job& job, const comm::Communicator& comm) {
  auto rows = std::make_unique<store::FileRows>();
  comm::agree(comm, [&] {
    // check_input() checks the numbers later, on all ranks together
    if (!job.layer) put_inputs(job, store::Wanted::any_numbers, *rows);
  });
  return rows;
}

std::unique_ptr<Work> make_work(const Job& job, core::RowSource& source, const comm::Communicator& comm) {
  if (job.layer) return make_layer_work(job, comm);
  return std::make_unique<AttentionWork>(job, source, comm);
}

}  // namespace annulus::app
