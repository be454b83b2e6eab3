// onesided: K and V are exposed once; every rank reads the rows it needs straight out of the other ranks' memory, a few
// owners ahead of the kernel, in the order of the rotation: rank - 1, rank - 2, ... Nobody sends, so no rank waits for
// another's compute: ranks meet when the windows are filled, and again before they are freed.
//
// Backward: sums for other ranks' rows are added into these ranks' windows (MPI_Accumulate), in whatever order ranks
// get there. So nobody waits before the end, where each owner must, and the last bits of dk and dv differ from run to
// run.
#include <algorithm>
#include <array>
#include <deque>

#include "annulus/comm/window.hpp"
#include "annulus/strategies/cargo.hpp"
#include "annulus/strategies/hop_backward.hpp"
#include "annulus/strategies/make.hpp"

namespace annulus::strategies {
namespace {

using pattern::Cargo;
using pattern::Hops;

constexpr std::size_t depth = 2;          // reads under way while the kernel works on a block
constexpr std::size_t slots = depth + 1;  // buffers: for those, and for the block in hand

/// All rows of a rank as its window stores them: interval after interval, head after head. Rows of a head that follow
/// one another are one stretch of memory, so a dense block is read in 2 B Hkv long pieces instead of one per row.
Cargo window_cargo(const Problem& problem, const pattern::StoredRows& rows) {
  Cargo all;
  for (const core::Interval& interval : rows.intervals()) {
    const std::vector<pattern::Part> whole{{interval.begin, 1, interval.size()}};
    all.push_back({interval, std::vector<std::vector<pattern::Part>>(std::size_t(problem.shape.kv_heads), whole)});
  }
  return all;
}

/// Hops (counted from 0) that bring anything: what is read, in this order.
std::vector<std::size_t> reads(const Hops& hops) {
  std::vector<std::size_t> all;
  for (std::size_t h = 0; h < hops.size(); ++h) {
    if (!hops[h].receive.empty()) all.push_back(h);
  }
  return all;
}

/// Bytes of the buffers; the i-th read lands in buffer i mod slots.
std::array<Index, slots> slot_bytes(const Problem& problem, const Hops& hops) {
  std::array<Index, slots> bytes{};
  std::size_t i = 0;
  for (const std::size_t h : reads(hops)) {
    Index& slot = bytes[i++ % slots];
    slot = std::max(slot, cargo_bytes(problem, hops[h].receive));
  }
  return bytes;
}

/// A copy of the rank's K and V, unless nobody reads any of it.
Index window_bytes(const Problem& problem, const pattern::StoredRows& rows, const Hops& hops) {
  const bool read = std::any_of(hops.begin(), hops.end(), [](const auto& hop) { return !hop.send.empty(); });
  return read ? cargo_bytes(problem, window_cargo(problem, rows)) : 0;
}

/// The hops of one pass, for predict_hops().
Lanes lane(const pattern::Layout& layout, const pattern::Partition& partition, int rank) {
  return {pattern::rotation_hops(layout, partition, rank)};
}

/// Copies K and V into the window one part (K or V of a batch entry) after another, so that the detour over a buffer
/// stays smaller than the running softmax and the results, which need their memory later.
void fill(const Problem& problem, const KeyBlock& own, const Cargo& cargo, comm::Window& window) {
  if (window.bytes() == 0) return;
  const std::vector<kernels::RowCopy> copies = collect(problem, own, cargo);
  const Index parts = 2 * problem.shape.batch, held = pattern::head_rows(cargo), unit = problem.head_row_bytes();
  const core::Buffer packed("window part", held * unit);
  for (Index part = 0; part < parts; ++part) {
    auto* source = static_cast<std::byte*>(own.data) + part * packed.bytes();
    kernels::gather_rows(copies, {source, 1, held, unit}, {packed.data(), 1, held, unit});
    window.write(part * packed.bytes(), packed.data(), packed.bytes());
  }
}

/// The rows of a hop as runs of the window of the rank that owns them, and the rows of that window.
struct WindowRuns {
  std::vector<comm::RowRun> runs;
  Index held = 0;
};
WindowRuns window_runs(const Problem& problem, const pattern::StoredRows& owner, const Cargo& cargo) {
  const Cargo window = window_cargo(problem, owner);
  WindowRuns found{{}, pattern::head_rows(window)};
  for (const kernels::RowCopy& copy :
       collect(problem, {nullptr, found.held, pattern::KeyRows::packed(window)}, cargo)) {
    found.runs.push_back({copy.from, copy.stride, copy.count});
  }
  return found;
}

/// Reads blocks of a pass ahead of the kernel. Read i belongs to hop reads(hops)[i].
class Reader {
 public:
  Reader(const Problem& problem, const pattern::Partition& partition, const Hops& hops, const comm::Window& window,
         core::RankMetrics& metrics)
      : problem_(problem), partition_(partition), hops_(hops), order_(reads(hops)), metrics_(metrics) {
    const std::array<Index, slots> bytes = slot_bytes(problem, hops);
    for (std::size_t i = 0; i < slots; ++i) {
      buffers_[i] = core::Buffer("prefetch buffers", bytes[i]);
      reads_.emplace_back(window);
    }
  }

