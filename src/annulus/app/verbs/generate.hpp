// `annulus generate`: makes an input file.
#pragma once

#include <optional>
#include <string>

#include "annulus/comm/communicator.hpp"
#include "annulus/io/settings.hpp"

namespace annulus::app {

struct GenerateOptions {
  std::string output;
  io::GenerateSettings what;               ///< shape.kv_heads 0 means heads
  bool dout = false;                       ///< make dout, too
  bool dlse = false;                       ///< make dlse, too
  std::optional<core::Index> layer_width;  ///< an attention layer of this width instead: x, dy, target and weights
  bool biases = false;                     ///< of the layer, too
  bool overwrite = false;
};

/// Each rank makes its own rows and all write them together. Prints one line on rank 0, returns the exit status.
/// Collective.
int generate(const GenerateOptions& options, const comm::Communicator& comm);

/// The same for a layer; `shape` is complete.
int generate_layer(const GenerateOptions& options, const core::Shape& shape, const comm::Communicator& comm);

}  // namespace annulus::app
