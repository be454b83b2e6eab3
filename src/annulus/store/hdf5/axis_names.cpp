#include "annulus/store/hdf5/axis_names.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <sstream>
#include <string_view>

#include "annulus/store/hdf5/attributes.hpp"

namespace annulus::store {
namespace {

enum class Meaning { unknown, rows, heads };

Meaning meaning_of(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  // Not n: it is a batch, a number of heads or of rows, according to whom one asks.
  constexpr std::array<std::string_view, 10> rows{"s",    "t",      "l",        "time",   "row",
                                                  "rows", "tokens", "position", "length", "query"};
  constexpr std::array<std::string_view, 10> heads{"h",         "hkv",     "nh",       "head",    "heads",
                                                   "num_heads", "n_heads", "kv_heads", "kv_head", "num_kv_heads"};
  const auto is_one_of = [&](const auto& words) { return std::find(words.begin(), words.end(), name) != words.end(); };
  if (name.starts_with("seq") || is_one_of(rows)) return Meaning::rows;
  if (is_one_of(heads)) return Meaning::heads;
  return Meaning::unknown;
}

}  // namespace

std::vector<std::string> axis_names(hid_t dataset) {
  const std::size_t axes = extents_of(dataset, "a dataset with names of axes").size();
  std::vector<std::string> words;
  for (const std::string& text : texts_of(dataset, "axes")) {
    std::istringstream stream(text);
    for (std::string word; stream >> word;) words.push_back(word);
  }
  if (words.size() == axes) return words;
  for (const auto& names : {texts_of(dataset, "DIMENSION_LABELS"), scale_names_of(dataset)}) {
    const bool any = std::any_of(names.begin(), names.end(), [](const std::string& name) { return !name.empty(); });
    if (names.size() == axes && any) return names;
  }
  return {};
}

std::optional<core::AxisOrder> order_meant(const std::vector<std::string>& names, const std::string& where) {
  std::optional<core::AxisOrder> meant;
  for (std::size_t axis = 0; axis < names.size(); ++axis) {
    const Meaning meaning = meaning_of(names[axis]);
    if (meaning == Meaning::unknown) continue;
    const core::AxisOrder here =
        (axis == 1) == (meaning == Meaning::rows) ? core::AxisOrder::bshd : core::AxisOrder::bhsd;
    if ((axis != 1 && axis != 2) || (meant && meant != here)) {
      core::fail(core::ErrorKind::failure,
                 "{} names its axes ({}), expected (batch, sequence, heads, head_dim) or (batch, heads, sequence, "
                 "head_dim)",
                 where, fmt::join(names, ", "));
    }
    meant = here;
  }
  return meant;
}

}  // namespace annulus::store
