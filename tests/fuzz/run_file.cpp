// A run file, and values of --set: the file is the text up to the first NUL byte, a value follows each NUL.
#include "annulus/runfile/bench_file.hpp"
#include "fuzz.hpp"

namespace annulus::fuzz {
namespace {

using runfile::RunFile;

/// An accepted run file means the same when it is written out and read again.
void check_settings(const RunFile& run) {
  const std::string text = runfile::resolved_text(run.settings);
  const bool is_read = is_accepted([&] {
    const RunFile again = runfile::parse_run_file(text, "/folder/resolved.yaml", {});
    expect(runfile::resolved_text(again.settings) == text, "written out twice, a run file differs:\n" + text);
    const std::vector<std::string> other = runfile::differences(run.settings, again.settings);
    expect(other.empty(), "written out and read: " + (other.empty() ? "" : other[0]));
  });
  expect(is_read, "what is written out is refused:\n" + text);
}

}  // namespace

void fuzz_one(std::string_view bytes) {
  std::vector<std::string> parts{""};
  for (const char one : bytes) {
    if (one == '\0') {
      parts.emplace_back();
    } else {
      parts.back() += one;
    }
  }
  const std::vector<std::string> overrides(parts.begin() + 1, parts.end());
  runfile::RunFileTree tree;
  if (!is_accepted([&] { tree = runfile::parse_run_file_tree(parts[0], "/folder/run.yaml", overrides); })) return;
  is_accepted([&] { check_settings(runfile::settings_of(tree)); });
  is_accepted([&] {
    const runfile::BenchFile bench = runfile::bench_file_of(tree);
    is_accepted([&] { bench.run_file(bench.cases.back()); });
    const std::string identity = bench.identity();
    expect(runfile::identity_differences(identity, identity).empty(), "a sweep differs from itself:\n" + identity);
  });
}

}  // namespace annulus::fuzz
