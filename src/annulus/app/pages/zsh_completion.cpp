#include <fmt/format.h>

#include "annulus/app/pages/pages.hpp"
#include "annulus/app/pages/words.hpp"
#include "annulus/version.hpp"

namespace annulus::app {
namespace {

/// The text in single quotes: one word of zsh.
std::string quoted(const std::string& text) {
  std::string made = "'";
  for (const char c : text) made += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return made + "'";
}

/// What stands between the brackets and colons of an argument.
std::string inside(const std::string& text) {
  std::string made;
  for (const char c : text) made += c == ':' || c == '[' || c == ']' ? std::string("\\") + c : std::string(1, c);
  return made;
}

std::string action_of(const Option& option) {
  switch (kind_of(option)) {
    case ValueKind::yaml_file:
      return "_files -g \"*.(yaml|yml)\"";
    case ValueKind::hdf5_file:
      return "_files -g \"*.(h5|hdf5)\"";
    case ValueKind::setting:
      return "_annulus_setting";
    case ValueKind::choice:
      return fmt::format("({})", fmt::join(option.choices, " "));
    default:
      return " ";
  }
}

/// One argument of _arguments: '(--dout --dlse)--layer=[Width ...]:N: '.
std::string argument_of(const Option& option) {
  const std::string value = ":" + inside(option.value) + ":" + action_of(option);
  if (!option.name.starts_with('-')) return quoted(option.required ? value : ":" + value);
  std::vector<std::string> barred;
  for (const std::string& other : option.excludes) barred.push_back(other.starts_with('-') ? other : "1");
  std::string spec = barred.empty() ? "" : fmt::format("({})", fmt::join(barred, " "));
  spec += (option.repeats ? "*" : "") + option.name + (option.value.empty() ? "" : "=");
  return quoted(spec + "[" + inside(option.help) + "]" + (option.value.empty() ? "" : value));
}

std::string arguments_of(const Verb& verb) {
  std::string text = fmt::format("        {})\n          _arguments", verb.name);
  for (const Option& option : verb.options) text += " \\\n            " + argument_of(option);
  return text + " \\\n            '(- *)'{-h,--help}'[Print this help message and exit]' && return 0\n          ;;\n";
}

}  // namespace

std::string zsh_completion(const std::vector<Verb>& verbs) {
  std::string text = fmt::format(
      "#compdef annulus\n# Completion of annulus {} in zsh. Made by the program from the table behind its --help:\n"
      "#   annulus --completion zsh\n\n# KEY=VALUE: keys of the run file, and the values of those that take a few "
      "words.\n_annulus_setting() {{\n  local -a offered\n  if compset -P 1 '*='; then\n    case "
      "${{${{IPREFIX%=}}##*=}} in\n",
      version);
  std::string keys;
  for (const KeyWords& key : key_words()) {
    keys += "      " + quoted(key.name + ":" + key.range) + "\n";
    if (key.values.empty()) continue;
    text += fmt::format("      {}) offered=({}) ;;\n", key.name, fmt::join(key.values, " "));
  }
  text += "    esac\n    compadd -a offered\n  else\n    offered=(\n" + keys;
  text += R"zsh(    )
    _describe -t keys 'key of the run file' offered -q -S =
  fi
}

_annulus() {
  local curcontext=$curcontext state line
  local -a verbs
  _arguments -C '(- *)'{-h,--help}'[Print this help message and exit]' \
    '(- *)--version[Display program version information and exit]' ': :->verb' '*:: :->words' && return 0
  case $state in
    verb)
      verbs=(
)zsh";
  for (const Verb& verb : verbs) text += "        " + quoted(verb.name + ":" + verb.does) + "\n";
  text += R"zsh(      )
      _describe -t commands 'annulus command' verbs
      ;;
    words)
      curcontext=${curcontext%:*:*}:annulus-$words[1]:
      case $words[1] in
)zsh";
  for (const Verb& verb : verbs) text += arguments_of(verb);
  return text + R"zsh(      esac
      ;;
  esac
}

# Found in $fpath, this file is the function itself; sourced, it only defines it.
if [[ $funcstack[1] == _annulus ]]; then
  _annulus "$@"
else
  compdef _annulus annulus
fi
)zsh";
}

}  // namespace annulus::app
