#include "annulus/app/pages/words.hpp"

#include "annulus/io/run_file_keys.hpp"
#include "annulus/strategies/strategy.hpp"

namespace annulus::app {
namespace {

/// The words of a range that begins with a list of them: "bshd | bhsd (PyTorch's order): axes" -> bshd, bhsd.
std::vector<std::string> words_of(const std::string& range) {
  const std::string list = range.substr(0, range.find_first_of(";:,("));
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(" | ", begin), list.size());
    std::string word = list.substr(begin, end - begin);
    word.erase(word.find_last_not_of(' ') + 1);
    words.push_back(word);
    begin = end + 3;
  }
  return words.size() > 1 ? words : std::vector<std::string>();
}

std::vector<std::string> strategy_names() {
  std::vector<std::string> names{"auto"};
  for (const auto& strategy : strategies::registry()) names.emplace_back(strategy->name());
  return names;
}

}  // namespace

std::vector<KeyWords> key_words() {
  io::Settings defaults;  // of sections that a run file may leave out, too
  defaults.input.generate.emplace();
  defaults.layer.emplace();
  defaults.train.emplace();
  defaults.bench.emplace();
  std::vector<KeyWords> all;
  for (const io::Key<io::Settings>& key : io::run_file_keys()) {
    const bool is_strategy = key.name == "distribution.strategy";  // whose names io does not know
    const bool has_default = !key.required && key.range.find("default:") == std::string::npos;
    all.push_back({key.name, key.range, has_default ? key.write(defaults) : "",
                   is_strategy ? strategy_names() : words_of(key.range)});
  }
  return all;
}

ValueKind kind_of(const Option& option) {
  if (option.value.empty()) return ValueKind::none;
  if (!option.choices.empty()) return ValueKind::choice;
  if (option.value.ends_with(".yaml")) return ValueKind::yaml_file;
  if (option.value.ends_with(".h5")) return ValueKind::hdf5_file;
  return option.value == "KEY=VALUE" ? ValueKind::setting : ValueKind::other;
}

}  // namespace annulus::app
