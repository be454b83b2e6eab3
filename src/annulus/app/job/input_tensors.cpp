#include "annulus/app/job/input_tensors.hpp"

namespace annulus::app {

using core::StoredTensor;

std::vector<StoredTensor> input_tensors(const Request& request) {
  std::vector<StoredTensor> all{StoredTensor::q, StoredTensor::k, StoredTensor::v};
  if (!request.problem.gradients) return all;
  all.push_back(StoredTensor::dout);
  if (request.run.settings.input.dlse) all.push_back(StoredTensor::dlse);
  return all;
}

store::RowOrigin input_origin(const Request& request, StoredTensor tensor) {
  const runfile::InputSettings& input = request.run.settings.input;
  if (request.input) return store::origin_of(request.input->inspected(), store::dataset_of(input, tensor));
  return store::SeededTensor{*input.generate, store::seed_of(tensor)};
}

void put_inputs(const Request& request, store::Wanted wanted, store::FileRows& rows) {
  for (const StoredTensor tensor : input_tensors(request)) {
    store::RowOrigin origin = input_origin(request, tensor);
    store::allow(origin, wanted);
    rows.put(tensor, std::move(origin));
  }
}

}  // namespace annulus::app
