// `annulus plan --calibrate`: measures this machine and writes its machine file.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>

#include "annulus/app/job/describe.hpp"
#include "annulus/app/job/machine.hpp"
#include "annulus/app/stop.hpp"
#include "annulus/app/verbs/verb.hpp"
#include "annulus/comm/activity.hpp"
#include "annulus/comm/exchange.hpp"
#include "annulus/comm/root.hpp"
#include "annulus/comm/runtime.hpp"
#include "annulus/comm/window.hpp"
#include "annulus/core/instruction_set.hpp"
#include "annulus/core/kokkos_compat.hpp"
#include "annulus/core/memory.hpp"
#include "annulus/core/print.hpp"
#include "annulus/core/random.hpp"
#include "annulus/kernels/gather.hpp"
#include "annulus/report/text.hpp"
#include "annulus/runfile/machine_file.hpp"
#include "annulus/store/files/atomic_file.hpp"
#include "annulus/store/files/file_system.hpp"
#include "annulus/strategies/computation.hpp"

namespace annulus::app {
namespace {

using core::Index;

constexpr int repeats = 7;               // the fastest repetition counts
constexpr Index large = Index(4) << 20;  // bytes of a message with which bandwidth is measured
constexpr Index rows_computed = 1024;    // dense, four heads: a kernel call takes some milliseconds on a laptop's cores
constexpr Index most_rows_computed = 32 * rows_computed;
constexpr double long_enough = 3e-3;  // s; such a call has several thread blocks for each multiprocessor of a GPU
constexpr Index rows_of_call = 8;     // so few that the start of a kernel call takes most of its time

/// Seconds that the slowest rank takes for `work` if all ranks start together. The fastest of several repetitions
/// counts.
double slowest(const comm::Communicator& comm, const std::function<void()>& work) {
  work();  // not measured: touches memory for the first time and fills caches
  double least = 0;
  for (int i = 0; i < repeats; ++i) {
    comm.barrier();
    const double start = core::wall_seconds();
    work();
    const double seconds = comm.max(core::wall_seconds() - start);
    least = i == 0 ? seconds : std::min(least, seconds);
  }
  return least;
}

/// The attention kernel without messages: each rank computes its own rows. Attention is dense, or in segments of
/// `segment` rows.
class Kernel {
 public:
  Kernel(Index head_dim, core::DType type, core::Precision precision, Index rows,
         Index segment = pattern::whole_document) {
    problem_.shape = {1, rows, 4, 4, head_dim};
    problem_.type = type;
    problem_.precision = precision;
    problem_.scale = 1 / std::sqrt(double(head_dim));
    problem_.pattern.causal = false;
    problem_.documents = {0, rows};
    problem_.pattern.pairs = {{segment, 1}};
    problem_.backend = kernels::default_backend();
    rows_ = pattern::StoredRows({{0, rows}});
    const Index bytes = rows * problem_.query_row_bytes();
    tensors_.q = core::Buffer("q", bytes);
    tensors_.kv = core::Buffer("kv", 2 * bytes);
    core::fill_zero(tensors_.q.data(), bytes);  // zeros suffice: the kernel's time does not depend on the numbers
    core::fill_zero(tensors_.kv.data(), 2 * bytes);
  }

  double gflop() const {
    return 1e-9 *
           core::forward_flops(double(rows_.count() * rows_.count() * problem_.shape.heads), problem_.shape.head_dim);
  }
  void run(const std::function<void()>& poll = {}, int calls = 1) {
    core::HopMetrics metrics;
    strategies::Computation computation(problem_, rows_, tensors_, 1, {});
    for (int i = 0; i < calls; ++i) {
      computation.add(strategies::own_block(tensors_, rows_), rows_, core::Band::all, "", metrics, poll);
    }
    computation.finish(metrics);
  }