  std::size_t count() const { return order_.size(); }
  core::HopMetrics& metrics(std::size_t i) { return metrics_.hops[order_[i] + 1]; }
  const pattern::Hop& hop(std::size_t i) const { return hops_[order_[i]]; }

  /// Starts read i. Its buffer is free again when the kernel is done with read i - slots.
  void start(std::size_t i) {
    const double begin = core::wall_seconds();
    const pattern::Hop& hop = hops_[order_[i]];
    const WindowRuns source = window_runs(problem_, partition_[std::size_t(hop.receive_from)], hop.receive);
    const Index rows = pattern::head_rows(hop.receive);
    metrics(i).bytes_received +=
        reads_[i % slots].start(hop.receive_from, source.held, source.runs,
                                kv_block(problem_, buffers_[i % slots].data(), rows, problem_.head_row_bytes()));
    metrics(i).rows_received += rows;
    metrics(i).wait_seconds += core::wall_seconds() - begin;  // inside a node the copy itself is done here
  }
  /// The block that read i brings; waits for it.
  KeyBlock take(std::size_t i) {
    core::timed_wait(metrics(i), [&] { reads_[i % slots].wait(); });
    const Cargo& cargo = hops_[order_[i]].receive;
    return {buffers_[i % slots].data(), pattern::head_rows(cargo), pattern::KeyRows::packed(cargo)};
  }
  void progress() {
    for (comm::WindowRead& read : reads_) read.progress();
  }

 private:
  const Problem& problem_;
  const pattern::Partition& partition_;
  const Hops& hops_;
  std::vector<std::size_t> order_;
  core::RankMetrics& metrics_;
  std::array<core::Buffer, slots> buffers_;
  std::deque<comm::WindowRead> reads_;  // behind the buffers: when an error unwinds, reads end before they do
};

/// Own rows, then owner after owner: step s works on read s - 1 while reads s ... s + depth - 1 are under way. Calls
/// work(step, block, place, metrics).
template <class Work>
void walk(Reader& reader, const KeyBlock& own, core::RankMetrics& metrics, Work&& work) {
  std::size_t started = 0;
  for (std::size_t step = 0; step <= reader.count(); ++step) {
    while (started < std::min(step + depth, reader.count())) reader.start(started++);
    if (step == 0) {
      work(step, own, "own rows", metrics.hops[0]);
    } else {
      const KeyBlock block = reader.take(step - 1);
      work(step, block, fmt::format("read {} of {}", step, reader.count()), reader.metrics(step - 1));
    }
  }
}

constexpr std::size_t sum_blocks = 2;  // one in which the kernel adds up, one on its way

/// Bytes of the blocks of sums; those for the i-th read are in block i mod sum_blocks.
std::array<Index, sum_blocks> sum_bytes(const Problem& problem, const Hops& hops) {
  std::array<Index, sum_blocks> bytes{};
  std::size_t i = 0;
  for (const std::size_t h : reads(hops)) {
    Index& block = bytes[i++ % sum_blocks];
    block = std::max(block, gradient_bytes(problem, hops[h].receive));
  }
  return bytes;
}

/// Sums for other ranks' rows, on their way into these ranks' windows.
class Adder {
 public:
  Adder(const Problem& problem, const pattern::Partition& partition, const Hops& hops, const comm::Window& window)
      : problem_(problem), partition_(partition) {
    const std::array<Index, sum_blocks> bytes = sum_bytes(problem, hops);
    for (std::size_t i = 0; i < sum_blocks; ++i) {
      blocks_[i] = core::Buffer("gradient buffers", bytes[i]);
      adds_.emplace_back(window);
    }
  }

  /// Zeros for the rows of read i; waits until the block is free.
  GradientBlock begin(std::size_t i, const pattern::Hop& hop, core::HopMetrics& metrics) {
    wait(i, metrics);
    const GradientBlock zeros{blocks_[i % sum_blocks].data(), pattern::head_rows(hop.receive), true};
    core::fill_zero(zeros.data, zeros.bytes(problem_));
    return zeros;
  }
  /// Sends the sums for read i to their owner.
  void start(std::size_t i, const pattern::Hop& hop, core::HopMetrics& metrics) {
    const double start = core::wall_seconds();
    const WindowRuns target = window_runs(problem_, partition_[std::size_t(hop.receive_from)], hop.receive);
    const comm::RowBlock sums = kv_block(problem_, blocks_[i % sum_blocks].data(), pattern::head_rows(hop.receive),
                                         problem_.head_row_sum_bytes());
    adds_[i % sum_blocks].start(hop.receive_from, target.held, target.runs, sums, problem_.precision);
    metrics.bytes_sent += sums.bytes();
    metrics.wait_seconds += core::wall_seconds() - start;  // inside a node the addition itself is done here
  }
  void wait(std::size_t i, core::HopMetrics& metrics) {
    core::timed_wait(metrics, [&] { adds_[i % sum_blocks].wait(); });
  }
  void progress() {
    for (comm::WindowAdd& add : adds_) add.progress();
  }

