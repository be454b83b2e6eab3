#include "annulus/app/bench/columns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "annulus/app/summary/summary.hpp"
#include "annulus/core/metrics.hpp"
#include "annulus/runfile/user_words.hpp"

namespace annulus::app {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

double median(std::vector<double> values) {
  if (values.empty()) return nan;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// All repeats of a case. Unless said otherwise, numbers are sums of the forward and the backward pass.
class Repeats {
 public:
  Repeats(const CaseMeasurements& of, const core::Shape& shape) : of_(of), shape_(shape) {}

  const CaseMeasurements& of() const { return of_; }
  std::vector<double> seconds() const {
    return each([](const report::PassMeasurements& pass) { return pass.seconds; });
  }
  double median_seconds() const { return median(seconds()); }
  /// For each repeat, the longest wait of any rank in the forward pass, plus the longest wait in the backward pass.
  std::vector<double> wait() const {
    return each([](const report::PassMeasurements& pass) { return pass.most("wait_seconds"); });
  }
  /// The largest value of any rank in the forward pass, plus the largest in the backward pass. sum() takes the sums of
  /// all ranks instead. Both read only the first repeat, so use them only for counts, which all repeats have in common.
  double most(const char* name) const {
    return each([&](const report::PassMeasurements& pass) { return pass.most(name); }).front();
  }
  double sum(const char* name) const {
    return each([&](const report::PassMeasurements& pass) { return pass.sum(name); }).front();
  }
  double gflop_per_cpu_second() const {
    const std::vector<double> all =
        each([](const report::PassMeasurements& pass) { return pass.sum("kernel_cpu_seconds"); });
    const double cpu = std::accumulate(all.begin(), all.end(), 0.0);
    return cpu > 0 ? gflop() * double(all.size()) / cpu : nan;
  }
  /// The peak rate of one thread, in GFLOP per CPU second; NaN if it is not known.
  double peak() const { return of_.peak_gflop_per_cpu_second > 0 ? of_.peak_gflop_per_cpu_second : nan; }
  /// Floating-point operations of one repeat, in units of 10^9.
  double gflop() const {
    const double forward = core::forward_flops(of_.forward[0].sum("kept"), shape_);
    return 1e-9 *
           (of_.backward.empty() ? forward : forward + core::backward_flops(of_.backward[0].sum("kept"), shape_));
  }
  /// The busiest rank's work over the mean work of all ranks, in the forward pass alone.
  double balance() const {
    const report::PassMeasurements& pass = of_.forward[0];
    return pass.most("kept") * double(pass.of("kept").size()) / std::max(pass.sum("kept"), 1.0);
  }

 private:
  template <class Value>
  std::vector<double> each(const Value& value) const {
    std::vector<double> all;
    for (std::size_t i = 0; i < of_.forward.size(); ++i) {
      all.push_back(value(of_.forward[i]) + (of_.backward.empty() ? 0 : value(of_.backward[i])));
    }
    return all;
  }

  const CaseMeasurements& of_;
  const core::Shape shape_;
};

/// The largest error of these tensors; NaN if none of them was compared.
double error_of(const verify::Findings& findings, std::initializer_list<const char*> names) {
  double error = nan;
  for (const verify::Verdict& verdict : findings.verdicts) {
    for (const char* name : names) {
      if (verdict.name == name) error = std::fmax(error, verdict.deviation.relative());
    }
  }
  return error;
}

double median_seconds(const std::vector<report::PassMeasurements>& passes) {
  std::vector<double> seconds;
  for (const report::PassMeasurements& pass : passes) seconds.push_back(pass.seconds);
  return median(seconds);
}

struct NumberColumn {
  const char* name;
  const char* units;
  double (*value)(const Repeats&);
};
constexpr NumberColumn number_columns[] = {
    {"attention_seconds_min", "s", [](const Repeats& r) { return std::ranges::min(r.seconds()); }},
    {"attention_seconds_median", "s", [](const Repeats& r) { return r.median_seconds(); }},
    {"attention_seconds_max", "s", [](const Repeats& r) { return std::ranges::max(r.seconds()); }},
    {"forward_seconds_median", "s", [](const Repeats& r) { return median_seconds(r.of().forward); }},
    {"backward_seconds_median", "s", [](const Repeats& r) { return median_seconds(r.of().backward); }},
    {"gflop", "1e9", [](const Repeats& r) { return r.gflop(); }},
    {"gflop_per_second", "1e9 s-1", [](const Repeats& r) { return r.gflop() / r.median_seconds(); }},
    {"gflop_per_cpu_second", "1e9 s-1", [](const Repeats& r) { return r.gflop_per_cpu_second(); }},
    {"peak_gflop_per_cpu_second", "1e9 s-1", [](const Repeats& r) { return r.peak(); }},
    {"share_of_peak", "1", [](const Repeats& r) { return r.gflop_per_cpu_second() / r.peak(); }},
    {"wait_seconds", "s", [](const Repeats& r) { return median(r.wait()); }},
    {"balance", "1", [](const Repeats& r) { return r.balance(); }},
    {"bytes_received", "bytes", [](const Repeats& r) { return r.most("bytes_received"); }},
    {"bytes_received_total", "bytes", [](const Repeats& r) { return r.sum("bytes_received"); }},
    {"bus_bytes_per_second", "byte s-1",
     [](const Repeats& r) { return r.most("bytes_received") / r.median_seconds(); }},
    {"peak_bytes", "bytes", [](const Repeats& r) { return r.of().peak_bytes; }},
    {"predicted_seconds", "s", [](const Repeats& r) { return r.of().predicted_seconds; }},
    {"predicted_peak_bytes", "bytes", [](const Repeats& r) { return r.of().predicted_peak_bytes; }},
    {"error_out", "1",
     [](const Repeats& r) {
       return error_of(r.of().findings, {"out", "y"});
     }},
    {"error_lse", "1", [](const Repeats& r) { return error_of(r.of().findings, {"lse"}); }},
    {"error_gradients", "1",
     [](const Repeats& r) {
       return error_of(r.of().findings, {"dq", "dk", "dv", "dx"});
     }},
};
constexpr const char* whole_columns[] = {"ranks",    "threads", "repeats",  "batch",
                                         "sequence", "heads",   "kv_heads", "head_dim"};
constexpr const char* word_columns[] = {"status", "strategy", "partition", "dtype",   "instruction_set",
                                        "date",   "hosts",    "job_id",    "version", "error"};

/// The name of the column for the fraction of (query, key) pairs that a library computed.
std::string share_column(const kernels::LibraryBackend& library) {
  return fmt::format("{}_share", core::name_of(library.backend));
}

void add_settings(const Job& job, store::CaseRecord& record) {
  const core::Shape& s = job.problem.shape;
  record.numbers.emplace_back("batch", double(s.batch));
  record.numbers.emplace_back("sequence", double(s.sequence));
  record.numbers.emplace_back("heads", double(s.heads));
  record.numbers.emplace_back("kv_heads", double(s.kv_heads));
  record.numbers.emplace_back("head_dim", double(s.head_dim));
  record.words.emplace_back("strategy", name_of_strategy(job));
  record.words.emplace_back("partition", name_of_partition(job));
  record.words.emplace_back("dtype", core::name_of(job.problem.type));
}

/// The values of a swept key, as numbers if all of them are whole numbers, otherwise as text.
report::TableColumn swept_column(const std::string& key, const std::vector<runfile::BenchCase>& cases) {
  std::vector<std::string> texts;
  std::vector<Index> numbers;
  for (const runfile::BenchCase& one : cases) {
    texts.push_back(one.find(key)->text);
    if (const auto number = runfile::parse_whole(texts.back(), {0, INT64_MAX}).number) numbers.push_back(*number);
  }
  if (numbers.size() < texts.size()) return {key, "", texts};
  return {key, "", numbers};
}

using Row = std::vector<std::string>;

/// A measured number as short text; "-" if there is none.
std::string number_text(double value, const char* format) {
  return std::isnan(value) ? "-" : fmt::format(fmt::runtime(format), value);
}

/// Half of the difference between the slowest and the fastest repeat, in per cent of the median.
double spread(const store::CaseRecord& record) {
  const double least = record.number_in("attention_seconds_min"), most = record.number_in("attention_seconds_max");
  return 50 * (most - least) / record.number_in("attention_seconds_median");
}

struct Shown {
  const char* heading;
  std::string (*text)(const store::CaseRecord&);
};
template <int scale_exponent = 0>
std::string scaled(const store::CaseRecord& record, const char* column, const char* format) {
  return number_text(record.number_in(column) * std::ldexp(1.0, scale_exponent), format);
}
const Shown shown[] = {
    {"seconds", [](const store::CaseRecord& r) { return scaled(r, "attention_seconds_median", "{:.4g}"); }},
    {"+-%", [](const store::CaseRecord& r) { return number_text(spread(r), "{:.0f}"); }},
    {"GFLOP/s", [](const store::CaseRecord& r) { return scaled(r, "gflop_per_second", "{:.1f}"); }},
    {"/CPU s", [](const store::CaseRecord& r) { return scaled(r, "gflop_per_cpu_second", "{:.1f}"); }},
    {"of peak", [](const store::CaseRecord& r) { return scaled(r, "share_of_peak", "{:.2f}"); }},
    {"wait s", [](const store::CaseRecord& r) { return scaled(r, "wait_seconds", "{:.3g}"); }},
    {"MiB recv", [](const store::CaseRecord& r) { return scaled<-20>(r, "bytes_received", "{:.2f}"); }},
    {"MiB peak", [](const store::CaseRecord& r) { return scaled<-20>(r, "peak_bytes", "{:.1f}"); }},
    {"predicted", [](const store::CaseRecord& r) { return scaled(r, "predicted_seconds", "{:.4g}"); }},
    {"MiB pred", [](const store::CaseRecord& r) { return scaled<-20>(r, "predicted_peak_bytes", "{:.1f}"); }},
    {"error", [](const store::CaseRecord& r) { return scaled(r, "error_out", "{:.1e}"); }},
    {"ranks", [](const store::CaseRecord& r) { return scaled(r, "ranks", "{:.0f}"); }},
    {"status", [](const store::CaseRecord& r) { return r.word_in("status"); }},
};

/// Pads every column to the width of its widest text.
std::string aligned(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(row.size());
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) text += fmt::format("  {:>{}}", row[i], widths[i]);
    text += "\n";
  }
  return text;
}

}  // namespace

