#include "annulus/runfile/bias_codec.hpp"

#include "annulus/core/error.hpp"
#include "annulus/runfile/numbers.hpp"
#include "annulus/runfile/suggest.hpp"

namespace annulus::runfile {
namespace {

const std::string form = "{alibi: auto | [slope, ...], exempt: e}";

/// auto, or a list of one slope per query head.
void read_slopes(const KeyValue& value, std::optional<std::vector<double>>& to) {
  to.reset();
  if (value.is_word("auto")) return;
  if (value.node.kind != YamlNode::Kind::list) value.refuse("auto, or a list of slopes, one for each query head");
  to.emplace();
  for (const YamlNode& node : value.list()) {
    const KeyValue slope{node, value.name, value.folder};
    const bool is_zero =
        node.text == "0" || (node.text.starts_with("0.") && node.text.find_first_not_of('0', 2) == std::string::npos);
    if (is_zero) {
      to->push_back(0);
    } else {
      positive().read(slope, to->emplace_back());
    }
  }
}

}  // namespace

Codec<BiasSettings> bias(Index most_rows) {
  const auto read = [=](const KeyValue& value, BiasSettings& to) {
    if (value.node.kind != YamlNode::Kind::section) value.refuse(form);
    bool is_there = false;
    for (std::size_t i = 0; i < value.node.entries.size(); ++i) {
      const auto& [word, node] = value.node.entries[i];
      const std::string name = fmt::format("{}: {}", value.name, word);
      if (word == "alibi") {
        is_there = true;
        read_slopes({node, name, value.folder}, to.slopes);
      } else if (word == "exempt") {
        whole(0, most_rows).read({node, name, value.folder}, to.exempt);
      } else {
        core::fail(core::ErrorKind::usage, "{}unknown key '{}' in {}{}, expected {}", value.node.key_locations[i], word,
                   value.name, suggest(word, {"alibi", "exempt"}), form);
      }
    }
    if (!is_there) value.refuse(form);
  };
  const auto write = [](const BiasSettings& from) {
    const std::string slopes = from.slopes ? fmt::format("[{}]", fmt::join(*from.slopes, ", ")) : "auto";
    return fmt::format("{{alibi: {}, exempt: {}}}", slopes, from.exempt);
  };
  return {form, read, write};
}

}  // namespace annulus::runfile
