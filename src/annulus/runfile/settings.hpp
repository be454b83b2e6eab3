// The settings of a run file as plain structs. Only this folder reads YAML.
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

/// input.generate, and the options of `annulus generate`: tensors that are made from a seed. Each number depends only
/// on the seed, on the tensor that it belongs to, and on its index in the whole tensor.
struct GenerateSettings {
  /// 0 means that an extent is not given. The user must give sequence and heads; complete() sets kv_heads and the head
  /// size of values.
  core::Shape shape{1, 0, 0, 0, 64};
  core::DType type = core::DType::float32;
  std::uint64_t seed = 1;
  std::optional<Index> queries{};    ///< rows of q, dout and dlse; empty: as many as k and v have
  std::optional<Index> value_dim{};  ///< numbers of a head of v and dout; empty: head_dim

  Index query_rows() const { return queries.value_or(shape.sequence); }
  /// Sets the extents of `shape` that are not given.
  void complete() {
    if (shape.kv_heads == 0) shape.kv_heads = shape.heads;
    shape.set_value_dim(value_dim.value_or(shape.head_dim));
  }
};

/// Either `file` or `generate` must be set, but not both.
struct InputSettings {
  std::optional<std::string> file;  ///< absolute path
  std::optional<GenerateSettings> generate;
  std::optional<core::AxisOrder> axes;  ///< axes of q, k, v, dout, dlse; empty: as `file` names them, otherwise bshd
  std::string q = "/q";
  std::string k = "/k";
  std::string v = "/v";
  std::string dout = "/dout";              ///< dataset that is read if compute.backward is true
  std::optional<std::string> dlse;         ///< dataset of the gradient of lse; empty: it is zero
  std::optional<std::string> documents;    ///< dataset of document offsets; empty: one document
  std::optional<std::string> coordinates;  ///< dataset of row positions for a bias; empty: row numbers are used
  std::optional<std::string> sink;         ///< dataset of sink logits; empty: none
  std::optional<std::string> lengths{};    ///< dataset: which rows of each batch entry exist; empty: all
  pattern::QueryOffset query_offset{};     ///< the row of k at which q begins

  /// True if `lengths` applies to k and v, but not to q. `lengths` is about row numbers. If query_offset is none,
  /// queries have no row numbers, so `lengths` cannot leave out a query.
  bool has_lengths_of_keys() const { return lengths && query_offset.kind == pattern::QueryOffset::Kind::none; }
};

/// attention.bias: slope * distance of query and key is subtracted from each score.
struct BiasSettings {
  std::optional<std::vector<double>> slopes;  ///< one for each query head; empty: auto, ALiBi's slopes
  Index exempt = 0;                           ///< this many rows at the start of a document have distance 0 to all rows

  bool operator==(const BiasSettings&) const = default;
};

struct AttentionSettings {
  pattern::Pattern pattern;
  std::optional<double> scale;    ///< empty: 1 / sqrt(head_dim)
  std::optional<double> softcap;  ///< scores s become softcap tanh(s / softcap); empty: scores are not capped
  std::optional<BiasSettings> bias;
};

struct ComputeSettings {
  std::optional<core::Backend> backend;      ///< empty: auto
  bool gradients = false;                    ///< compute dq, dk, dv, too
  std::optional<core::Precision> precision;  ///< empty: kernels::default_precision
  bool reproducible = false;                 ///< same bits for every number of ranks and threads
  std::optional<Index> memory_limit;         ///< limit for a rank's tensors and buffers, in bytes; empty: auto
};

struct DistributionSettings {
  std::string strategy = "auto";                    ///< auto, or the name of a strategy, which the room app looks up
  std::optional<pattern::PartitionKind> partition;  ///< empty: auto
  std::optional<Index> block_size;                  ///< rows, for block_cyclic or stream; empty: auto
  std::optional<Index> ulysses_ranks;               ///< ranks in one group of hybrid; empty: auto
  std::optional<Index> local_below;  ///< rows; strategy auto runs shorter sequences on one rank; empty: auto
  comm::Transport transport = comm::Transport::mpi;
  comm::GpuAware gpu_aware = comm::GpuAware::automatic;
  double stall_timeout = 300;          ///< seconds; the run ends if no rank makes progress for this long
  std::optional<std::string> machine;  ///< absolute path of the machine file for strategy auto
};

/// A run of the attention layer: y = attention(x wq + bq, x wk + bk, x wv + bv) wo + bo. The members from x to bo are
/// names of datasets in input.file.
struct LayerSettings {
  std::string x = "/x";
  std::string dy = "/dy";  ///< dataset that is read if compute.backward is true
  std::string wq = "/wq";
  std::string wk = "/wk";
  std::string wv = "/wv";
  std::string wo = "/wo";
  std::optional<std::string> bq, bk, bv, bo;  ///< empty: no such bias
  Index heads = 0;                            ///< required
  Index kv_heads = 0;                         ///< default: heads
  std::optional<double> rope;                 ///< base of the rotary position embedding
  std::string sharding = "none";              ///< none | fsdp | tensor
};

/// `annulus train`: trains the layer on a regression target by plain gradient descent.
struct TrainSettings {
  Index steps = 0;
  double rate = 0;
  std::string target = "/target";
  std::string checkpoint;  ///< absolute path
  Index save_every = 10;   ///< steps from one checkpoint to the next
};

/// `annulus bench`: the cases to measure, and how to measure them.
struct BenchSettings {
  std::vector<SweepAxis> sweep;
  std::vector<SkipCondition> skip;
  Index repeats = 5;                ///< measured runs for each case
  Index warmup = 1;                 ///< runs of each case before the measured ones
  Index verify_rows = 16;           ///< number of rows compared with the definition; 0: none
  std::string file;                 ///< absolute path of the table
  std::optional<std::string> json;  ///< absolute path of the table as JSON
};

/// Statistics of the attention probabilities, which are written in addition to out and lse.
enum class Statistic { entropy, received, top };

inline constexpr std::array all_statistics{Statistic::entropy, Statistic::received, Statistic::top};

constexpr std::string_view name_of(Statistic statistic) {
  return statistic == Statistic::entropy ? "entropy" : statistic == Statistic::received ? "received" : "top";
}

struct OutputSettings {
  /// The value of `file` if no file is written. It differs from every path, because paths in settings are absolute.
  static constexpr const char* no_file = "none";
  bool writes_file() const { return file != no_file; }
  bool has(Statistic one) const { return std::find(statistics.begin(), statistics.end(), one) != statistics.end(); }

  std::string file;  ///< absolute path, or no_file
  bool overwrite = false;
  std::optional<core::DType> type;    ///< type of out, dq, dk, dv and a layer's tensors; empty: the input's type
  std::vector<Statistic> statistics;  ///< in the order of all_statistics
  Index top_keys = 8;                 ///< number of keys that `top` lists for each query
  std::optional<std::string> report;  ///< absolute path of the JSON report
  std::optional<std::string> trace;   ///< absolute path of the JSON file with trace events
  std::optional<Index> alignment;     ///< bytes; large datasets start at multiples of this number; empty: auto
  comm::FileHints hints;              ///< MPI-IO makes the file with these hints
};

struct Settings {
  InputSettings input;
  AttentionSettings attention;
  ComputeSettings compute;
  DistributionSettings distribution;
  OutputSettings output;
  std::optional<LayerSettings> layer;  ///< empty: attention without a layer
  std::optional<TrainSettings> train;
  std::optional<BenchSettings> bench;
};

}  // namespace annulus::runfile
