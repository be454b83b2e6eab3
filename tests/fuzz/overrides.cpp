// The bytes are arguments of --set, one per line, for a valid run file.
#include "annulus/runfile/run_file.hpp"
#include "fuzz.hpp"

namespace annulus::fuzz {

void fuzz_one(std::string_view bytes) {
  constexpr const char* text =
      "input: {file: in.h5, documents: /d}\nattention: {segments: [4, all], dilations: [1, 2]}\n"
      "layer: {heads: 4}\ntrain: {checkpoint: c.h5, steps: 2}\noutput: {file: out.h5}\n";
  std::vector<std::string> lines{""};
  for (const char one : bytes) {
    if (one == '\n') {
      lines.emplace_back();
    } else {
      lines.back() += one;
    }
  }
  const bool are_accepted = is_accepted([&] { runfile::parse_run_file(text, "/folder/run.yaml", lines); });
  if (!are_accepted) return;
  std::vector<std::string> twice = lines;  // the last value of a key counts, and it is the same
  twice.insert(twice.end(), lines.begin(), lines.end());
  const auto resolved = [&](const std::vector<std::string>& values) {
    return runfile::resolved_text(runfile::parse_run_file(text, "/folder/run.yaml", values).settings);
  };
  const bool are_again = is_accepted(
      [&] { expect(resolved(lines) == resolved(twice), "the same values of --set given twice mean something else"); });
  expect(are_again, "values of --set are refused when they are given twice");
}

}  // namespace annulus::fuzz