 private:
  strategies::Problem problem_;
  pattern::StoredRows rows_;
  strategies::Tensors tensors_;
};

struct Measured {
  Index rows;
  double seconds_per_gflop;
};
/// Measures the kernel with enough rows (at most most_rows_computed) to keep the slowest rank busy for `long_enough`.
/// If `alone`, only rank 0 computes.
Measured measure_kernel(const comm::Communicator& comm, Index head_dim, core::DType type, core::Precision precision,
                        bool alone = false) {
  for (Index rows = rows_computed;; rows *= 2) {
    Kernel kernel(head_dim, type, precision, rows);
    const double seconds = slowest(comm, [&] {
      if (!alone || comm.is_root()) kernel.run();
    });
    if (seconds >= long_enough || rows == most_rows_computed) return {rows, seconds / kernel.gflop()};
  }
}

double seconds_per_call(const comm::Communicator& comm) {
  constexpr int calls = 200;
  Kernel kernel(64, core::DType::float32, core::Precision::float32, rows_of_call);
  return slowest(comm, [&] { kernel.run({}, calls); }) / calls;
}

/// Seconds for a row of one head, measured with segments so short that their products take almost no time.
double seconds_per_row(const comm::Communicator& comm) {
  Kernel kernel(64, core::DType::float32, core::Precision::float32, 4 * rows_computed, rows_of_call);
  return slowest(comm, [&] { kernel.run(); }) / double(4 * rows_computed * 4);
}

double seconds_per_communicator(const comm::Communicator& comm) {
  constexpr int times = 20;
  const double all = slowest(comm, [&] {
    for (int i = 0; i < times; ++i) const comm::Communicator made = comm.split(0);
  });
  return all / times;
}

double seconds_of_window(const comm::Communicator& comm, const core::Buffer& filled) {
  return slowest(comm, [&] {
    comm::Window window(comm, "calibration", filled.bytes());
    window.write(0, filled.data(), filled.bytes());
    window.publish();
    window.close();
  });
}

core::Link measure_window(const comm::Communicator& comm) {
  const core::Buffer small("rows", 4096), big("rows", 2 * large);
  core::fill_zero(small.data(), small.bytes());
  core::fill_zero(big.data(), big.bytes());
  const double once = seconds_of_window(comm, small), all = seconds_of_window(comm, big);
  return {once, std::max(all - once, 1e-9) / double(big.bytes())};
}

/// Every rank sends to the next rank and receives from the previous rank.
class Shift {
 public:
  Shift(const comm::Communicator& comm, Index bytes)
      : exchange_(comm),
        out_("message", bytes),
        in_("message", bytes),
        sends_{{core::wrap(comm.rank() + 1, comm.size()), block(out_, bytes)}},
        receives_{{core::wrap(comm.rank() - 1, comm.size()), block(in_, bytes)}} {
    core::fill_zero(out_.data(), bytes);
  }
  void start() { exchange_.start(sends_, receives_, 1); }
  void progress() { exchange_.progress(); }
  void wait() { exchange_.wait(); }

 private:
  static comm::RowBlock block(const core::Buffer& buffer, Index bytes) { return {buffer.data(), 1, 1, bytes, {0, 1}}; }
  comm::Exchange exchange_;
  core::Buffer out_, in_;
  std::vector<comm::Message> sends_, receives_;
};

double seconds_of_shift(const comm::Communicator& comm, Index bytes, int times) {
  Shift shift(comm, bytes);
  const double all = slowest(comm, [&] {
    for (int i = 0; i < times; ++i) {
      shift.start();
      shift.wait();
    }
  });
  return all / times;
}

core::Link measure_link(const comm::Communicator& comm) {
  const double latency = seconds_of_shift(comm, 8, 200);
  const double long_message = seconds_of_shift(comm, large, 4);
  return {latency, std::max(long_message - latency, 1e-9) / double(large)};
}

/// Returns the time in which a transfer and the kernel overlap, as a fraction of the shorter of their two times.
double measure_overlap(const comm::Communicator& comm, Index rows) {
  Kernel kernel(64, core::DType::float32, core::Precision::float32, rows);
  Shift shift(comm, 4 * large);
  const double compute = slowest(comm, [&] { kernel.run(); });
  const double transfer = slowest(comm, [&] { shift.start(), shift.wait(); });
  const double both = slowest(comm, [&] {
    shift.start();
    kernel.run([&] { shift.progress(); });
    shift.wait();
  });
  return std::clamp((compute + transfer - both) / std::min(compute, transfer), 0.0, 1.0);
}

double measure_copy(const comm::Communicator& comm) {
  constexpr Index row = 256, rows = 16384;
  const core::Buffer from("rows", 4 * rows * row), to("rows", rows * row);
  core::fill_zero(from.data(), from.bytes());
  const double seconds = slowest(comm, [&] {
    kernels::gather_rows({{0, 4, rows, 0}}, {from.data(), 1, 4 * rows, row}, {to.data(), 1, rows, row});
  });
  return seconds / double(rows * row);
}

/// Bytes per second that each rank reads from its own file while all ranks read; 0 if this cannot be measured.
struct ReadRates {
  double storage = 0;    ///< after the page cache was asked to drop the file
  double cached = 0;     ///< just after the file was read
  bool is_kept = false;  ///< the page cache kept most of some rank's file, so `storage` is partly a rate of memory

