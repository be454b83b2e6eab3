#include "annulus/app/job/run_identity.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

#include "annulus/core/gpu_driver.hpp"
#include "annulus/kernels/attention.hpp"
#include "annulus/store/fingerprint.hpp"
#include "annulus/store/json_text.hpp"
#include "annulus/strategies/stored_tensors.hpp"
#include "annulus/version.hpp"

namespace annulus::app {
namespace {

using Json = nlohmann::ordered_json;

std::string program() { return fmt::format("{} ({})", annulus::version, annulus::git_commit); }

/// A hash of 16 rows of every tensor, evenly spaced from the first to the last.
std::string sampled_rows(const Request& request) {
  constexpr Index samples = 16;
  const core::Shape& s = request.problem.shape;
  store::FileRows rows;
  std::vector<Index> sums;
  for (const core::StoredTensor tensor : input_tensors(request)) {
    rows.put(tensor, input_origin(request, tensor));
    const Index heads = heads_of(request.problem, tensor), numbers = head_numbers_of(request.problem, tensor);
    const Index count = rows_of(request.problem, tensor);
    const Index head_bytes = numbers * 8, row_bytes = heads * head_bytes;  // bytes in the widest type
    std::vector<Index> memory(std::size_t(samples * row_bytes / 8), 0);
    std::vector<core::RowPiece> pieces;
    for (Index i = 0; i < samples; ++i) {
      const Index at = i * (s.batch * count - 1) / (samples - 1);
      pieces.push_back({.batch = at / count,
                        .first = at % count,
                        .count = 1,
                        .heads = {0, heads},
                        .memory = memory.data() + i * row_bytes / 8,
                        .pitch = row_bytes,
                        .head_pitch = head_bytes});
    }
    rows.wait(rows.start(tensor, std::move(pieces)));
    sums.push_back(Index(store::fingerprint(memory)));
  }
  return fmt::format("{:016x}", store::fingerprint(sums));
}

/// A hash of the numbers in the datasets of input.sink, input.documents, input.lengths and input.coordinates.
std::string small_datasets(const Request& request) {
  std::vector<Index> numbers(request.problem.documents.begin(), request.problem.documents.end());
  numbers.insert(numbers.end(), request.problem.documents.gaps.begin(), request.problem.documents.gaps.end());
  for (const core::Interval& keys : request.problem.key_ranges) numbers.insert(numbers.end(), {keys.begin, keys.end});
  for (const std::vector<double>* const some : {&request.input->sink(), &request.input->coordinates()}) {
    for (const double number : *some) numbers.push_back(std::bit_cast<Index>(number));
  }
  return fmt::format("{:016x}", store::fingerprint(numbers));
}

Json input_json(const Request& request) {
  if (request.layer) return Json::object();  // a layer has one unit, so no launch continues another
  Json input{{"rows", sampled_rows(request)}};
  if (!request.input) return input;
  input["small datasets"] = small_datasets(request);
  for (const auto& [file, state] : request.other_input_files()) {
    input["file " + file] = fmt::format("inode {}, {} bytes, modified {}", state.inode, state.bytes, state.modified);
  }
  const store::FileState& state = request.input->inspected().state;
  input["inode"] = state.inode;
  input["bytes"] = state.bytes;
  input["modified"] = state.modified;
  return input;
}

/// The settings as JSON. `is_decided`: the request is a Job, and the result includes what only a job decides.
Json settings_json(const Request& request, bool is_decided) {
  const strategies::Problem& problem = request.problem;
  const runfile::ComputeSettings& asked = request.run.settings.compute;
  Json settings{{"program", program()}};
  if (is_decided || asked.precision) settings["compute.precision"] = core::name_of(problem.precision);
  if (is_decided || asked.backend) settings["compute.backend"] = core::name_of(problem.backend);
  settings["compute.reproducible"] = problem.reproducible ? "true" : "false";
  if (is_decided) settings["granule"] = problem.granule;  // the granule changes the cuts
  if (is_decided && problem.reproducible && !core::gpu_kind().empty()) settings["GPU"] = core::gpu_kind();
  if (is_decided) settings["instruction set"] = kernels::host_instruction_set();
  return settings;
}

/// Calls read(). A damaged journal makes it throw a JSON exception, which this function turns into Error(failure).
template <class Read>
auto from_journal(const std::string& journal, Read&& read) {
  try {
    return read();
  } catch (const Json::exception& error) {
    core::fail(core::ErrorKind::failure,
               "{}: the head of this journal is damaged ({}): remove it, and the .part file beside it, to begin anew",
               journal, error.what());
  }
}

/// False if there is no phase, or if a phase has no units or impossibly many; if a slice or block is empty; if the cuts
/// of stream lack block_rows; or if no partition has the number that the cuts give.
bool can_be(const Cuts& cuts) {
  constexpr Index most_units = Index(1) << 40;
  const bool has_phases = !cuts.phases.empty() && std::all_of(cuts.phases.begin(), cuts.phases.end(), [](Index units) {
    return units > 0 && units <= most_units;
  });
  const auto is_right = [](const auto& number) {
    if (number.first == "partition")
      return number.second >= 0 && number.second < Index(pattern::partition_table.size());
    return number.second > 0;
  };
  const bool has_block = cuts.strategy != "stream" || cuts.numbers.contains("block_rows");
  return has_phases && has_block && std::all_of(cuts.numbers.begin(), cuts.numbers.end(), is_right);
}

}  // namespace

std::string identity_text(const Request& request, const Cuts& cuts) {
  const Json all{{"settings", runfile::resolved_text(request.run.settings)},
                 {"decided", settings_json(request, /*is_decided=*/true)},
                 {"input", input_json(request)},
                 {"cuts", {{"strategy", cuts.strategy}, {"numbers", cuts.numbers}, {"phases", cuts.phases}}}};
  return store::text_of(all);
}

Cuts cuts_of(const std::string& identity, const std::string& journal) {
  const Cuts cuts = from_journal(journal, [&] {
    const Json found = store::whole_numbers(store::parse_json(identity).at("cuts"));
    return Cuts{found.at("strategy"), found.at("numbers"), found.at("phases")};
  });
  if (can_be(cuts)) return cuts;
  core::fail(core::ErrorKind::failure,
             "{}: the head of this journal is damaged: strategy {} with cuts ({}) and phases of {} units; remove it, "
             "and the .part "
             "file beside it, to begin anew",
             journal, cuts.strategy, fmt::join(cuts.numbers, ", "), fmt::join(cuts.phases, ", "));
}

std::vector<std::string> changes(const store::Journal& journal, const Request& request, bool is_decided) {
  return from_journal(journal.path(), [&]() -> std::vector<std::string> {
    const Json before = store::parse_json(journal.head());
    if (const Json made_by = before.at("decided").at("program"); made_by != program()) {
      // Nothing else is compared, because the keys of another program may differ.
      return {fmt::format("program: {} -> {}", made_by.dump(), Json(program()).dump())};
    }
    // The journal is JSON, so it has U+FFFD where a file name is not UTF-8. text_of() does the same to the new text.
    const Json asked_text = Json::parse(store::text_of(runfile::resolved_text(request.run.settings)));
    const runfile::RunFile made = runfile::parse_run_file(before.at("settings"), journal.path(), {});
    const runfile::RunFile asked = runfile::parse_run_file(asked_text, journal.path(), {});
    std::vector<std::string> lines = runfile::differences(made.settings, asked.settings);
    const auto compare = [&](const Json& then, const Json& now, const std::string& what) {
      for (const auto& [name, value] : now.items()) {
        const Json was = then.value(name, Json());
        if (was != value) lines.push_back(fmt::format("{}{}: {} -> {}", what, name, was.dump(), value.dump()));
      }
    };
    // output.alignment and output.hints shape only a new file. With their defaults, a file of any shape is continued.
    for (const auto& key : runfile::run_file_keys()) {
      if (key.name != "output.alignment" && key.name != "output.hints") continue;
      const std::string was = key.text(made.settings), now = key.text(asked.settings);
      if (now != was && now != key.text({})) lines.push_back(fmt::format("{}: {} -> {}", key.name, was, now));
    }
    compare(before.at("decided"), settings_json(request, is_decided), "");
    compare(before.at("input"), Json::parse(store::text_of(input_json(request))), "input's ");
    return lines;
  });
}

}  // namespace annulus::app
