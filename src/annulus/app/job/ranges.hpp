// What leaves the range of the numbers that a run computes in: refused before it computes where that can be known, else
// found in the results, which are finite because the inputs are.
#pragma once

#include <string>
#include <vector>

#include "annulus/app/job/job.hpp"
#include "annulus/core/row_store.hpp"
#include "annulus/report/measurements.hpp"

namespace annulus::app {

/// Throws AgreedError(failure) when scores of numbers up to |q| and |k|, this rank's largest, may overflow; collective.
void check_scores(const Job& job, double q, double k, const comm::Communicator& comm);

/// What a NaN or infinity on this rank may come from, for the end of a message.
std::string causes_of_no_number(const strategies::Problem& problem, int rank);

/// Throws AgreedError(failure) that names the first NaN or infinity in this rank's rows of an input, (batch, rows,
/// heads, numbers) on the host, with its index in the file; collective. Nothing is looked at where inputs are
/// generated.
void check_input(const Request& request, core::StoredTensor tensor, const void* rows_here, Index bytes,
                 const std::vector<core::Interval>& rows, const comm::Communicator& comm);

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
/// The same of `count` numbers that were not this rank's rows alone, without a check; collective.
report::LseFindings count_lse(const Job& job, const void* lse, Index count, const comm::Communicator& comm);

/// What there is to say of scores so large that the precision tells neighbours apart by a factor of 4 in their weights,
/// or more; empty: nothing.
std::string coarse_scores(const Job& job, const report::LseFindings& lse);
/// Throws AgreedError(failure) where gradients would be made of such; every rank calls it with the same findings.
void check_gradients_mean_something(const Job& job, const report::LseFindings& lse);

}  // namespace annulus::app