  /// The rates as text: "812.3 MiB/s from storage (read_rate), 12.8 GiB/s from the page cache".
  std::string text() const {
    const char* const from = is_kept ? "the page cache, which kept most of the files," : "storage";
    return fmt::format("{}/s from {} (read_rate), {}/s from the page cache", report::describe_bytes(storage), from,
                       report::describe_bytes(cached));
  }
};

constexpr Index file_bytes = Index(64) << 20;
constexpr Index call_bytes = Index(4) << 20;
constexpr int file_reads = 3;  // the fastest read counts

/// A file without a name. The system removes the file when its descriptor is closed, even if the process is killed.
class File {
 public:
  explicit File(const std::string& path)
      : descriptor_(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600), block_(std::size_t(call_bytes / 8)) {
    const comm::BlockingScope inside("the writing of " + path);
    unlink(path.c_str());
    for (Index offset = 0; offset < file_bytes; offset += call_bytes) {
      // Random numbers, because a file system may compress equal numbers, and not store zeros at all.
      for (std::size_t i = 0; i < block_.size(); ++i) {
        block_[i] = core::random_bits(1, core::TensorId::q, offset / 8 + Index(i));
      }
      const auto* bytes = reinterpret_cast<const char*>(block_.data());
      if (store::write_all(descriptor_, bytes, std::size_t(call_bytes), offset) != 0) is_whole_ = false;
    }
    store::flush_to_disk(descriptor_, path);  // because the page cache drops only pages that are on disk
  }

  bool is_whole() const { return is_whole_; }
  void drop_from_cache() const { (void)!posix_fadvise(descriptor_.id(), 0, 0, POSIX_FADV_DONTNEED); }
  void read() {
    const comm::BlockingScope inside("the reading of a file of 64 MiB");
    for (Index offset = 0; offset < file_bytes; offset += call_bytes) {
      if (pread(descriptor_.id(), block_.data(), std::size_t(call_bytes), off_t(offset)) != ssize_t(call_bytes)) {
        is_whole_ = false;
      }
    }
  }
  /// Fraction of the file's pages that are in memory; 0 if the system does not say.
  double cached_share() const {
    void* const mapped = mmap(nullptr, std::size_t(file_bytes), PROT_READ, MAP_SHARED, descriptor_.id(), 0);
    if (mapped == MAP_FAILED) return 0;
    std::vector<unsigned char> pages(std::size_t(file_bytes / sysconf(_SC_PAGESIZE)));
    const bool known = mincore(mapped, std::size_t(file_bytes), pages.data()) == 0;
    munmap(mapped, std::size_t(file_bytes));
    const auto there = std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return (page & 1) != 0; });
    return known ? double(there) / double(pages.size()) : 0;
  }

 private:
  store::Descriptor descriptor_;
  std::vector<std::uint64_t> block_;
  bool is_whole_ = true;
};

/// For each rank, makes a file of 64 MiB next to `beside`, flushes it to disk, reads it and removes it. Collective.
ReadRates measure_read_rates(const std::string& beside, const comm::Communicator& comm) {
  const comm::Scope scope("the measurement of reading");
  std::optional<File> file;
  try {
    file.emplace(fmt::format("{}.read-{}", beside, comm.rank()));
  } catch (const core::Error&) {  // such as a full disk: then no rate is measured
  }
  // Returns the seconds that the slowest rank needs.
  const auto seconds_of_reading = [&](bool drop) {
    if (file && drop) file->drop_from_cache();
    comm.barrier();
    const double start = core::wall_seconds();
    if (file) file->read();
    return comm.max(core::wall_seconds() - start);
  };
  ReadRates rates;
  if (file) file->drop_from_cache();
  rates.is_kept = comm.max(file ? file->cached_share() : 0.0) > 0.5;
  for (int i = 0; i < file_reads; ++i) {
    rates.storage = std::max(rates.storage, double(file_bytes) / seconds_of_reading(/*drop=*/true));
    rates.cached = std::max(rates.cached, double(file_bytes) / seconds_of_reading(/*drop=*/false));
  }
  return comm.max(Index(!file || !file->is_whole())) == 0 ? rates : ReadRates{};
}

}  // namespace

