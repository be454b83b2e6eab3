#include "annulus/store/filter_plugins.hpp"

#include <set>

#include "annulus/store/hdf5/filters.hpp"

namespace annulus::store {

std::vector<std::string> filter_plugins_of(const InspectedFile& file) {
  std::set<std::string> found;
  const FileId open = open_alone(file.path, false);
  for (const auto& [name, info] : file.datasets) found.merge(plugins_of(open_dataset(open, file.path, name)));
  return {found.begin(), found.end()};
}

}  // namespace annulus::store
