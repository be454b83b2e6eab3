// Runs the passes of a schedule, with or without an exchange (RowExchange), on the ranks of a communicator, or in one
// process that reads other blocks' rows from a store.
#pragma once

#include "annulus/strategies/schedule.hpp"

namespace annulus::strategies {

/// Throws the same Error on every rank if the MPI windows of one of the passes do not fit into memory. `backward`: the
/// backward or the statistics pass; null: neither. Collective. Call it before anything is read or computed, because
/// shared memory gets its pages only when it is touched, and a rank that then finds no free page is killed.
void check_ranks(const Schedule& forward, const Schedule* backward, const comm::Communicator& comm);

/// Computes out and lse of this rank's rows, normalizers if Problem::has_sums(), and entropy if the problem asks for
/// the entropy. Collective. Only reads q and kv. Throws core::Error.
core::RankMetrics run_forward_pass(const Schedule& schedule, const Location& location, Tensors& tensors,
                                   const Progress& progress);

/// Makes dq and dkv of this rank's rows, or only the one that SumPlan::wanted() names. With dq, also makes sink_sums if
/// there are sink logits. Only reads q, kv, out, normalizers, dout and, if given, dlse. Collective. Gradients are
/// summed, and travel, in the problem's precision. A second run gives the same bits, unless the strategy adds sums in
/// the order of arrival. The metrics count each hop's K/V rows and the gradients of these rows together, in one element
/// of metrics.hops (PassContext::metrics). All ranks together have the same kept triples as in the forward pass. Throws
/// core::Error.
core::RankMetrics run_backward_pass(const Schedule& schedule, const Location& location, Tensors& tensors,
                                    const Progress& progress);

/// Makes `received` of this rank's key rows and, if the problem asks for them, lists of top rows of this rank's
/// queries. Only reads q, kv and normalizers. Collective. `schedule` is from Strategy::statistics_schedule(). The
/// metrics count each hop's K/V rows and the sums for these rows together (PassContext::metrics). The kept triples are
/// the same as in the forward pass. Throws core::Error.
core::RankMetrics run_statistics_pass(const Schedule& schedule, const Location& location, Tensors& tensors,
                                      const Progress& progress);

}  // namespace annulus::strategies
