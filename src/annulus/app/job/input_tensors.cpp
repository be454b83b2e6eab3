#include "annulus/app/job/input_tensors.hpp"

namespace annulus::app {

using core::StoredTensor;

const std::string& dataset_of(const runfile::InputSettings& input, StoredTensor tensor) {
  switch (tensor) {
    case StoredTensor::q:
      return input.q;
    case StoredTensor::k:
      return input.k;
    case StoredTensor::v:
      return input.v;
    case StoredTensor::dout:
      return input.dout;
    default:
      return *input.dlse;
  }
}

core::TensorId seeded_id(StoredTensor tensor) {
  switch (tensor) {
    case StoredTensor::q:
      return core::TensorId::q;
    case StoredTensor::k:
      return core::TensorId::k;
    case StoredTensor::v:
      return core::TensorId::v;
    case StoredTensor::dout:
      return core::TensorId::dout;
    default:
      return core::TensorId::dlse;
  }
}

std::vector<StoredTensor> input_tensors(const Request& request) {
  std::vector<StoredTensor> all{StoredTensor::q, StoredTensor::k, StoredTensor::v};
  if (!request.problem.gradients) return all;
  all.push_back(StoredTensor::dout);
  if (request.run.settings.input.dlse) all.push_back(StoredTensor::dlse);
  return all;
}

store::RowOrigin input_origin(const Request& request, StoredTensor tensor) {
  const runfile::InputSettings& input = request.run.settings.input;
  if (request.input) return store::origin_of(request.input->inspected(), dataset_of(input, tensor));
  return store::SeededTensor{*input.generate, seeded_id(tensor)};
}

}  // namespace annulus::app
