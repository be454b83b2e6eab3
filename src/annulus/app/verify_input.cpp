#include "annulus/app/verify_input.hpp"

#include <algorithm>

#include "annulus/core/storage.hpp"
#include "annulus/io/generated.hpp"
#include "annulus/io/tensor_file.hpp"
#include "annulus/io/transfer.hpp"

namespace annulus::app {

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
    const io::TensorFile file(settings, comm, gradients);
    shape = file.shape();
    type = file.type();
    documents = file.documents();
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
  if (settings_.file) return read_as_double(*settings_.file, name_of(tensor), stored, shape.batch, numbers, rows);
  std::vector<std::byte> host(std::size_t(shape.batch * rows.size() * numbers) * core::bytes_of(stored));
  io::fill_generated(*settings_.generate, tensor, {rows}, host.data());
  return to_double(host, stored);
}

std::vector<double> read_as_double(const std::string& file, const std::string& dataset, DType type, Index batch,
                                   Index row_numbers, Interval rows) {
  std::vector<std::byte> host(std::size_t(batch * rows.size() * row_numbers) * core::bytes_of(type));
  io::read_rows_alone(file, {dataset, host.data()}, rows);
  return to_double(host, type);
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

}  // namespace annulus::app
