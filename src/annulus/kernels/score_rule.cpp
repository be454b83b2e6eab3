#include "annulus/kernels/score_rule.hpp"

#include <algorithm>
#include <cmath>

namespace annulus::kernels {

Coordinates::Coordinates(std::vector<double> xy, const std::vector<core::Interval>& used) : xy_(std::move(xy)) {
  if (xy_.empty()) return;
  core::Index row = 0;  // the first row that is not set yet
  const auto fill_until = [&](core::Index end) {
    for (; row < end; ++row) std::copy_n(&xy_[std::size_t(2 * used[0].begin)], 2, &xy_[std::size_t(2 * row)]);
  };
  for (const core::Interval& rows : used) {
    fill_until(rows.begin);
    row = rows.end;
  }
  if (!used.empty()) fill_until(this->rows());
  double most[2] = {xy_[0], xy_[1]};
  std::copy_n(most, 2, least_);
  for (std::size_t i = 0; i < xy_.size(); ++i) {
    least_[i % 2] = std::min(least_[i % 2], xy_[i]);
    most[i % 2] = std::max(most[i % 2], xy_[i]);
  }
  extent_ = std::max(most[0] - least_[0], most[1] - least_[1]);
}

double Coordinates::unit(int bits) const {
  int exponent = 0;
  std::frexp(extent_, &exponent);  // extent < 2^exponent
  return std::ldexp(1.0, exponent - bits);
}

std::int64_t Coordinates::whole(core::Index row, int axis, double unit) const {
  return std::llrint((xy_[std::size_t(2 * row + axis)] - least_[axis]) / unit);
}

std::vector<double> alibi_slopes(core::Index heads) {
  core::Index power = 1;
  while (2 * power <= heads) power *= 2;
  std::vector<double> slopes;
  for (core::Index i = 1; i <= power; ++i) slopes.push_back(std::exp2(-8.0 * double(i) / double(power)));
  for (core::Index i = 1; core::Index(slopes.size()) < heads; i += 2)
    slopes.push_back(std::exp2(-8.0 * double(i) / double(2 * power)));
  return slopes;
}

}  // namespace annulus::kernels