 private:
  const Problem& problem_;
  const pattern::Partition& partition_;
  std::array<core::Buffer, sum_blocks> blocks_;
  std::deque<comm::WindowAdd> adds_;  // behind the blocks: when an error unwinds, accesses end before they do
};

/// Bytes of a window for sums, one for each number of the K/V window.
Index sum_window_bytes(const Problem& problem, const pattern::StoredRows& rows, const Hops& hops) {
  return window_bytes(problem, rows, hops) > 0 ? key_sum_bytes(problem, rows.count()) : 0;
}

/// Adds what the other ranks have left in the window to the sums for the own rows, one part (dK or dV of a batch entry)
/// after another.
void add_window(const Problem& problem, const pattern::StoredRows& rows, const comm::Window& window,
                const GradientBlock& own) {
  if (window.bytes() == 0) return;
  const std::vector<kernels::RowCopy> copies =
      collect(problem, {nullptr, rows.count(), pattern::KeyRows::raw(rows)}, window_cargo(problem, rows));
  const kernels::RowArray all = own.head_rows(problem);
  const core::Buffer part("gradient buffers", all.held * all.row_bytes);
  for (Index i = 0; i < all.parts; ++i) {
    window.read(i * part.bytes(), part.data(), part.bytes());
    kernels::add_rows(copies, {part.data(), 1, all.held, all.row_bytes},
                      {static_cast<std::byte*>(all.data) + i * part.bytes(), 1, all.held, all.row_bytes},
                      problem.precision);
  }
}

class Onesided final : public Strategy {
 public:
  std::string_view name() const override { return "onesided"; }
  std::string_view description() const override {
    return "ranks read K and V out of each other's memory (MPI RMA): no rank waits for another's compute";
  }

  pattern::Partition partition(const Problem& problem, int ranks) const override {
    return ordered_partition(problem, ranks);
  }
  std::string unavailable() const override { return comm::window_defect(); }
  std::string not_reproducible(const Problem& problem, int) const override { return disorder_of(problem); }
  std::string not_reproducible_gradients(const Problem&, int) const override {
    return "ranks add dk and dv up in each other's memory, in whatever order they get there";
  }

  CommunicationShape communication(const Problem&, int) const override { return {Movement::window}; }
  Prediction predict(const Problem& problem, const pattern::Partition& partition, int rank) const override {
    const pattern::StoredRows& rows = partition[std::size_t(rank)];
    Prediction prediction = predict_hops(problem, partition, lane, rank);  // the same rows as in rotation
    Index most = 0;
    for (const Problem& pass : passes(problem)) {
      Index buffers = 0;
      for (const Index bytes : slot_bytes(pass, lane(pass.layout(), partition, rank)[0])) buffers += bytes;
      most = std::max(most, buffers);
    }
    const Hops hops = pattern::rotation_hops(problem.layout(), partition, rank);
    prediction.memory_bytes = local_memory(problem, rows.count(), most) + window_bytes(problem, rows, hops);
    return prediction;
  }

  core::RankMetrics forward(const Problem& problem, const pattern::Partition& partition, const comm::Communicator& comm,
                            Tensors& tensors, const Progress& progress) const override {
    const pattern::StoredRows& rows = partition[std::size_t(comm.rank())];
    const Hops all_hops = pattern::rotation_hops(problem.layout(), partition, comm.rank());
    core::RankMetrics metrics{rows.count(), {{}}};
    const KeyBlock own = own_block(tensors, rows);
    comm::Window window(comm, "kv window", window_bytes(problem, rows, all_hops));
    fill(problem, own, window_cargo(problem, rows), window);
    core::timed_wait(metrics.hops[0], [&] { window.publish(); });

    Computation computation(problem, rows, tensors, predict(problem, partition, comm.rank()).kept, progress);
    for (const Problem& pass : passes(problem)) {
      const Hops hops = pattern::rotation_hops(pass.layout(), partition, comm.rank());
      metrics.hops.resize(std::max(metrics.hops.size(), hops.size() + 1));
      for (std::size_t h = 0; h < hops.size(); ++h) metrics.hops[h + 1].bytes_sent += cargo_bytes(pass, hops[h].send);
      computation.begin(pass, metrics.hops[0]);
      Reader reader(pass, partition, hops, window, metrics);
      walk(reader, own, metrics, [&](std::size_t step, const KeyBlock& block, const std::string& place, auto& hop) {
        const core::Mask part = step == 0 ? pass.first_part() : core::Mask::all;
        computation.add(block, part, place, hop, [&] { reader.progress(); });
      });
      if (pass.has_last_part()) computation.add(own, core::Mask::after, "own rows", metrics.hops[0]);
    }
    computation.finish(metrics.hops.back());
    window.close();  // behind the results: the others may read for a while yet
    return metrics;
  }

