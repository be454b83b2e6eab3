// Cuts a problem into blocks of rows for the strategy `stream`, and predicts what the units will cost.
#pragma once

#include <optional>

#include "annulus/core/machine.hpp"
#include "annulus/planner/choose.hpp"
#include "annulus/strategies/store/block_passes.hpp"

namespace annulus::planner {

/// A unit should take at most this many seconds of compute, because an interrupted run loses the unfinished units.
inline constexpr double most_unit_seconds = 5;

struct StreamCut {
  Index block_rows = 0;  ///< rows of every block but the last, before ends of blocks move to cuts (Problem::grid())
  Index blocks = 0;
  Index units = 0;             ///< in each phase (block_passes.hpp)
  double memory_bytes = 0;     ///< of the largest unit
  double unit_seconds = 0;     ///< of the longest unit
  double compute_seconds = 0;  ///< of all units together
  double bytes_read = 0;       ///< by all units
  double bytes_written = 0;
  /// `estimate`: the costs are those of some blocks, as samples, or unit_cost() did not count phase 1.
  pattern::Accuracy accuracy = pattern::Accuracy::exact;
};

/// Returns why `stream` cannot make a problem's statistics; empty if it can. The caller checks the rest of the problem.
std::string why_no_stream(const strategies::Problem& problem);

/// Returns the cost of a unit. For phase 1 of a sequence of more than 2^28 rows we do not count the query rows that see
/// the block's keys. Instead we take the cost of the block's unit of phase 0, with twice as many bytes to read, because
/// phase 1 reads q, out and dout instead of k and v.
strategies::UnitCost unit_cost(const strategies::BlockPasses& passes, const strategies::Problem& problem, int phase,
                               Index block);

/// Returns the costs of a cut into blocks of `block_rows` rows. `dlse`: the input has gradients of the LSE.
StreamCut stream_cut(const strategies::Problem& problem, bool dlse, Index block_rows, const core::Machine& machine);

/// Chooses the largest blocks whose units fit into a rank's memory and take at most most_unit_seconds. If there are
/// several ranks, blocks must also give each rank several units. Blocks are smaller than the kernel needs for full
/// speed only if memory requires it. If no cut fits, the result is the cut into the smallest blocks. If there are
/// several blocks, their number of rows is a power of two, so that most segments lie inside one block; if cuts are
/// allowed only at certain rows, the number is a power of two times the distance between these rows. If
/// Problem::block_size is set, blocks have that size.
StreamCut choose_stream_cut(const strategies::Problem& problem, bool dlse, int ranks, const core::Machine& machine);

/// Returns the cost of a cut for `ranks` ranks, each of which computes unit after unit.
Cost cost_of_stream(const StreamCut& cut, int ranks, const core::Machine& machine);

/// Says when to compute the cost of `stream`, in addition to the costs of the other strategies.
///   never      the caller's verb cannot compute unit by unit
///   if_needed  only if no other strategy fits
///   always     also if another strategy fits, to show the cost
enum class StreamOffer { never, if_needed, always };

/// Adds `stream` to a choice among other strategies, and chooses `stream` if it fits and no other strategy fits.
/// Returns how `stream` would cut the problem; empty if its cost was not computed.
std::optional<StreamCut> offer_stream(StreamOffer offer, const strategies::Problem& problem, bool dlse, int ranks,
                                      const core::Machine& machine, Choice& choice);

}  // namespace annulus::planner
