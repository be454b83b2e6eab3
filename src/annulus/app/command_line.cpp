#include "annulus/app/command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <numeric>

#include "annulus/app/words.hpp"
#include "annulus/core/error.hpp"
#include "annulus/io/numbers.hpp"
#include "annulus/io/run_file.hpp"
#include "annulus/version.hpp"

namespace annulus::app {
namespace {

using io::WholeRange;

constexpr WholeRange any_count{1, INT64_MAX}, rank_counts{1, 65536};

[[noreturn]] void refuse(const std::string& option, const std::string& found, const std::string& expected) {
  throw CLI::ValidationError(option, fmt::format("found '{}', expected {}", found, expected));
}

/// A number as the run file reads it: CLI11 itself would take 010 for 8 and -1 for 2^64 - 1.
template <class Number>
CLI::Option* add_number(CLI::App& verb, const std::string& name, Number& number, WholeRange range,
                        const std::string& help) {
  const auto take = [=, &number](const std::string& text) {
    const io::Parsed<core::Index> parsed = io::parse_whole(text, range);
    if (!parsed.number) refuse(name, text, parsed.expected);
    number = Number(*parsed.number);
  };
  return verb.add_option_function<std::string>(name, take, help)->type_name("N");
}

/// A storage type by its name.
CLI::Option* add_storage_type(CLI::App& verb, core::DType& type, const std::string& help) {
  const auto take = [&type](const std::string& text) {
    using core::DType;
    std::vector<std::string> names;
    for (const DType known : {DType::float64, DType::float32, DType::float16, DType::bfloat16}) {
      names.emplace_back(core::name_of(known));
      if (CLI::detail::to_lower(text) != names.back()) continue;
      type = known;
      return;
    }
    refuse("--dtype", text, fmt::format("one of {}{}", fmt::join(names, ", "), io::suggest(text, names)));
  };
  return verb.add_option_function<std::string>("--dtype", take, help)->type_name("TYPE");
}

CLI::App* add_verb(CLI::App& app, const std::string& name, const std::string& does, const std::string& example) {
  return app.add_subcommand(name, does)->footer("Example:\n  " + example);
}

CLI::Option* add_run_file(CLI::App& verb, std::string& file, const std::string& help) {
  return verb.add_option("file", file, help)->type_name("FILE.yaml");
}

/// The option --set of a verb, as often as it is wanted.
void add_overrides(CLI::App& verb, std::vector<std::string>& overrides, const std::string& help) {
  verb.add_option("--set", overrides, help)->type_name("KEY=VALUE")->allow_extra_args(false);  // one each
}

void define_run(CLI::App& app, RunOptions& run) {
  CLI::App* verb = add_verb(app, "run", "Compute attention as the run file says: HDF5 in, HDF5 out",
                            "mpirun -n 2 annulus run my.yaml --set 'attention.segments=[128, all]'");
  add_run_file(*verb, run.run_file, "The run file")->required();
  add_overrides(*verb, run.overrides, "Override a key: --set attention.causal=false (repeatable)");
  CLI::Option* dry = verb->add_flag("--dry-run", run.dry_run,
                                    "Check everything and show partition, memory and traffic; compute nothing");
  add_number(*verb, "--ranks", run.ranks, rank_counts,
             "With --dry-run: plan for so many ranks, up to 65536, instead of those launched");
  verb->callback([&run, dry] {
    if (run.ranks > 0 && dry->count() == 0) {
      throw CLI::RequiresError("run --ranks",
                               "--dry-run; ranks that compute are the launcher's: mpirun -n RANKS "
                               "annulus run ..., or srun -n RANKS annulus run ...");
    }
  });
}

void define_generate(CLI::App& app, GenerateOptions& generate) {
  CLI::App* verb =
      add_verb(app, "generate", "Make an input file with q, k, v drawn from the standard normal distribution",
               "annulus generate --output in.h5 --sequence 65536 --heads 8 --head-dim 64 --dtype bfloat16");
  core::Shape& shape = generate.what.shape;
  verb->add_option("--output", generate.output, "HDF5 file to make")->type_name("FILE.h5")->required();
  add_number(*verb, "--sequence", shape.sequence, any_count, "Rows")->required();
  add_number(*verb, "--heads", shape.heads, any_count, "Query heads")->required();
  add_number(*verb, "--kv-heads", shape.kv_heads, any_count, "Key/value heads, a divisor of --heads")
      ->default_str("--heads");
  add_number(*verb, "--head-dim", shape.head_dim, {1, 256}, "Head size, 1 to 256")
      ->default_str(std::to_string(shape.head_dim));
  add_number(*verb, "--batch", shape.batch, any_count, "Batch entries")->default_str(std::to_string(shape.batch));
  add_storage_type(*verb, generate.what.type, "float64, float32, float16 or bfloat16")
      ->default_str(std::string(core::name_of(generate.what.type)));
  add_number(*verb, "--seed", generate.what.seed, {0, INT64_MAX}, "Values depend on (seed, tensor, global index) only")
      ->default_str(std::to_string(generate.what.seed));
  CLI::Option* dout = verb->add_flag("--dout", generate.dout, "Make a gradient dout of the output, too");
  CLI::Option* dlse = verb->add_flag("--dlse", generate.dlse, "Make a gradient dlse of the log-sum-exp, too");
  CLI::Option* layer = add_number(*verb, "--layer", generate.layer_width, {1, core::Index(1) << 30},
                                  "Width of an attention layer to make instead: x, dy, target, wq, wk, wv, wo")
                           ->excludes(dout)
                           ->excludes(dlse);
  verb->add_flag("--biases", generate.biases, "With --layer: biases bq, bk, bv, bo, too")->needs(layer);
  verb->add_flag("--overwrite", generate.overwrite, "Replace an existing file");
}

void define_verify(CLI::App& app, VerifyOptions& verify) {
  CLI::App* verb = add_verb(app, "verify", "Recompute sampled rows of a result by the definition, in float64",
                            "annulus verify my.yaml --rows 128");
  add_run_file(*verb, verify.run_file, "The run file of the result")->required();
  add_overrides(*verb, verify.overrides, "The same overrides as were given to run");
  add_number(*verb, "--rows", verify.rows, any_count, "Rows to check, all heads of each")
      ->default_str(std::to_string(verify.rows));
}

void define_plan(CLI::App& app, PlanOptions& plan) {
  CLI::App* verb =
      add_verb(app, "plan", "Predict time, memory and traffic of every strategy at any number of ranks",
               "annulus plan my.yaml --ranks 1024\n  mpirun -n 2 annulus plan --calibrate this_machine.yaml");
  CLI::Option* file = add_run_file(*verb, plan.run_file, "The run file");
  add_number(*verb, "--ranks", plan.ranks, rank_counts, "Ranks to plan for, up to 65536 (default: those launched)");
  verb->add_option("--machine", plan.machine, "Machine file (default: distribution.machine, or a built-in machine)")
      ->type_name("FILE.yaml");
  add_overrides(*verb, plan.overrides, "Override a key of the run file (repeatable)");
  CLI::Option* calibrate = verb->add_option("--calibrate", plan.calibrate,
                                            "Measure this machine with the launched ranks and write its machine file")
                               ->type_name("FILE.yaml")
                               ->excludes(file);
  verb->add_flag("--overwrite", plan.overwrite, "With --calibrate: replace an existing file")->needs(calibrate);
  verb->callback([&plan] {
    if (plan.run_file.empty() && !plan.calibrate) throw CLI::RequiredError("plan: a run file or --calibrate");
  });
}

void define_train(CLI::App& app, TrainOptions& train) {
  CLI::App* verb = add_verb(app, "train", "Train the attention layer of a run file by gradient descent; resumable",
                            "mpirun -n 2 annulus train my.yaml --set train.steps=100");
  add_run_file(*verb, train.run_file, "The run file with sections layer and train")->required();
  add_overrides(*verb, train.overrides, "Override a key of the run file (repeatable)");
}

void define(CLI::App& app, CommandLine& line) {
  app.set_version_flag("--version", fmt::format("annulus {} ({})", version, git_commit));
  app.footer(
      "Example:\n  annulus run --help\n  mpirun -n 2 annulus run my.yaml    (or: srun -n 2 annulus run my.yaml)");
  app.require_subcommand(1);
  line.generate.what.shape.kv_heads = 0;  // as many as heads
  define_run(app, line.run);
  define_generate(app, line.generate);
  define_verify(app, line.verify);
  define_plan(app, line.plan);
  define_train(app, line.train);
  add_verb(app, "list", "Strategies, semantics and partitions", "annulus list");
  add_verb(app, "info", "Versions, back ends, devices, MPI, threads and binding", "mpirun -n 2 annulus info");
}

VerbWords words_of(const CLI::App& verb, const std::string& name) {
  VerbWords known{.verb = name, .options = {}};
  for (const CLI::Option* option : verb.get_options()) {
    for (const std::string& word : option->get_lnames())
      known.options.push_back({"--" + word, option->get_items_expected_max() > 0});
    for (const std::string& word : option->get_snames())
      known.options.push_back({"-" + word, option->get_items_expected_max() > 0});
    known.takes_file = known.takes_file || option->get_positional();
  }
  return known;
}

/// What is wrong with the words where CLI11 would only call one unexpected, or say that a subcommand is required.
std::string complaint_of(const CLI::App& app, const std::vector<std::string>& words) {
  std::vector<std::string> verbs;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    verbs.push_back(verb->get_name());
  if (words.empty()) return fmt::format("there is no verb, expected one of {}", fmt::join(verbs, ", "));
  const std::string& first = words[0];
  if (first.starts_with('-')) return complaint_of_words(words_of(app, ""), {first});
  if (std::find(verbs.begin(), verbs.end(), first) != verbs.end()) {
    return complaint_of_words(words_of(*app.get_subcommand(first), first), {words.begin() + 1, words.end()});
  }
  if (first == "help") return "there is no verb 'help', did you mean '--help'?";
  const bool is_file = first.ends_with(".yaml") || first.ends_with(".yml");
  return fmt::format("there is no verb '{}'{}", first,
                     is_file ? ", did you mean 'run " + first + "'?" : io::suggest(first, verbs));
}

CommandLine ended(int status) {
  CommandLine line;
  line.status = status;
  return line;
}

CommandLine complain(const std::string& what, bool speaks) {
  if (speaks) {
    std::fprintf(stderr, "annulus: error: %s\nSee `annulus --help` and `annulus VERB --help`.\n", what.c_str());
  }
  return ended(int(core::ErrorKind::usage));
}

}  // namespace

CommandLine parse_command_line(int argc, char** argv, bool speaks) {
  CLI::App app("annulus: dilated ring attention for HPC clusters. Launch with mpirun or srun; alone it is one rank.",
               "annulus");
  CommandLine line;
  define(app, line);
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (const std::string what = complaint_of(app, words); !what.empty()) return complain(what, speaks);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) return complain(error.what(), speaks);
    if (speaks) app.exit(error);  // --help, --version
    return ended(0);
  }
  line.verb = words[0];
  const auto append = [](const std::string& all, const std::string& word) { return all + " " + word; };
  line.run.command_line = std::accumulate(words.begin(), words.end(), std::string("annulus"), append);
  line.train.command_line = line.run.command_line;
  return line;
}

}  // namespace annulus::app
