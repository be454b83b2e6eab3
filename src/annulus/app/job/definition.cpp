#include "annulus/app/job/definition.hpp"

#include "annulus/app/job/layer_tensors.hpp"

namespace annulus::app {

verify::Findings compare_with_definition(const Request& request, const verify::Sample& sample,
                                         const comm::Communicator& comm) {
  if (!request.layer) {
    return verify_attention({request.problem, request.run.settings.input, request.input}, sample, comm);
  }
  layer::LayerProblem whole = *request.layer;
  whole.sharding = layer::Sharding::none;  // here every rank needs all weights, whatever the run's sharding was
  const layer::Weights weights = load_weights(request, whole, comm);
  return verify_layer({whole, *request.run.settings.layer, request.input->inspected(), weights}, sample, comm);
}

}  // namespace annulus::app
