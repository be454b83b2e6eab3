// Describes in words a job, and the origin of a file (program, machine, time).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "annulus/app/job/job.hpp"

namespace annulus::app {

/// The pattern: "longnet, causal, 2 pairs (2048, 1) (all, 4)".
std::string describe_pattern(const strategies::Problem& problem);
/// The shape: "1 x 65536 rows, 8 heads of 64 (2 key/value heads), float32".
std::string describe_shape(const Request& request);
/// The shape, the order of the input's axes and, if products have another type than sums, the type of products:
/// "..., bfloat16 (axes bshd), products of bfloat16". "By vectors" follows if vector instructions compute split
/// products (3xbfloat16, 6xbfloat16), because this machine has no AMX.
std::string describe_tensors(const Request& request);
/// The layer: "width 512, rope base 10000, biases, sharding fsdp".
std::string describe_layer(const Request& request);
/// The title of a result, which depends only on input and settings: "attention of 1 x 1024 rows, ..., float16: longnet,
/// causal, 1 pair (all, 1)".
std::string title_of(const Request& request);
/// Notes for the user about the problem, one line each, for example that a segment is longer than every document.
std::vector<std::string> notes_on(const strategies::Problem& problem);
/// Says what a reproducible problem guarantees, and how it is computed; empty for other problems.
std::string describe_bits(const Job& job);
/// The blocks of strategy stream, and their units: "32 blocks of 524288 rows, units of at most 1.2 s and 310.0 MiB".
std::string describe_blocks(const planner::StreamCut& cut);
/// The units of a run in passes: "6, of 1 batch entry and 2 key/value heads each, the next one read meanwhile, 1.5 GiB
/// on the fullest rank".
std::string describe_passes(const Job& job);

// The following functions say who made a file, when, with which program and on which machine.

/// The attributes of /provenance. Collective.
std::vector<std::pair<std::string, std::string>> provenance(const std::string& command_line,
                                                            const comm::Communicator& comm);
/// Attributes of the file itself. They do not depend on the time or the machine; `title` says what the file contains.
std::vector<std::pair<std::string, std::string>> identity(const std::string& title);

/// The CPU's name in /proc/cpuinfo, "Intel(R) Xeon(R) Platinum 8480+"; if there is none, the architecture that uname()
/// returns, "aarch64".
std::string cpu_name();

}  // namespace annulus::app
