#include "annulus/runfile/bench_file.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <sstream>

#include "annulus/runfile/run_file_checks.hpp"

namespace annulus::runfile {
namespace {

bool is_left_out(const BenchCase& one, const std::vector<SkipCondition>& skip) {
  return std::any_of(skip.begin(), skip.end(), [&](const SkipCondition& condition) {
    return std::all_of(condition.values.begin(), condition.values.end(), [&](const auto& entry) {
      const SweptValue* value = one.find(entry.first);
      return value != nullptr && *value == entry.second;
    });
  });
}

/// Checks the numbers of ranks and threads that a case asks for.
void check_launch_words(const BenchCase& one) {
  for (const char* word : {ranks_word, threads_word}) {
    if (const SweptValue* value = one.find(word)) {
      Index number = 0;
      whole(1, 1'000'000).read({value->node, std::string("bench.sweep: ") + word, ""}, number);
    }
  }
}

/// False for a key that cannot change the measurements.
bool belongs_to_identity(const std::string& name) {
  const std::string_view section = section_of(name);
  return section != "output" && section != "train" && name != "bench.file" && name != "bench.json" &&
         name != "distribution.stall_timeout";
}

}  // namespace

std::string BenchCase::name() const {
  std::vector<std::string> words;
  for (const auto& [key, value] : values) words.push_back(key + "=" + value.text);
  return fmt::format("case {} ({})", number, fmt::join(words, ", "));
}

const SweptValue* BenchCase::find(std::string_view word) const {
  const auto found = std::find_if(values.begin(), values.end(), [&](const auto& entry) { return entry.first == word; });
  return found == values.end() ? nullptr : &found->second;
}

RunFile BenchFile::run_file(const BenchCase& one) const {
  try {
    check_launch_words(one);
    RunFileTree tree = shared;
    for (const auto& [key, value] : one.values) {
      if (key != ranks_word && key != threads_word) put(tree.root, key, value.node, value.node.location);
    }
    return settings_of(tree);
  } catch (const core::Error& error) {
    core::fail(error.kind(), "bench: {}: {}", one.name(), error.what());
  }
}

std::string BenchFile::identity() const {
  Settings same = run_file(cases.front()).settings;
  same.bench = settings;
  std::string text;
  for (const Key<Settings>& key : run_file_keys()) {
    if (!belongs_to_identity(key.name) || cases.front().find(key.name) != nullptr) continue;
    std::string value = key.text(same);
    if (key.name == "input.file" || key.name == "distribution.machine") {
      value = std::filesystem::path(value).filename().string();
    }
    if (!value.empty()) text += key.name + ": " + value + "\n";
  }
  return text;
}

BenchFile bench_file_of(RunFileTree tree) {
  const RunFile run = keys_of(tree);
  if (!run.settings.bench) refuse(run, "", "bench needs a section bench");
  check_required(run_file_keys(), run.locations, run.settings, "bench");
  check_sweep(run.settings.bench->sweep, run.settings.bench->skip);
  check_output(run);
  if (!run.settings.output.statistics.empty()) {
    refuse(run, "output.statistics", ": bench makes none, expected []; `annulus run` does");
  }
  BenchFile file{std::move(tree), *run.settings.bench, cases_of(*run.settings.bench)};
  if (file.cases.empty()) refuse(run, "bench.skip", " leaves no case");
  YamlNode& root = file.shared.root;
  std::erase_if(root.entries, [](const YamlNode::Entry& section) {
    return section.key == "bench" || section.key == "output" || section.key == "train";
  });
  const std::string location = run.where("output");
  put(root, "output.file", {YamlNode::Kind::scalar, location, OutputSettings::no_file, false, {}, {}}, location);
  return file;
}

BenchFile read_bench_file(const std::string& path, const std::vector<std::string>& overrides,
                          const comm::Communicator& comm) {
  const RunFileTree tree = read_run_file_tree(path, overrides, comm);
  BenchFile file;
  comm::agree(comm, [&] { file = bench_file_of(tree); });
  return file;
}

std::vector<BenchCase> cases_of(const BenchSettings& settings) {
  std::vector<BenchCase> all{{}};
  for (const SweepAxis& axis : settings.sweep) {
    std::vector<BenchCase> longer;
    for (const BenchCase& begun : all) {
      for (std::size_t i = 0; i < axis[0].values.size(); ++i) {
        longer.push_back(begun);
        for (const SweptKey& key : axis) longer.back().values.emplace_back(key.name, key.values[i]);
      }
    }
    all = std::move(longer);
  }
  std::erase_if(all, [&](const BenchCase& one) { return is_left_out(one, settings.skip); });
  for (std::size_t i = 0; i < all.size(); ++i) all[i].number = Index(i);
  return all;
}

std::vector<std::string> identity_differences(const std::string& made, const std::string& asked) {
  using Values = std::array<std::string, 2>;  // the key's values in `made` and in `asked`
  std::map<std::string, Values> keys;
  for (const std::size_t i : {0u, 1u}) {
    std::istringstream lines(i == 0 ? made : asked);
    for (std::string line; std::getline(lines, line);) {
      const std::size_t colon = line.find(": ");
      Values& values = keys.try_emplace(line.substr(0, colon), Values{"(not there)", "(not there)"}).first->second;
      values[i] = colon == std::string::npos ? "" : line.substr(colon + 2);
    }
  }
  std::vector<std::string> differences;
  for (const auto& [key, values] : keys) {
    if (values[0] != values[1]) differences.push_back(fmt::format("{}: {} -> {}", key, values[0], values[1]));
  }
  return differences;
}

}  // namespace annulus::runfile
