#include <cstdio>
#include <string_view>

#include "annulus/app/pages/pages.hpp"
#include "annulus/core/exception.hpp"

namespace annulus::app {

std::optional<int> print_page(int argc, char** argv) {
  const std::string_view asked = argc < 2 ? "" : argv[1];
  if (asked != "--manual" && asked != "--completion") return {};
  const std::string_view shell = argc < 3 ? "" : argv[2];
  std::string page;
  if (asked == "--manual" && argc == 2) page = manual_page(verbs());
  if (asked == "--completion" && argc == 3 && shell == "bash") page = bash_completion(verbs());
  if (asked == "--completion" && argc == 3 && shell == "zsh") page = zsh_completion(verbs());
  if (page.empty()) {
    std::fprintf(stderr, "annulus: error: expected --manual, --completion bash or --completion zsh, and no more\n");
    return int(core::ErrorKind::usage);
  }
  std::fputs(page.c_str(), stdout);
  return 0;
}

}  // namespace annulus::app