  Prediction predict_backward(const Problem& problem, const pattern::Partition& partition, int rank) const override {
    const pattern::StoredRows& rows = partition[std::size_t(rank)];
    const BackwardLanes lanes = backward_lanes(problem, partition, rank);
    const Hops& hops = lanes.keys[0];
    Prediction prediction = predict_backward_hops(problem, partition, lanes, rank);  // the same rows as in rotation
    Index buffers = 0;
    for (const Index bytes : slot_bytes(problem, hops)) buffers += bytes;
    for (const Index bytes : sum_bytes(problem, hops)) buffers += bytes;
    const Index sums = sum_window_bytes(problem, rows, hops);
    buffers = std::max(buffers, sums / (2 * problem.shape.batch));  // at the end, a part of the window
    prediction.memory_bytes =
        backward_memory(problem, rows.count(), buffers) + window_bytes(problem, rows, hops) + sums;
    return prediction;
  }

  core::RankMetrics backward(const Problem& problem, const pattern::Partition& partition,
                             const comm::Communicator& comm, Tensors& tensors,
                             const Progress& progress) const override {
    const pattern::StoredRows& rows = partition[std::size_t(comm.rank())];
    const Hops hops = pattern::rotation_hops(problem.layout(), partition, comm.rank());
    core::RankMetrics metrics{rows.count(), std::vector<core::HopMetrics>(hops.size() + 1)};
    const KeyBlock own = own_block(tensors, rows);
    comm::Window sums(comm, "gradient window", sum_window_bytes(problem, rows, hops));
    comm::Window window(comm, "kv window", window_bytes(problem, rows, hops));
    sums.clear();
    fill(problem, own, window_cargo(problem, rows), window);
    core::timed_wait(metrics.hops[0], [&] {
      sums.publish();
      window.publish();
    });

    BackwardComputation computation(problem, rows, tensors, make_delta(problem, rows.count(), tensors),
                                    predict_backward(problem, partition, comm.rank()).kept, progress);
    walk_backward(problem, partition, hops, window, sums, own, computation, metrics);
    core::timed_wait(metrics.hops.back(),
                     [&] { sums.collect(); });  // the one place where a rank waits for the others' compute
    add_window(problem, rows, sums, computation.own());
    computation.finish(metrics.hops.back());
    sums.close();
    window.close();
    for (std::size_t h = 0; h < hops.size(); ++h) {  // what the others did here
      metrics.hops[h + 1].bytes_sent += cargo_bytes(problem, hops[h].send);
      metrics.hops[h + 1].bytes_received += gradient_bytes(problem, hops[h].send);
      metrics.hops[h + 1].rows_received += pattern::head_rows(hops[h].send);
    }
    return metrics;
  }

 private:
  static BackwardLanes backward_lanes(const Problem& problem, const pattern::Partition& partition, int rank) {
    const Hops hops = pattern::rotation_hops(problem.layout(), partition, rank);
    return {{hops}, {pattern::direct_gradients(hops, rank, int(partition.size()))}};
  }

  static void walk_backward(const Problem& problem, const pattern::Partition& partition, const Hops& hops,
                            const comm::Window& window, const comm::Window& sums, const KeyBlock& own,
                            BackwardComputation& computation, core::RankMetrics& metrics) {
    Reader reader(problem, partition, hops, window, metrics);
    Adder adder(problem, partition, hops, sums);
    const auto poll = [&] {
      reader.progress();
      adder.progress();
    };
    walk(reader, own, metrics, [&](std::size_t step, const KeyBlock& block, const std::string& place, auto& hop) {
      if (step == 0) return computation.add(block, computation.own(), place, hop, poll);
      const std::size_t i = step - 1;
      computation.add(block, adder.begin(i, reader.hop(i), hop), place, hop, poll);
      adder.start(i, reader.hop(i), hop);
    });
    for (std::size_t i = 0; i < sum_blocks; ++i) adder.wait(i, metrics.hops.back());
  }
};

}  // namespace

std::unique_ptr<Strategy> make_onesided() { return std::make_unique<Onesided>(); }

}  // namespace annulus::strategies