int calibrate(const std::string& path, bool overwrite, const comm::Communicator& comm) {
  using core::DType;
  using core::Precision;
  comm::agree(comm, core::require_device);
  end_on_signals(comm, nothing_saved);
  std::optional<store::AtomicFile> file;                        // exists on rank 0
  comm::on_root(comm, [&] { file.emplace(path, overwrite); });  // first, because it may fail
  const double start = core::wall_seconds();
  core::Machine machine = machine_of(std::nullopt, true, comm);
  const Precision single = Precision::float32;
  machine.kernel.clear();
  Measured usual{};
  for (const Index head_dim : {32, 64, 128, 256}) {
    const Measured measured = measure_kernel(comm, head_dim, DType::float32, single);
    machine.kernel.push_back({head_dim, measured.seconds_per_gflop});
    if (head_dim == 64) usual = measured;
  }
  const auto factor = [&](DType type, Precision precision, bool alone) {
    return measure_kernel(comm, 64, type, precision, alone).seconds_per_gflop / usual.seconds_per_gflop;
  };
  machine.float64_factor = factor(DType::float64, Precision::float64, false);
  machine.half_factor = factor(DType::bfloat16, single, false);
  if (kernels::why_no_products(kernels::default_backend(), Precision::bfloat16).empty())
    machine.bfloat16_factor = factor(DType::bfloat16, Precision::bfloat16, false);
  const bool has_split_products =
      kernels::why_no_products(kernels::default_backend(), Precision::three_bfloat16).empty();
  if (has_split_products && comm.max(Index(!core::has_matrix_units())) == 0) {  // by vectors this takes minutes
    machine.three_bfloat16_factor = factor(DType::float16, Precision::three_bfloat16, false);
    machine.six_bfloat16_factor = factor(DType::float32, Precision::six_bfloat16, false);
  }
  machine.single_factor = factor(DType::float32, single, true);
  std::string links = "one rank: links and overlap are the built-in defaults";
  if (comm.size() > 1) {
    // These ranks can measure only one kind of link: between nodes if there are several nodes, otherwise inside the
    // node.
    const bool has_several_nodes = machine.ranks_per_node < comm.size();
    (has_several_nodes ? machine.between_nodes : machine.inside_node) = measure_link(comm);
    machine.overlap = measure_overlap(comm, usual.rows);
    links =
        has_several_nodes ? "inside_node is the built-in default" : "one node: between_nodes is the built-in default";
  }
  machine.seconds_per_copied_byte = measure_copy(comm);
  machine.seconds_per_call = seconds_per_call(comm);
  machine.seconds_per_row = seconds_per_row(comm);
  const ReadRates reading = measure_read_rates(path, comm);
  if (reading.storage > 0) machine.read_rate = reading.storage;
  if (comm.size() > 1) machine.seconds_per_communicator = seconds_per_communicator(comm);
  if (comm.size() > 1 && comm::window_defect().empty()) machine.window = measure_window(comm);
  std::vector<std::string> lines{fmt::format("Machine file of annulus, measured in {:.0f} s with {} ranks; {}",
                                             core::wall_seconds() - start, comm.size(), links)};
  lines.push_back(reading.storage > 0
                      ? "files: each rank reads " + reading.text()
                      : "files: their reading could not be measured; read_rate is the built-in default");
  for (const auto& [name, value] : provenance("annulus plan --calibrate " + path, comm)) {
    if (!value.empty()) lines.push_back(fmt::format("{}: {}", name, value));
  }
  const std::string text = runfile::machine_file_text(machine, lines);
  comm::on_root(comm, [&] {
    file->write(text);
    file->publish();
    core::print("{}", text);
    std::fprintf(stderr, "annulus: machine file written to %s\n", path.c_str());
  });
  return 0;
}

}  // namespace annulus::app
