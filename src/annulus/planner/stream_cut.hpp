// How strategy stream cuts a problem into blocks of rows, and what its units will take.
#pragma once

#include <optional>

#include "annulus/core/machine.hpp"
#include "annulus/planner/choose.hpp"
#include "annulus/strategies/store/block_passes.hpp"

namespace annulus::planner {

/// Seconds of work that a unit should have at most: so much is lost when a run is cut off.
inline constexpr double most_unit_seconds = 5;

struct StreamCut {
  Index block_rows = 0;  ///< of every block but the last
  Index blocks = 0;
  Index units = 0;             ///< of each phase
  double memory_bytes = 0;     ///< of the largest unit
  double unit_seconds = 0;     ///< of the longest one
  double compute_seconds = 0;  ///< of all, one after another
  double bytes_read = 0;       ///< by all
  double bytes_written = 0;
};

/// Why there is no such cut of a problem; empty: there is one.
std::string why_no_stream(const strategies::Problem& problem);

/// What a unit takes. The query rows that read a block's keys are counted row by row: of very long sequences they are
/// taken to be as many as the keys that its queries read, with q, out and dout in place of k and v.
strategies::UnitCost unit_cost(const strategies::BlockPasses& passes, const strategies::Problem& problem, int phase,
                               Index block);

/// A cut into blocks of so many rows; `dlse`: with gradients of the LSE.
StreamCut stream_cut(const strategies::Problem& problem, bool dlse, Index block_rows, const core::Machine& machine);

/// The cut into the largest blocks, a power of two of rows so that segments mostly lie inside (times as many rows as
/// places for cuts are apart, where rows may not be cut anywhere), of which a unit fits into the machine's memory of a
/// rank and is done within most_unit_seconds, and of which there are some for every rank; but no smaller than the
/// kernel likes them, unless memory asks for that. Where no cut fits: the smallest. Problem::block_size, where it is
/// given, is taken.
StreamCut choose_stream_cut(const strategies::Problem& problem, bool dlse, int ranks, const core::Machine& machine);

/// What that costs `ranks` ranks that take unit after unit.
Cost cost_of_stream(const StreamCut& cut, int ranks, const core::Machine& machine);

/// When strategy stream is priced beside the others.
///   never      the verb cannot compute unit by unit
///   if_needed  where none of the others fits
///   always     to be shown
enum class StreamOffer { never, if_needed, always };

/// Adds strategy stream to a choice among the others, and takes it where none of them fits but it does. Returns how it
/// would cut the problem, where it was priced.
std::optional<StreamCut> offer_stream(StreamOffer offer, const strategies::Problem& problem, bool dlse, int ranks,
                                      const core::Machine& machine, Choice& choice);

}  // namespace annulus::planner