store::CaseRecord record_of_case(const runfile::BenchCase& one, const Job& job, const CaseMeasurements& measured,
                                 const store::CaseRecord& launch) {
  const Repeats repeats(measured, job.problem.shape);
  store::CaseRecord record = launch;
  record.number = one.number;
  for (const NumberColumn& column : number_columns) record.numbers.emplace_back(column.name, column.value(repeats));
  record.numbers.emplace_back("repeats", double(measured.forward.size()));
  if (measured.library != nullptr)
    record.numbers.emplace_back(share_column(*measured.library), measured.pairs.library_share());
  record.words.emplace_back("status", measured.findings.good() ? status_ok : status_wrong);
  add_settings(job, record);
  return record;
}

store::CaseRecord record_of_failure(const runfile::BenchCase& one, const std::string& error,
                                    const store::CaseRecord& launch) {
  store::CaseRecord record = launch;
  record.number = one.number;
  record.words.emplace_back("status", status_failed);
  record.words.emplace_back("error", error);
  return record;
}

bool is_measured(const store::CaseRecord& record) {
  const std::string status = record.word_in("status");
  return status == status_ok || status == status_wrong;
}

CaseRecords best_records(const std::vector<store::CaseRecord>& all, const std::vector<runfile::BenchCase>& cases) {
  const auto order = [](const store::CaseRecord& record) {
    return std::tuple(!is_measured(record), record.word_in("date"), store::line_of(record));
  };
  CaseRecords best(cases.size());
  for (const store::CaseRecord& record : all) {
    if (record.number < 0 || record.number >= Index(cases.size())) continue;
    auto& known = best[std::size_t(record.number)];
    if (!known || order(record) < order(*known)) known = record;
  }
  return best;
}

