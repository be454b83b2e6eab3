#include "annulus/verify/input.hpp"

#include <utility>

#include "annulus/store/file_rows.hpp"
#include "annulus/store/generated.hpp"
#include "annulus/strategies/definition.hpp"
#include "annulus/strategies/stored_tensors.hpp"

namespace annulus::verify {

using core::StoredTensor;

Numbers to_double(const std::vector<std::byte>& bytes, store::NumberType type) {
  Numbers numbers(bytes.size() / bytes_of(type));
  if (type.dtype()) {
    store::convert({const_cast<std::byte*>(bytes.data()), type}, {numbers.data(), core::DType::float64},
                   Index(numbers.size()));
  } else {
    const auto* whole = reinterpret_cast<const std::int64_t*>(bytes.data());
    std::copy(whole, whole + numbers.size(), numbers.begin());
  }
  return numbers;
}

VerifyInput::VerifyInput(const strategies::Problem& problem, core::AxisOrder file_order)
    : shape(problem.shape),
      queries(problem.query_count()),
      first_query(problem.queries ? problem.queries->begin : 0),
      has_query_rows(!problem.has_queries_after_all_keys()),
      type(problem.type),
      precision(problem.precision),
      order(file_order),
      pattern(strategies::reference_pattern(problem)) {}

AttentionInput::AttentionInput(const strategies::Problem& problem, const runfile::InputSettings& settings,
                               const std::optional<store::InputFile>& file)
    : VerifyInput(problem, file ? file->order() : core::AxisOrder::bshd), problem_(problem), settings_(settings) {
  if (!file) return;
  file_ = file->inspected();
  if (file_->is_end_to_end) entry_rows = entry_queries = file->shape().sequence;
  pattern.sink = file->sink();
  if (problem.key_ranges.empty()) return;
  file_->is_end_to_end = true;  // only in this copy, because a run reads such a file entry by entry
  entry_rows = shape.sequence;
  entry_queries = queries;
  has_query_rows = false;
  for (const core::Interval& keys : problem.key_ranges)
    entry_begins.push_back(Index(entry_begins.size()) * entry_rows + (keys.empty() ? 0 : keys.begin));
  queries *= shape.batch;
  shape.sequence *= std::exchange(shape.batch, 1);
}

Numbers AttentionInput::rows(StoredTensor tensor, Interval rows) const {
  const Index numbers = heads_of(problem_, tensor) * head_numbers_of(problem_, tensor);
  const Index count = shape.batch * rows.size() * numbers;
  if ((tensor == StoredTensor::dlse && !settings_.dlse) || (tensor == StoredTensor::dout && !problem_.gradients))
    return Numbers(std::size_t(count));
  if (file_) return read_as_double(*file_, store::dataset_of(settings_, tensor), rows);
  std::vector<std::byte> host(std::size_t(count * number_bytes_of(problem_, tensor)));
  store::fill_tensor(settings_.generate->seed, store::generated(*settings_.generate, store::seed_of(tensor)), {rows},
                     host.data());
  return to_double(host, *memory_type_of(problem_, tensor));
}

ResultRows rows_in(const store::InspectedFile& file, Index sequence) {
  return [&file, sequence](const std::string& dataset, Interval rows) {
    Numbers numbers = read_as_double(file, dataset, rows);
    if (dataset != core::name_of(core::StoredTensor::top_rows) || !file.is_end_to_end) return numbers;
    const store::DatasetInfo& info = file.at(dataset);  // top_rows count rows of k from the start of a batch entry
    const Index queries = info.extents[core::sequence_axis(info.order)];
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const Index row = rows.begin + Index(i) / (Index(numbers.size()) / rows.size());
      const Index entry = row / queries;
      if (numbers[i] >= 0) numbers[i] += double(entry * sequence);
    }
    return numbers;
  };
}

RowReader::RowReader(const ResultRows& result, const std::string& dataset)
    : RowReader([&result, dataset](Interval row) { return result(dataset, row); }) {}
RowReader::RowReader(const VerifyInput& input, StoredTensor tensor)
    : RowReader([&input, tensor](Interval row) { return input.rows(tensor, row); }) {}

std::string VerifyInput::index_text(Index b, Index x, Index h, std::optional<Index> d, bool of_key) const {
  if (const Index rows = of_key ? entry_rows : entry_queries; rows > 0) b = x / rows, x %= rows;
  std::vector<Index> at{b, x, h};
  if (d) at.push_back(*d);
  return fmt::format("[{}]", fmt::join(core::reordered(std::move(at), order), ", "));
}

Numbers read_as_double(const store::InspectedFile& file, const std::string& dataset, Interval rows) {
  const store::DatasetInfo& info = file.at(dataset);
  std::vector<std::byte> host(std::size_t(file.numbers_in(info, rows.size())) * bytes_of(info.type));
  store::read_rows(file, {dataset, host.data()}, {rows}, store::Wanted::present_numbers);
  return to_double(host, info.type);
}

std::vector<Index> rows_in(const WantedRows& wanted, Interval rows) {
  std::vector<Index> all;
  std::size_t runs = 0;
  for (const kernels::RowRun& run : wanted) {
    const Index before = core::ceil_div(std::max<Index>(0, rows.begin - run.first), run.step);
    const std::size_t had = all.size();
    for (Index row = run.first + before * run.step; row < std::min(rows.end, run.end); row += run.step) {
      all.push_back(row);
    }
    runs += all.size() > had;
  }
  if (runs < 2) return all;
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

ReadSteps read_steps(const VerifyInput& input, Index row_numbers) {
  const Index numbers = input.shape.batch * row_numbers;
  return {std::max<Index>(1, verify_chunk_bytes / (8 * numbers)),
          std::max<Index>(1, verify_gap_bytes / (Index(core::bytes_of(input.type)) * numbers))};
}

void for_each_stretch(const std::vector<WantedRows>& wanted, Index sequence, const ReadSteps& steps,
                      const std::function<void(Interval)>& visit, const ShareShown& shown) {
  std::vector<char> is_wanted;
  for (Index begin = 0; begin < sequence; begin += steps.rows) {
    const Interval chunk{begin, std::min(sequence, begin + steps.rows)};
    is_wanted.assign(std::size_t(chunk.size()), 0);
    for (const WantedRows& rows : wanted) {
      for (const kernels::RowRun& run : rows) {
        const Index before = core::ceil_div(std::max<Index>(0, chunk.begin - run.first), run.step);
        for (Index row = run.first + before * run.step; row < std::min(chunk.end, run.end); row += run.step) {
          is_wanted[std::size_t(row - begin)] = 1;
        }
      }
    }
    Interval stretch{0, 0};
    const auto end_stretch = [&] {
      if (!stretch.empty()) visit(stretch);
    };
    for (Index row = chunk.begin; row < chunk.end; ++row) {
      if (is_wanted[std::size_t(row - begin)] == 0) continue;
      if (stretch.empty() || row - stretch.end >= steps.gap) {
        end_stretch();
        stretch.begin = row;
      }
      stretch.end = row + 1;
    }
    end_stretch();
    if (shown) shown(double(chunk.end) / double(sequence));
  }
}

}  // namespace annulus::verify
