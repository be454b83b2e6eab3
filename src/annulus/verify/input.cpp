#include "annulus/verify/input.hpp"

#include <algorithm>

#include "annulus/core/storage.hpp"
#include "annulus/io/generated.hpp"

namespace annulus::verify {

using core::DType;
using core::TensorId;

std::vector<double> to_double(const std::vector<std::byte>& bytes, DType type) {
  std::vector<double> numbers(bytes.size() / core::bytes_of(type));
  const auto convert = [&](const auto* stored) {
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = core::load_as<double>(stored[i]);
  };
  const void* data = bytes.data();
  if (type == DType::float64) convert(static_cast<const double*>(data));
  if (type == DType::float32) convert(static_cast<const float*>(data));
  if (type == DType::float16) convert(static_cast<const core::Half*>(data));
  if (type == DType::bfloat16) convert(static_cast<const core::BFloat16*>(data));
  return numbers;
}

AttentionInput::AttentionInput(const io::InputSettings& settings, bool gradients, const comm::Communicator& comm)
    : settings_(settings) {
  if (settings.file) {
    file_.emplace(settings, comm, gradients);
    shape = file_->shape();
    type = file_->type();
    order = file_->order();
    documents = file_->documents();
  } else {
    shape = settings.generate->shape;
    type = settings.generate->type;
    documents = {0, shape.sequence};
  }
}

const std::string& AttentionInput::name_of(TensorId tensor) const {
  switch (tensor) {
    case TensorId::q:
      return settings_.q;
    case TensorId::k:
      return settings_.k;
    case TensorId::v:
      return settings_.v;
    case TensorId::dlse:
      return *settings_.dlse;
    default:
      return settings_.dout;
  }
}

std::vector<double> AttentionInput::rows(TensorId tensor, Interval rows) const {
  const bool keys = tensor == TensorId::k || tensor == TensorId::v, lse = tensor == TensorId::dlse;
  const Index numbers = (keys ? shape.kv_heads : shape.heads) * (lse ? 1 : shape.head_dim);
  const DType stored = lse ? core::lse_type(type) : type;
  if (lse && !settings_.dlse) return std::vector<double>(std::size_t(shape.batch * rows.size() * numbers));
  if (file_) return read_as_double(file_->seen(), name_of(tensor), rows);
  std::vector<std::byte> host(std::size_t(shape.batch * rows.size() * numbers) * core::bytes_of(stored));
  io::fill_generated(*settings_.generate, tensor, {rows}, host.data());
  return to_double(host, stored);
}

std::string VerifyInput::place(Index b, Index x, Index h, Index d) const {
  return fmt::format("[{}]", fmt::join(io::reordered<Index>({b, x, h, d}, order), ", "));
}
std::string VerifyInput::place(Index b, Index x, Index h) const {
  return fmt::format("[{}]", fmt::join(io::reordered<Index>({b, x, h}, order), ", "));
}

std::vector<double> read_as_double(const io::SeenFile& file, const std::string& dataset, Interval rows) {
  const io::DatasetInfo& info = file.at(dataset);
  Index numbers = rows.size();
  for (std::size_t axis = 0; axis < info.extents.size(); ++axis) {
    numbers *= axis == io::sequence_axis(info.order) ? 1 : info.extents[axis];
  }
  std::vector<std::byte> host(std::size_t(numbers) * core::bytes_of(info.type));
  io::read_rows_alone(file, {dataset, host.data()}, rows);
  return to_double(host, info.type);
}

void for_each_chunk(const std::vector<Interval>& ranges, Index sequence, Index step,
                    const std::function<void(Interval)>& visit) {
  for (Index begin = 0; begin < sequence; begin += step) {
    Interval chunk{sequence, 0};
    for (const Interval& range : ranges) {
      const Interval part = intersect(range, {begin, std::min(sequence, begin + step)});
      if (!part.empty()) chunk = {std::min(chunk.begin, part.begin), std::max(chunk.end, part.end)};
    }
    if (!chunk.empty()) visit(chunk);
  }
}

}  // namespace annulus::verify
