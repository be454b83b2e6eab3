// What a run file says, as plain structs. Text stops here: nobody behind the app room sees YAML.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "annulus/comm/staging.hpp"
#include "annulus/core/types.hpp"
#include "annulus/pattern/partition.hpp"
#include "annulus/pattern/pattern.hpp"

namespace annulus::io {

using core::Index;

/// input.generate: tensors made on the spot, and what `annulus generate` makes. Values depend on (seed, tensor, global
/// index) only.
struct GenerateSettings {
  core::Shape shape{1, 0, 0, 0, 64};  ///< sequence and heads must be given; kv_heads = heads unless given
  core::DType type = core::DType::float32;
  std::uint64_t seed = 1;
};

/// Exactly one of `file` and `generate` is set.
struct InputSettings {
  std::optional<std::string> file;  ///< absolute path
  std::optional<GenerateSettings> generate;
  std::string q = "/q";
  std::string k = "/k";
  std::string v = "/v";
  std::string dout = "/dout";            ///< read when compute.backward is true
  std::optional<std::string> dlse;       ///< dataset of the LSE's gradient; empty: it is zero
  std::optional<std::string> documents;  ///< dataset of document offsets; empty: one document
};

struct AttentionSettings {
  pattern::Pattern pattern;
  std::optional<double> scale;  ///< empty: 1 / sqrt(head_dim)
};

struct ComputeSettings {
  bool backward = false;                     ///< dq, dk, dv are made, too
  std::optional<core::Precision> precision;  ///< empty: core::default_precision of the input's type
};

struct DistributionSettings {
  std::string strategy = "auto";                    ///< a name of the registry, which the app checks
  std::optional<pattern::PartitionKind> partition;  ///< empty: auto
  std::optional<Index> block_size;                  ///< rows, for block_cyclic; empty: auto
  std::optional<Index> ulysses_ranks;               ///< ranks of a group, for hybrid; empty: auto
  Index local_below = 32768;                        ///< rows; `auto` computes shorter sequences on one rank
  comm::GpuAware gpu_aware = comm::GpuAware::automatic;
  double stall_timeout = 300;          ///< s without progress of any rank, until the run is ended
  std::optional<std::string> machine;  ///< absolute path of the machine file that `auto` goes by
};

struct OutputSettings {
  std::string file;  ///< absolute path
  bool overwrite = false;
  std::optional<std::string> report;  ///< absolute path of a JSON file
};

struct Settings {
  InputSettings input;
  AttentionSettings attention;
  ComputeSettings compute;
  DistributionSettings distribution;
  OutputSettings output;
};

}  // namespace annulus::io
