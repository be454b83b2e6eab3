// A sweep's table on stdout.
#include <fmt/format.h>

#include <cmath>

#include "annulus/app/bench/columns.hpp"

namespace annulus::app {
namespace {

using Row = std::vector<std::string>;

/// A measured number in few characters; "-" where there is none.
std::string number_text(double value, const char* format) {
  return std::isnan(value) ? "-" : fmt::format(fmt::runtime(format), value);
}

/// Half of the way from the fastest to the slowest repeat, in per cent of the median.
double spread(const store::CaseRecord& record) {
  const double least = record.number_of("attention_seconds_min"), most = record.number_of("attention_seconds_max");
  return 50 * (most - least) / record.number_of("attention_seconds_median");
}

struct Shown {
  const char* heading;
  std::string (*text)(const store::CaseRecord&);
};
template <int scale_exponent = 0>
std::string scaled(const store::CaseRecord& record, const char* column, const char* format) {
  return number_text(record.number_of(column) * std::ldexp(1.0, scale_exponent), format);
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
    {"status", [](const store::CaseRecord& r) { return r.word_of("status"); }},
};

/// Columns as wide as their widest entry.
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

std::string printed_table(const std::vector<runfile::BenchCase>& cases,
                          const std::vector<std::optional<store::CaseRecord>>& records, std::size_t most) {
  Row heading{"case"};
  const auto is_told_anyway = [](const std::string& key) { return key == runfile::ranks_word; };
  for (const auto& [key, value] : cases.front().values) {
    if (!is_told_anyway(key)) heading.push_back(key.substr(key.rfind('.') + 1));
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
      if (!is_told_anyway(key)) row.push_back(value.text);
    }
    for (const Shown& column : shown) row.push_back(column.text(*records[i]));
    rows.push_back(std::move(row));
  }
  return aligned(rows) + (left > 0 ? fmt::format("  ... and {} more, in the file\n", left) : "");
}

}  // namespace annulus::app
