#include "annulus/verify/result.hpp"

#include "annulus/comm/root.hpp"
#include "annulus/store/files/file_system.hpp"
#include "annulus/store/input_file.hpp"

namespace annulus::verify {
namespace {

using core::ErrorKind;
using core::fail;

bool has_losses(const std::string& file) {
  try {
    store::look_at_dataset(file, "loss");
    return true;
  } catch (const core::Error&) {
    return false;
  }
}

/// Checks a result's settings and datasets. Call it on rank 0.
void check_result(const runfile::RunFile& run, const std::vector<store::TensorSpec>& datasets) {
  const std::string& file = run.settings.output.file;
  const comm::BlockingScope inside("the check of " + file);
  const runfile::RunFile made = settings_of_result(file);
  if (has_losses(file)) {
    fail(ErrorKind::failure,
         "{}: is a result of `annulus train` (it has a dataset loss), expected one of `annulus run`", file);
  }
  const std::vector<std::string> changes = runfile::differences(made.settings, run.settings);
  if (!changes.empty()) {
    fail(ErrorKind::failure, "{}: was made with other settings than {} has now: {}", file, run.name,
         fmt::join(changes, "; "));
  }
  check_datasets(file, datasets, "to fit the input");
}

}  // namespace

runfile::RunFile settings_of_result(const std::string& file) {
  try {
    return runfile::parse_run_file(store::read_text_dataset(file, "/run/settings"), file + ":/run/settings", {});
  } catch (const std::exception& error) {  // the message must blame `file`, not the user's run file
    fail(ErrorKind::failure, "{}: is no result of `annulus run`: {}", file, error.what());
  }
}

store::InspectedFile inspected_file(const std::string& path, const store::FileState& identity,
                                    const std::vector<store::TensorSpec>& datasets) {
  store::InspectedFile seen{path, identity, {}};
  for (const store::TensorSpec& spec : datasets) seen.datasets[spec.name] = {spec.extents, spec.type, spec.order};
  return seen;
}

void check_datasets(const std::string& path, const std::vector<store::TensorSpec>& datasets, const std::string& why) {
  for (const store::TensorSpec& expected : datasets) {
    const store::DatasetInfo found = store::look_at_dataset(path, expected.name);
    if (found.extents == expected.extents && found.type == expected.type) continue;
    fail(ErrorKind::failure, "{}: dataset {} is {} ({}), expected {} ({}) {}", path, expected.name, name_of(found.type),
         fmt::join(found.extents, ", "), name_of(expected.type), fmt::join(expected.extents, ", "), why);
  }
}

store::InspectedFile open_result(const runfile::RunFile& run, const std::vector<store::TensorSpec>& datasets,
                                 const comm::Communicator& comm) {
  const std::string& file = run.settings.output.file;
  comm::on_root(comm, [&] {
    if (store::exists(file)) return;
    fail(ErrorKind::failure, "{}: there is no result yet, first: annulus run {}", file, run.name);
  });
  store::InspectedFile seen = inspected_file(file, store::agreed_state(file, comm), datasets);
  seen.is_end_to_end = run.settings.input.lengths.has_value();
  comm::on_root(comm, [&] { check_result(run, datasets); });
  return seen;
}

}  // namespace annulus::verify