std::vector<report::TableColumn> table_columns(const std::vector<runfile::BenchCase>& cases,
                                               const CaseRecords& records) {
  std::vector<report::TableColumn> columns;
  for (const auto& [key, value] : cases.front().values) {
    if (key != runfile::ranks_word && key != runfile::threads_word) columns.push_back(swept_column(key, cases));
  }
  const auto add_numbers = [&](const std::string& name, const char* units) {
    std::vector<double> values;
    for (const auto& record : records) values.push_back(record ? record->number_in(name) : nan);
    columns.push_back({name, units, values});
  };
  for (const NumberColumn& column : number_columns) add_numbers(column.name, column.units);
  for (const kernels::LibraryBackend& one : kernels::library_backends()) add_numbers(share_column(one), "1");
  for (const char* name : whole_columns) {  // 0 means not known
    std::vector<Index> values;
    for (std::size_t i = 0; i < cases.size(); ++i) {
      const double value = records[i] ? records[i]->number_in(name) : nan;
      const runfile::SweptValue* asked = cases[i].find(name);
      values.push_back(asked ? std::stoll(asked->text) : std::isnan(value) ? 0 : Index(value));
    }
    columns.push_back({name, "", values});
  }
  for (const char* name : word_columns) {
    std::vector<std::string> values;
    for (const auto& record : records) {
      values.push_back(record ? record->word_in(name) : std::string_view(name) == "status" ? status_missing : "");
    }
    columns.push_back({name, "", values});
  }
  return columns;
}

std::string printed_table(const std::vector<runfile::BenchCase>& cases, const CaseRecords& records, std::size_t most) {
  Row heading{"case"};
  for (const auto& [key, value] : cases.front().values) {
    if (key != runfile::ranks_word) heading.push_back(key.substr(key.rfind('.') + 1));
  }
  for (const Shown& column : shown) heading.emplace_back(column.heading);
  std::vector<Row> rows{heading};
  std::size_t left = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (!records[i]) continue;
    if (rows.size() > most) {
      ++left;
      continue;
    }
    Row row{std::to_string(cases[i].number)};
    for (const auto& [key, value] : cases[i].values) {
      if (key != runfile::ranks_word) row.push_back(value.text);
    }
    for (const Shown& column : shown) row.push_back(column.text(*records[i]));
    rows.push_back(std::move(row));
  }
  return aligned(rows) + (left > 0 ? fmt::format("  ... and {} more, in the file\n", left) : "");
}

}  // namespace annulus::app
