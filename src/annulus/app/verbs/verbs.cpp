#include <fmt/format.h>

#include "annulus/app/verbs/verb.hpp"

namespace annulus::app {

Verb run_verb(), generate_verb(), verify_verb(), bench_verb(), plan_verb(), train_verb(), list_verb(), info_verb();

std::vector<Verb> verbs() {
  return {run_verb(),  generate_verb(), verify_verb(), bench_verb(),
          plan_verb(), train_verb(),    list_verb(),   info_verb()};
}

Option text(const std::string& name, const std::string& value, std::string& variable, const std::string& help) {
  return {name, value, help, [&](const std::string& word) { return variable = word, std::string(); },
          [&] { return variable; }};
}

Option run_file(std::string& file, const std::string& help) {
  Option option = text("file", "FILE.yaml", file, help);
  option.required = true;
  return option;
}

Option overrides(std::vector<std::string>& settings, const std::string& help) {
  Option option{"--set", "KEY=VALUE", help,
                [&](const std::string& word) { return settings.push_back(word), std::string(); },
                [&] { return fmt::format("{}", fmt::join(settings, " ")); }};
  option.repeats = true;
  return option;
}

Option flag(const std::string& name, bool& variable, const std::string& help) {
  return {name, "", help, [&](const std::string&) { return variable = true, std::string(); },
          [&] { return std::string(variable ? "true" : ""); }};
}

}  // namespace annulus::app
