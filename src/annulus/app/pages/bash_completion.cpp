#include <fmt/format.h>

#include "annulus/app/pages/pages.hpp"
#include "annulus/app/pages/words.hpp"
#include "annulus/version.hpp"

namespace annulus::app {
namespace {

// Bash hands over words that it has cut at "=", and replaces what is behind the last cut only.
constexpr const char* functions = R"bash(
# Files with one of the endings, and folders on the way to them.
_annulus_files() {
  local name
  compopt -o filenames 2>/dev/null
  while IFS= read -r name; do
    if [[ -d ${name/#\~/$HOME} || $name =~ \.($1)$ ]]; then COMPREPLY+=("$name"); fi
  done < <(compgen -f -- "$2")
}

# KEY=VALUE: keys of the run file, and the values of those that take a few words.
_annulus_setting() {
  if [[ $1 == *=* ]]; then
    COMPREPLY=($(compgen -W "$(_annulus_values "${1%%=*}")" -- "${1#*=}"))
  else
    compopt -o nospace 2>/dev/null
    COMPREPLY=($(compgen -S = -W "$_annulus_keys" -- "$1"))
  fi
}

_annulus() {
  local words=() offered=() word last verb current option='' i
  COMPREPLY=()
  for ((i = 0; i <= COMP_CWORD; ++i)); do  # words cut at "=" become whole
    word=${COMP_WORDS[i]} last=$((${#words[@]} - 1))
    if ((last > 1)) && [[ $word == =* || ${words[last]} == *= ]]; then
      words[last]+=$word
    else
      words+=("$word")
    fi
  done
  last=$((${#words[@]} - 1)) verb=${words[1]}
  current=${words[last]}
  if ((last == 1)); then
    COMPREPLY=($(compgen -W "$_annulus_verbs --help --version" -- "$current"))
    return
  fi
  if [[ $current == --*=* ]]; then
    option=${current%%=*} current=${current#*=}
  elif ((last > 2)); then
    option=${words[last - 1]}
  fi
  if _annulus_value "$verb $option" "$current"; then
    # Where "=" does not cut, all in front of the value is a part of the word.
    if [[ $COMP_WORDBREAKS != *=* && ${words[last]} == *=* ]]; then
      if [[ $current == *=* ]]; then current=${current#*=}; fi
      COMPREPLY=("${COMPREPLY[@]/#/${words[last]%"$current"}}")
    fi
    return
  fi
  if [[ $current != -* ]] && _annulus_value "$verb file" "$current"; then return; fi
  for word in $(_annulus_options "$verb") --help; do  # each once, but those that may be repeated
    if [[ $word == --set || " ${words[*]:0:last} " != *" $word "* ]]; then offered+=("$word"); fi
  done
  COMPREPLY=($(compgen -W "${offered[*]}" -- "$current"))
}

complete -F _annulus annulus
)bash";

/// The command that offers values of an option; "" where there are none to offer.
std::string action_of(const Option& option) {
  switch (kind_of(option)) {
    case ValueKind::yaml_file:
      return "_annulus_files 'yaml|yml' \"$2\"";
    case ValueKind::hdf5_file:
      return "_annulus_files 'h5|hdf5' \"$2\"";
    case ValueKind::setting:
      return "_annulus_setting \"$2\"";
    case ValueKind::choice:
      return fmt::format("COMPREPLY=($(compgen -W '{}' -- \"$2\"))", fmt::join(option.choices, " "));
    default:
      return "";
  }
}

/// A function that does for each word of the first argument what its line says, and fails for others.
std::string by_word(const std::string& name, const std::vector<std::pair<std::string, std::string>>& lines) {
  std::string text = "\n" + name + "() {\n  case $1 in\n";
  for (const auto& [word, does] : lines) text += fmt::format("    '{}') {} ;;\n", word, does.empty() ? ":" : does);
  return text + "    *) return 1 ;;\n  esac\n}\n";
}

}  // namespace

std::string bash_completion(const std::vector<Verb>& verbs) {
  std::vector<std::string> names, keys;
  std::vector<std::pair<std::string, std::string>> options, actions, values;
  for (const Verb& verb : verbs) {
    names.push_back(verb.name);
    std::string own;
    for (const Option& option : verb.options) {
      if (option.name.starts_with('-')) own += (own.empty() ? "" : " ") + option.name;
      if (!option.value.empty()) actions.emplace_back(verb.name + " " + option.name, action_of(option));
    }
    options.emplace_back(verb.name, own.empty() ? "" : "echo " + own);
  }
  for (const KeyWords& key : key_words()) {
    keys.push_back(key.name);
    if (!key.values.empty()) values.emplace_back(key.name, fmt::format("echo {}", fmt::join(key.values, " ")));
  }
  return fmt::format(
             "# Completion of annulus {} in bash. Made by the program from the table behind its --help:\n"
             "#   annulus --completion bash\n_annulus_verbs='{}'\n_annulus_keys='{}'\n",
             version, fmt::join(names, " "), fmt::join(keys, "\n")) +
         by_word("_annulus_options", options) + by_word("_annulus_value", actions) +
         by_word("_annulus_values", values) + functions;
}

}  // namespace annulus::app
