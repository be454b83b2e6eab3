#include "annulus/kernels/device/changed_scores.hpp"

#include <numbers>
#include <vector>

#include "annulus/kernels/device/kept_lists.hpp"

namespace annulus::kernels::device {

template <class T>
DeviceRule<T>::DeviceRule(const CallRule& call, core::Index heads) {
  using Coordinate = typename ChangedScores<T>::Coordinate;
  const ScoreRule& rule = *call.rule;
  view_ = {T(rule.cap * std::numbers::log2e), nullptr, rule.exempt, nullptr};
  if (!rule.has_bias()) return;
  double unit = 1;
  if (rule.coordinates) {
    constexpr int bits = sizeof(T) == 8 ? 60 : 30;  // so that a Coordinate can hold a difference with its sign
    unit = rule.coordinates->unit(bits);
    const core::Index rows = rule.coordinates->rows(), bytes = 2 * rows * core::Index(sizeof(Coordinate));
    // The whole numbers are kept from call to call, because making them may take as long as attend().
    coordinates_ = kept_form("coordinates", rule.coordinates, bytes, [&](void* device) {
      std::vector<Coordinate> coordinates;
      coordinates.reserve(std::size_t(2 * rows));
      for (core::Index row = 0; row < rows; ++row) {
        for (const int axis : {0, 1}) coordinates.push_back(Coordinate(rule.coordinates->whole(row, axis, unit)));
      }
      core::copy_to_device(device, coordinates.data(), bytes);
    });
    view_.coordinates = static_cast<const Coordinate*>(coordinates_.data());
  }
  std::vector<T> slopes;
  for (core::Index head = 0; head < heads; ++head) {
    slopes.push_back(T(rule.slopes[std::size_t(call.first_head + head)] * unit * std::numbers::log2e));
  }
  slopes_ = kept_copy(slopes);
  view_.slopes = static_cast<const T*>(slopes_.data());
}

template class DeviceRule<float>;
template class DeviceRule<double>;

}  // namespace annulus::kernels::device
