// What a run measures on its way: of one work, or of slices, one after another.
#pragma once

#include <map>

#include "annulus/app/job/work.hpp"
#include "annulus/report/measurements.hpp"

namespace annulus::app {

/// Sums of seconds, bytes and work over the slices, and the largest peaks; of this rank.
class Tally {
 public:
  double read_seconds = 0;
  double write_seconds = 0;

  void add(PassKind kind, const report::Pass& pass, const Work& work);
  void add(const report::LseFindings& lse);
  void add(const FileBytes& bytes);

  /// The measurements of all ranks; collective, complete on rank 0.
  report::Measurements gathered(const Job& job, const comm::Communicator& comm) const;

 private:
  struct OfPass {
    report::Pass pass;
    Index predicted_bytes = 0;
    std::vector<Index> bytes_from;
  };
  report::PassMeasurements gathered(const OfPass& one, bool of_layer, const comm::Communicator& comm) const;

  std::map<PassKind, OfPass> passes_;
  report::LseFindings lse_;
  FileBytes files_;
  Index rows_ = 0;
};

/// Computes a work from its input to its result; collective. `after_reading` is called when q, k and v have been read.
/// `scope` stands before what the progress line says.
struct WorkSteps {
  store::RowWriter* file = nullptr;  ///< none: nothing is written there
  std::function<void()> after_reading{};
  std::string scope{};
};
void compute(const Job& job, Work& work, const WorkSteps& steps, const comm::Communicator& comm, Tally& tally);

}  // namespace annulus::app
