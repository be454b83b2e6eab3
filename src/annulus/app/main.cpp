// The program: command line in, exit status out.
//   0 done   1 failed while running   2 bad usage or run file   3 verification out of tolerance   4 stalled
//   75 stopped on request, run again to continue
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>
#include <optional>

#include "annulus/app/about.hpp"
#include "annulus/app/generate.hpp"
#include "annulus/app/plan.hpp"
#include "annulus/app/run.hpp"
#include "annulus/app/run_alone.hpp"
#include "annulus/app/train.hpp"
#include "annulus/app/verify.hpp"
#include "annulus/comm/runtime.hpp"
#include "annulus/comm/staging.hpp"
#include "annulus/comm/watchdog.hpp"
#include "annulus/io/run_file.hpp"
#include "annulus/version.hpp"

namespace annulus::app {
namespace {

constexpr int usage_status = int(core::ErrorKind::usage);

struct Options {
  RunOptions run;
  GenerateOptions generate;
  VerifyOptions verify;
  PlanOptions plan;
  TrainOptions train;
};

/// CLI::PositiveNumber would complain with all 300 digits of the largest double.
CLI::Validator one_or_more() {
  const auto complaint = [](const std::string& text) {
    core::Index number = 0;
    const bool good = CLI::detail::lexical_cast(text, number) && number >= 1;
    return good ? std::string() : fmt::format("{} is not a whole number, 1 or more", text);
  };
  return {complaint, "1 or more", "one_or_more"};
}

/// The name of a storage type becomes its number, which CLI11 puts into the option; others are told the four names.
CLI::Validator storage_type() {
  static const std::map<std::string, core::DType> types{{"float64", core::DType::float64},
                                                        {"float32", core::DType::float32},
                                                        {"float16", core::DType::float16},
                                                        {"bfloat16", core::DType::bfloat16}};
  const auto take = [](std::string& text) {
    const auto found = types.find(CLI::detail::to_lower(text));
    if (found == types.end()) return fmt::format("{}, expected float64, float32, float16 or bfloat16", text);
    text = std::to_string(int(found->second));
    return std::string();
  };
  return {take, "", "storage_type"};
}

/// The option --set of a verb, as often as it is wanted.
void add_overrides(CLI::App& verb, std::vector<std::string>& overrides, const std::string& help) {
  verb.add_option("--set", overrides, help)->type_name("KEY=VALUE")->expected(1)->take_all();
}

void define_run(CLI::App& app, RunOptions& run) {
  CLI::App* verb = app.add_subcommand("run", "Compute attention as the run file says: HDF5 in, HDF5 out");
  verb->add_option("file", run.run_file, "The run file (YAML)")->required();
  add_overrides(*verb, run.overrides, "Override a key: --set attention.causal=false (repeatable)");
  CLI::Option* dry = verb->add_flag("--dry-run", run.dry_run,
                                    "Check everything and show partition, memory and traffic; compute nothing");
  verb->add_option("--ranks", run.ranks, "With --dry-run: plan for so many ranks instead of those launched")
      ->needs(dry)
      ->check(CLI::Range(1, 65536));
}

void define_generate(CLI::App& app, GenerateOptions& generate) {
  CLI::App* verb =
      app.add_subcommand("generate", "Make an input file with q, k, v drawn from the standard normal distribution");
  core::Shape& shape = generate.what.shape;
  verb->add_option("--output", generate.output, "HDF5 file to make")->required();
  verb->add_option("--sequence", shape.sequence, "Rows")->required()->check(one_or_more());
  verb->add_option("--heads", shape.heads, "Query heads")->required()->check(one_or_more());
  verb->add_option("--kv-heads", shape.kv_heads, "Key/value heads, a divisor of --heads (default: --heads)")
      ->check(one_or_more());
  verb->add_option("--head-dim", shape.head_dim, "Head size, 1 to 256")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  verb->add_option("--batch", shape.batch, "Batch entries")->check(one_or_more())->capture_default_str();
  verb->add_option("--dtype", generate.what.type, "float64, float32, float16 or bfloat16 (default: float32)")
      ->transform(storage_type());
  verb->add_option("--seed", generate.what.seed, "Values depend on (seed, tensor, global index) only")
      ->capture_default_str();
  CLI::Option* dout = verb->add_flag("--dout", generate.dout, "Make a gradient dout of the output, too");
  CLI::Option* dlse = verb->add_flag("--dlse", generate.dlse, "Make a gradient dlse of the log-sum-exp, too");
  CLI::Option* layer = verb->add_option("--layer", generate.layer_width,
                                        "Width of an attention layer to make instead: x, dy, target, wq, wk, wv, wo")
                           ->check(CLI::Range(core::Index(1), core::Index(1) << 30))
                           ->excludes(dout)
                           ->excludes(dlse);
  verb->add_flag("--biases", generate.biases, "With --layer: biases bq, bk, bv, bo, too")->needs(layer);
  verb->add_flag("--overwrite", generate.overwrite, "Replace an existing file");
}

void define_verify(CLI::App& app, VerifyOptions& verify) {
  CLI::App* verb = app.add_subcommand("verify", "Recompute sampled rows of a result by the definition, in float64");
  verb->add_option("file", verify.run_file, "The run file (YAML) of the result")->required();
  add_overrides(*verb, verify.overrides, "The same overrides as were given to run");
  verb->add_option("--rows", verify.rows, "Rows to check, all heads of each")
      ->check(one_or_more())
      ->capture_default_str();
}

void define_plan(CLI::App& app, PlanOptions& plan) {
  CLI::App* verb =
      app.add_subcommand("plan", "Predict time, memory and traffic of every strategy at any number of ranks");
  CLI::Option* file = verb->add_option("file", plan.run_file, "The run file (YAML)");
  verb->add_option("--ranks", plan.ranks, "Ranks to plan for (default: those launched)")->check(CLI::Range(1, 65536));
  verb->add_option("--machine", plan.machine, "Machine file (default: distribution.machine, or a built-in machine)");
  add_overrides(*verb, plan.overrides, "Override a key of the run file (repeatable)");
  verb->add_option("--calibrate", plan.calibrate,
                   "Measure this machine with the launched ranks and write its machine file")
      ->excludes(file);
  verb->callback([&plan] {
    if (plan.run_file.empty() && !plan.calibrate) throw CLI::RequiredError("plan: a run file or --calibrate");
  });
}

void define_train(CLI::App& app, TrainOptions& train) {
  CLI::App* verb =
      app.add_subcommand("train", "Train the attention layer of a run file by gradient descent; resumable");
  verb->add_option("file", train.run_file, "The run file (YAML) with sections layer and train")->required();
  add_overrides(*verb, train.overrides, "Override a key of the run file (repeatable)");
}

int dispatch(const CLI::App& app, const Options& options, const comm::Communicator& comm) {
  if (app.got_subcommand("run")) return run(options.run, comm);
  if (app.got_subcommand("generate")) return generate(options.generate, comm);
  if (app.got_subcommand("verify")) return verify(options.verify, comm);
  if (app.got_subcommand("plan")) return plan(options.plan, comm);
  if (app.got_subcommand("train")) return train(options.train, comm);
  if (app.got_subcommand("info")) {
    print_info(comm);
  } else if (comm.is_root()) {
    print_list();
  }
  return 0;
}

/// What is wrong with the first word where it should be a verb, of which CLI11 would only say "a subcommand is
/// required"; nothing when it is one, or an option.
std::string complaint_of_verb(const CLI::App& app, int argc, char** argv) {
  if (argc >= 2 && argv[1][0] == '-') return "";
  std::vector<std::string> verbs;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    verbs.push_back(verb->get_name());
  if (argc < 2) return fmt::format("there is no verb, expected one of {}", fmt::join(verbs, ", "));
  if (std::find(verbs.begin(), verbs.end(), argv[1]) != verbs.end()) return "";
  return fmt::format("there is no verb '{}'{}", argv[1], io::suggest(argv[1], verbs));
}

/// Help and complaints about the command line, on rank 0 only; every rank parses the same words and comes to the same
/// end.
int complain(const std::string& what, bool speaks) {
  if (speaks) {
    std::fprintf(stderr, "annulus: error: %s\nSee `annulus --help` and `annulus VERB --help`.\n", what.c_str());
  }
  return usage_status;
}
int explain(const CLI::App& app, const CLI::ParseError& error, bool speaks) {
  if (error.get_exit_code() != 0) return complain(error.what(), speaks);
  if (speaks) app.exit(error);  // --help, --version
  return 0;
}

/// The stall timeout until a run file says otherwise, for verbs without one: seconds, above 0.
std::optional<double> stall_timeout_at_start() {
  const char* const text = std::getenv("ANNULUS_STALL_TIMEOUT");
  if (text == nullptr) return comm::default_stall_timeout;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (end == text || *end != '\0' || !std::isfinite(seconds) || seconds <= 0) return std::nullopt;
  return seconds;
}

/// Returns the exit status after an error that every rank knows of, too.
int dispatch_or_explain(const CLI::App& app, const Options& options, const comm::Communicator& comm) {
  try {
    return dispatch(app, options, comm);
  } catch (const comm::AgreedError& error) {  // every rank is here
    if (comm.is_root()) std::fprintf(stderr, "annulus: error: %s\n", error.what());
    return int(error.kind());
  } catch (const std::exception& error) {  // perhaps only this rank: the others must not wait for it
    const auto* known = dynamic_cast<const core::Error*>(&error);
    const int status = known != nullptr ? int(known->kind()) : int(core::ErrorKind::failure);
    const std::string who = comm.size() > 1 ? fmt::format("rank {}: ", comm.rank()) : "";
    std::fprintf(stderr, "annulus: error: %s%s\n", who.c_str(), error.what());
    if (comm.size() > 1) comm::abort_job(status);
    return status;
  }
}

int main(int argc, char** argv) {
  const comm::Communicator comm(MPI_COMM_WORLD);
  CLI::App app("annulus: dilated ring attention for HPC clusters. Launch with mpirun or srun; alone it is one rank.");
  app.set_version_flag("--version", fmt::format("annulus {} ({})", version, git_commit));
  app.require_subcommand(1);
  Options options;
  options.generate.what.shape.kv_heads = 0;
  define_run(app, options.run);
  define_generate(app, options.generate);
  define_verify(app, options.verify);
  define_plan(app, options.plan);
  define_train(app, options.train);
  app.add_subcommand("list", "Strategies, semantics and partitions");
  app.add_subcommand("info", "Versions, back ends, devices, MPI, threads and binding");
  options.run.command_line = std::accumulate(argv + 1, argv + argc, std::string("annulus"),
                                             [](const std::string& all, const char* word) { return all + " " + word; });
  options.train.command_line = options.run.command_line;
  if (const std::string what = complaint_of_verb(app, argc, argv); !what.empty()) return complain(what, comm.is_root());
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return explain(app, error, comm.is_root());
  }
  const auto timeout = stall_timeout_at_start();
  if (!timeout) return complain("ANNULUS_STALL_TIMEOUT: expected seconds, above 0", comm.is_root());
  const comm::Watchdog watchdog(comm, *timeout);
  return dispatch_or_explain(app, options, comm);
}

}  // namespace
}  // namespace annulus::app

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file-size limit then is a failed write with a message, not a killed job
  const annulus::comm::Runtime runtime(argc, argv);
  if (argc == 2 && std::string_view(argv[1]) == annulus::app::self_send_word) {
    return annulus::comm::send_device_memory_to_self();
  }
  return annulus::app::main(argc, argv);
}
