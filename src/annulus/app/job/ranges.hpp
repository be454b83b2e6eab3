// Numbers that leave the range of the type in which a run computes. Where that can be known before, the run is refused.
// Otherwise its results show it: the inputs are finite, so a NaN or infinity in a result has left the range.
#pragma once

#include <string>
#include <vector>

#include "annulus/app/job/job.hpp"
#include "annulus/core/row_store.hpp"
#include "annulus/report/measurements.hpp"
#include "annulus/store/finite.hpp"

namespace annulus::app {

/// Throws AgreedError(failure) if scores may overflow; `q` and `k` are this rank's largest |q| and |k|; collective.
void check_scores(const Job& job, double q, double k, const comm::Communicator& comm);

/// What a NaN or infinity on this rank may come from, for the end of a message.
std::string causes_of_no_number(const strategies::Problem& problem, int rank);

/// Throws AgreedError(failure) that names the first NaN or infinity in this rank's rows of an input, (batch, rows,
/// heads, numbers) on the host, with its index in the file; collective. `spacing` as in find_non_finite(). Nothing is
/// looked at where inputs are generated.
void check_input(const Request& request, core::StoredTensor tensor, const void* rows_here, Index bytes,
                 const std::vector<core::Interval>& rows, const comm::Communicator& comm,
                 const store::Spacing& spacing = {});

/// Rows of a dataset of the result on the host.
struct HostRows {
  std::string name;
  const void* data;
  Index bytes;
  core::DType type;
};
/// Throws AgreedError(failure) that names the first NaN or infinity in these rows of this rank; collective.
void check_results(const Request& request, const std::vector<HostRows>& tensors,
                   const std::vector<core::Interval>& rows, const comm::Communicator& comm);

/// Checks this rank's lse (B, rows, H) in host memory, where -inf is legal. Throws as check_results(); collective.
report::LseFindings look_at_lse(const Job& job, const void* lse, const comm::Communicator& comm);
/// The same findings, without the check, for `count` numbers that need not be of this rank's rows; collective.
report::LseFindings lse_findings(const Job& job, const void* lse, Index count, const comm::Communicator& comm);

/// A warning if scores are so large that two scores which are neighbours in the precision have weights that differ by a
/// factor of 4 or more; otherwise empty.
std::string coarse_scores(const Job& job, const report::LseFindings& lse);
/// Throws AgreedError(failure) if scores are so large; call it before gradients, on every rank with the same `lse`.
void check_gradients_mean_something(const Job& job, const report::LseFindings& lse);

}  // namespace annulus::app
