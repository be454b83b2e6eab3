// What a run file says, as plain structs. Text stops here: no other room sees YAML.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "annulus/comm/file_hints.hpp"
#include "annulus/comm/staging.hpp"
#include "annulus/comm/transport.hpp"
#include "annulus/core/axes.hpp"
#include "annulus/core/types.hpp"
#include "annulus/pattern/partition.hpp"
#include "annulus/pattern/pattern.hpp"
#include "annulus/pattern/query_offset.hpp"
#include "annulus/runfile/sweep.hpp"

namespace annulus::runfile {

using core::Index;

/// input.generate: tensors made on the spot, and what `annulus generate` makes. Values depend on (seed, tensor, global
/// index) only.
struct GenerateSettings {
  /// sequence and heads must be given; kv_heads = heads unless given; value_dim stands below.
  core::Shape shape{1, 0, 0, 0, 64};
  core::DType type = core::DType::float32;
  std::uint64_t seed = 1;
  std::optional<Index> queries{};    ///< rows of q, dout and dlse; empty: as many as k and v have
  std::optional<Index> value_dim{};  ///< numbers of a head of v and dout; empty: as head_dim

  Index query_rows() const { return queries.value_or(shape.sequence); }
  /// Fills in what `shape` leaves open.
  void complete() {
    if (shape.kv_heads == 0) shape.kv_heads = shape.heads;
    shape.set_value_dim(value_dim.value_or(shape.head_dim));
  }
};

/// Exactly one of `file` and `generate` is set.
struct InputSettings {
  std::optional<std::string> file;  ///< absolute path
  std::optional<GenerateSettings> generate;
  std::optional<core::AxisOrder> axes;  ///< of q, k, v, dout, dlse in `file`; empty: as the file names them, else bshd
  std::string q = "/q";
  std::string k = "/k";
  std::string v = "/v";
  std::string dout = "/dout";              ///< read when compute.backward is true
  std::optional<std::string> dlse;         ///< dataset of the LSE's gradient; empty: it is zero
  std::optional<std::string> documents;    ///< dataset of document offsets; empty: one document
  std::optional<std::string> coordinates;  ///< dataset of places of rows, for a bias; empty: rows have numbers alone
  std::optional<std::string> sink;         ///< dataset of sink logits; empty: none
  std::optional<std::string> lengths{};    ///< dataset of the rows that exist of each batch entry; empty: all
  pattern::QueryOffset query_offset{};     ///< where the rows of q stand among those of k
};

/// attention.bias: scores less slope * distance.
struct BiasSettings {
  std::optional<std::vector<double>> slopes;  ///< one per query head; empty: auto
  Index exempt = 0;                           ///< rows at the start of a document whose distance is 0

  bool operator==(const BiasSettings&) const = default;
};

struct AttentionSettings {
  pattern::Pattern pattern;
  std::optional<double> scale;    ///< empty: 1 / sqrt(head_dim)
  std::optional<double> softcap;  ///< scores s become softcap tanh(s / softcap); empty: they stay as they are
  std::optional<BiasSettings> bias;
};

struct ComputeSettings {
  std::optional<core::Backend> backend;      ///< empty: auto
  bool gradients = false;                    ///< dq, dk, dv are made, too
  std::optional<core::Precision> precision;  ///< empty: kernels::default_precision
  bool reproducible = false;                 ///< the same bits for every number of ranks and threads
  std::optional<Index> memory_limit;         ///< bytes that a rank's tensors and buffers may take; empty: auto
};

struct DistributionSettings {
  std::string strategy = "auto";                    ///< a name of the registry, which the app checks
  std::optional<pattern::PartitionKind> partition;  ///< empty: auto
  std::optional<Index> block_size;                  ///< rows, for block_cyclic; empty: auto
  std::optional<Index> ulysses_ranks;               ///< ranks of a group, for hybrid; empty: auto
  std::optional<Index> local_below;  ///< rows; `auto` computes shorter sequences on one rank; empty: auto
  comm::Transport transport = comm::Transport::mpi;
  comm::GpuAware gpu_aware = comm::GpuAware::automatic;
  double stall_timeout = 300;          ///< s without progress of any rank, until the run is ended
  std::optional<std::string> machine;  ///< absolute path of the machine file that `auto` goes by
};

/// A run of the attention layer: y = attention(x wq + bq, x wk + bk, x wv + bv) wo + bo. Names are datasets of
/// input.file.
struct LayerSettings {
  std::string x = "/x";
  std::string dy = "/dy";  ///< read when compute.backward is true
  std::string wq = "/wq";
  std::string wk = "/wk";
  std::string wv = "/wv";
  std::string wo = "/wo";
  std::optional<std::string> bq, bk, bv, bo;
  Index heads = 0;                ///< must be given
  Index kv_heads = 0;             ///< heads unless given
  std::optional<double> rope;     ///< base of the rotary position embedding
  std::string sharding = "none";  ///< none | fsdp | tensor
};

/// `annulus train`: plain gradient descent of the layer on a regression target.
struct TrainSettings {
  Index steps = 0;
  double rate = 0;
  std::string target = "/target";
  std::string checkpoint;  ///< absolute path
  Index save_every = 10;   ///< steps
};

/// `annulus bench`: which run files are timed, and how.
struct BenchSettings {
  std::vector<SweepAxis> sweep;
  std::vector<SkipCondition> skip;
  Index repeats = 5;                ///< measured runs of a case
  Index warmup = 1;                 ///< runs before them, that do not count
  Index verify_rows = 16;           ///< rows held against the definition; 0: none
  std::string file;                 ///< absolute path of the table
  std::optional<std::string> json;  ///< absolute path of the same as JSON
};

/// Statistics of the attention's probabilities that are returned beside out and lse.
enum class Statistic { entropy, received, top };

inline constexpr std::array all_statistics{Statistic::entropy, Statistic::received, Statistic::top};

constexpr std::string_view name_of(Statistic statistic) {
  return statistic == Statistic::entropy ? "entropy" : statistic == Statistic::received ? "received" : "top";
}

struct OutputSettings {
  /// What stands in `file` of a run that computes and times only; a path is absolute, so that none is called so.
  static constexpr const char* no_file = "none";
  bool writes_file() const { return file != no_file; }
  bool tells(Statistic one) const { return std::find(statistics.begin(), statistics.end(), one) != statistics.end(); }

  std::string file;  ///< absolute path, or no_file
  bool overwrite = false;
  std::optional<core::DType> type;    ///< of all tensors but lse: float32 or float64; empty: the input's
  std::vector<Statistic> statistics;  ///< in the order of all_statistics
  Index top_keys = 8;                 ///< rows that `top` lists of every row
  std::optional<std::string> report;  ///< absolute path of a JSON file
  std::optional<std::string> trace;   ///< absolute path of a JSON file of trace events
  std::optional<Index> alignment;     ///< bytes; large datasets start at multiples in the file; empty: auto
  comm::FileHints hints;              ///< with which MPI-IO makes the file
};

struct Settings {
  InputSettings input;
  AttentionSettings attention;
  ComputeSettings compute;
  DistributionSettings distribution;
  OutputSettings output;
  std::optional<LayerSettings> layer;  ///< empty: attention alone
  std::optional<TrainSettings> train;
  std::optional<BenchSettings> bench;
};

}  // namespace annulus::runfile
