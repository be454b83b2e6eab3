// Finds numbers outside the range of the type in which a run computes. If q and k are so large that scores may
// overflow, the run is refused. Inputs are finite, so any other overflow shows as NaN or infinity in the result.
#pragma once

#include <string>
#include <vector>

#include "annulus/app/job/job.hpp"
#include "annulus/core/row_store.hpp"
#include "annulus/report/measurements.hpp"
#include "annulus/store/finite.hpp"

namespace annulus::app {

/// Throws AgreedError(failure) if scores may overflow. `q` and `k` are the largest |q| and |k| on this rank.
/// Collective.
void check_scores(const Job& job, double q, double k, const comm::Communicator& comm);

/// Returns the end of a message: possible causes of a NaN or infinity.
std::string causes_of_no_number(const strategies::Problem& problem);

/// Throws AgreedError(failure) with the first NaN, infinity or missing number that any rank finds in its rows of an
/// input, and its index in the file. `rows_here` has this rank's rows (batch, rows, heads, numbers) in host memory;
/// `spacing` says where their numbers are. Does nothing for generated inputs. Collective.
void check_input(const Request& request, core::StoredTensor tensor, const void* rows_here, Index bytes,
                 const std::vector<core::Interval>& rows, const comm::Communicator& comm,
                 const store::Spacing& spacing = {});

/// Throws AgreedError(failure) with the first NaN or infinity that any rank finds in its rows of the result's dataset
/// `name`. `numbers` has this rank's rows, which are `rows`, in `bytes` of host memory. Collective.
void check_result(const Request& request, const std::string& name, const store::Numbers& numbers, Index bytes,
                  const std::vector<core::Interval>& rows, const comm::Communicator& comm);

/// Does the same as check_result() for this rank's lse (B, rows, H), where -inf is valid. Returns the findings of all
/// ranks. Collective.
report::LseFindings look_at_lse(const Job& job, const void* lse, const comm::Communicator& comm);
/// Returns the same findings without the check, for `count` numbers. In a layer, some of these numbers may belong to
/// rows of x that other ranks have. Collective.
report::LseFindings lse_findings(const Job& job, const void* lse, Index count, const comm::Communicator& comm);
/// The findings of this rank for `count` numbers, of which `none` belong to rows that do not exist (padding). Local.
report::LseFindings own_lse_findings(const Job& job, const void* lse, Index count, Index none);
/// The first of `count` log-sum-exps in host memory that is NaN or +inf; empty if there is none. Local.
std::optional<store::NonFinite> find_wrong_lse(const Job& job, const void* lse, Index count);

/// Returns a warning if scores are so large that two neighbouring representable scores give weights that differ by a
/// factor of 4 or more; otherwise empty.
std::string coarse_scores(const Job& job, const report::LseFindings& lse);
/// Throws AgreedError(failure) if coarse_scores() is not empty. Call it before gradients are computed, with the same
/// `lse` on all ranks.
void check_gradients_mean_something(const Job& job, const report::LseFindings& lse);

}  // namespace annulus::app
