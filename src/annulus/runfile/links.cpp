#include "annulus/runfile/links.hpp"

#include <filesystem>

#include "annulus/comm/activity.hpp"
#include "annulus/core/error.hpp"

namespace annulus::runfile {

std::string follow_links(const std::string& file) {
  const comm::BlockingScope inside("the look at " + file);
  std::filesystem::path path = file;
  std::error_code error;
  for (int links = 0; std::filesystem::is_symlink(std::filesystem::symlink_status(path, error)); ++links) {
    if (links == 40)
      core::fail(core::ErrorKind::failure, "{}: too many links behind this name, expected at most 40", file);
    path = path.parent_path() / std::filesystem::read_symlink(path);  // an absolute one stands for itself
  }
  const std::filesystem::path found = std::filesystem::weakly_canonical(path, error);
  return error ? path.string() : found.string();  // the name is too long: store::check_can_be_made() says so
}

}  // namespace annulus::runfile
