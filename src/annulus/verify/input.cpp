#include "annulus/verify/input.hpp"

#include <algorithm>

#include "annulus/core/storage.hpp"
#include "annulus/io/generated.hpp"
#include "annulus/strategies/definition.hpp"

namespace annulus::verify {

using core::DType;
using core::TensorId;

Numbers to_double(const std::vector<std::byte>& bytes, io::NumberType type) {
  Numbers numbers(bytes.size() / bytes_of(type));
  const auto convert = [&](const auto* stored) {
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = core::load_as<double>(stored[i]);
  };
  const void* data = bytes.data();
  if (!type.dtype()) {
    const auto* whole = static_cast<const std::int64_t*>(data);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = double(whole[i]);
  }
  if (type == DType::float64) convert(static_cast<const double*>(data));
  if (type == DType::float32) convert(static_cast<const float*>(data));
  if (type == DType::float16) convert(static_cast<const core::Half*>(data));
  if (type == DType::bfloat16) convert(static_cast<const core::BFloat16*>(data));
  return numbers;
}

VerifyInput::VerifyInput(const strategies::Problem& problem, io::AxisOrder file_order)
    : shape(problem.shape),
      type(problem.type),
      precision(problem.precision),
      order(file_order),
      pattern(strategies::reference_pattern(problem)) {}

AttentionInput::AttentionInput(const strategies::Problem& problem, const io::InputSettings& settings,
                               const std::optional<io::TensorFile>& file)
    : VerifyInput(problem, file ? file->order() : io::AxisOrder::bshd),
      settings_(settings),
      gradients_(problem.gradients) {
  if (file) file_ = file->seen();
}

Numbers AttentionInput::rows(TensorId tensor, Interval rows) const {
  const bool keys = tensor == TensorId::k || tensor == TensorId::v, lse = tensor == TensorId::dlse;
  const Index numbers = (keys ? shape.kv_heads : shape.heads) * (lse ? 1 : shape.head_dim);
  const DType stored = lse ? core::lse_type(type) : type;
  if ((lse && !settings_.dlse) || (tensor == TensorId::dout && !gradients_))
    return Numbers(std::size_t(shape.batch * rows.size() * numbers));
  if (file_) {
    const std::string& dataset = tensor == TensorId::q   ? settings_.q
                                 : tensor == TensorId::k ? settings_.k
                                 : tensor == TensorId::v ? settings_.v
                                 : lse                   ? *settings_.dlse
                                                         : settings_.dout;
    return read_as_double(*file_, dataset, rows);
  }
  std::vector<std::byte> host(std::size_t(shape.batch * rows.size() * numbers) * core::bytes_of(stored));
  io::fill_generated(*settings_.generate, tensor, {rows}, host.data());
  return to_double(host, stored);
}

ResultRows rows_in(const io::SeenFile& file) {
  return [&file](const std::string& dataset, Interval rows) { return read_as_double(file, dataset, rows); };
}

RowReader::RowReader(const ResultRows& result, const std::string& dataset)
    : RowReader([&result, dataset](Interval row) { return result(dataset, row); }) {}
RowReader::RowReader(const VerifyInput& input, TensorId tensor)
    : RowReader([&input, tensor](Interval row) { return input.rows(tensor, row); }) {}

std::string VerifyInput::index_text(Index b, Index x, Index h, Index d) const {
  return fmt::format("[{}]", fmt::join(io::reordered<Index>({b, x, h, d}, order), ", "));
}
std::string VerifyInput::index_text(Index b, Index x, Index h) const {
  return fmt::format("[{}]", fmt::join(io::reordered<Index>({b, x, h}, order), ", "));
}

Numbers read_as_double(const io::SeenFile& file, const std::string& dataset, Interval rows) {
  const io::DatasetInfo& info = file.at(dataset);
  Index numbers = rows.size();
  for (std::size_t axis = 0; axis < info.extents.size(); ++axis) {
    numbers *= axis == io::sequence_axis(info.order) ? 1 : info.extents[axis];
  }
  std::vector<std::byte> host(std::size_t(numbers) * bytes_of(info.type));
  io::read_rows_alone(file, {dataset, host.data()}, rows);
  return to_double(host, info.type);
}

void for_each_chunk(const std::vector<Interval>& ranges, Index sequence, Index step,
                    const std::function<void(Interval)>& visit, const ShareShown& shown) {
  for (Index begin = 0; begin < sequence; begin += step) {
    Interval chunk{sequence, 0};
    for (const Interval& range : ranges) {
      const Interval part = intersect(range, {begin, std::min(sequence, begin + step)});
      if (!part.empty()) chunk = {std::min(chunk.begin, part.begin), std::max(chunk.end, part.end)};
    }
    if (!chunk.empty()) visit(chunk);
    if (shown) shown(double(std::min(sequence, begin + step)) / double(sequence));
  }
}

}  // namespace annulus::verify
