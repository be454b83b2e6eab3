// The passes of a schedule, with groups or without, over the ranks of a communicator or over a store.
#pragma once

#include "annulus/strategies/schedule.hpp"

namespace annulus::strategies {

/// Throws the same Error on every rank where the ranks that are there have no room for the windows of both passes
/// (`backward`: nullptr where there is none); collective, before anything is read or computed. Shared memory gets pages
/// when it is touched, and a rank that finds none left dies of it.
void check_ranks(const Schedule& forward, const Schedule* backward, const comm::Communicator& comm);

/// Computes out, lse and, where the problem asks for gradients, normalizers of this rank's rows; collective. q and kv
/// are only read. Throws core::Error.
core::RankMetrics run_forward_pass(const Schedule& schedule, const Location& location, Tensors& tensors,
                                   const Progress& progress);

/// Makes dq and dkv of this rank's rows, or the one of them that SumPlan::wanted() names, from q, kv, out, normalizers,
/// dout and, where it is given, dlse, all of which are only read; where there are sink logits, sink_sums, too;
/// collective. Gradients are summed, and travel between ranks, in the problem's precision; the same run twice gives the
/// same bits unless the strategy says otherwise. In the metrics hop h counts the K/V rows that it brings and the
/// gradients of these rows, kept triples as in the forward pass. Throws core::Error.
core::RankMetrics run_backward_pass(const Schedule& schedule, const Location& location, Tensors& tensors,
                                    const Progress& progress);

/// Makes received and the lists of top rows of this rank's rows, where the problem asks for them, from q, kv and
/// normalizers, which are only read; collective. Its schedule is Strategy::statistics_schedule(). In the metrics hop h
/// counts the K/V rows that it brings and the sums of these rows, kept triples as in the forward pass. Throws
/// core::Error.
core::RankMetrics run_statistics_pass(const Schedule& schedule, const Location& location, Tensors& tensors,
                                      const Progress& progress);

}  // namespace annulus::strategies
