// annulus._core: the library as annulus/calls.py uses it. Arguments are complete and canonical here: arrays are
// (B, S, heads, D), and defaults are filled in. The functions that users call are written in Python.
#include <dlfcn.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <cstdint>
#include <variant>

#include "annulus/annulus.hpp"
#include "tensors.hpp"
#include "worker.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace annulus::python {
namespace {

DType dtype_called(const std::string& name) {
  for (const DType type : core::all_dtypes) {
    if (core::name_of(type) == name) return type;
  }
  throw Error(ErrorKind::usage, "there are no tensors of " + name + ", expected float64, float32, float16 or bfloat16");
}

/// Rows, or a window's left, right and first.
using SegmentArgument = std::variant<Index, std::array<Index, 3>>;

Segment segment_of(const SegmentArgument& argument) {
  if (const Index* const rows = std::get_if<Index>(&argument)) return *rows;
  const auto& [left, right, first] = std::get<1>(argument);
  return Window{left, right, first};
}

Plan make_plan(const std::vector<Index>& extents, const std::string& type, const std::vector<SegmentArgument>& segments,
               const std::vector<Index>& dilations, bool causal, const std::string& semantics,
               const std::vector<Index>& documents, std::optional<double> scale, bool group_scale, int ranks,
               const nb::dict& options) {
  Shape shape{.batch = extents.at(0), .sequence = extents.at(1), .heads = extents.at(2), .kv_heads = extents.at(3)};
  shape.head_dim = extents.at(4);
  shape.kv_sequence = extents.at(5);
  shape.value_dim = extents.at(6);
  shape.type = dtype_called(type);
  shape.more_heads_than_rows = true;  // calls.py checks the order of axes when it gets the arrays
  std::vector<Segment> entries;
  for (const SegmentArgument& one : segments) entries.push_back(segment_of(one));
  Pattern pattern{entries, dilations, causal, semantics, documents, scale, group_scale};
  pattern.sink = nb::cast<bool>(options["sink"]);
  pattern.softcap = nb::cast<std::optional<double>>(options["softcap"]);
  using Slopes = std::vector<double>;
  if (const auto bias = nb::cast<std::optional<std::pair<Slopes, Index>>>(options["bias"]))
    pattern.bias = Bias{bias->first, bias->second, nb::cast<Slopes>(options["coordinates"])};
  for (const auto& [begin, end] : nb::cast<std::vector<std::pair<Index, Index>>>(options["ranges"]))
    pattern.ranges.push_back({begin, end});
  pattern.query_offset = nb::cast<Index>(options["query_offset"]);
  Options chosen;
  chosen.strategy = nb::cast<std::string>(options["strategy"]);
  chosen.partition = nb::cast<std::string>(options["partition"]);
  chosen.block_size = nb::cast<Index>(options["block_size"]);
  chosen.precision = nb::cast<std::string>(options["precision"]);
  chosen.reproducible = nb::cast<bool>(options["reproducible"]);
  chosen.gradients = nb::cast<bool>(options["gradients"]);
  chosen.entropy = nb::cast<bool>(options["entropy"]);
  chosen.received = nb::cast<bool>(options["received"]);
  chosen.top_keys = nb::cast<Index>(options["top_keys"]);
  return Plan(shape, pattern, ranks, chosen);
}

using OutOrNone = std::optional<OutArray>;

Tensor tensor_or_none(const OutOrNone& array, const char* name) { return array ? tensor_of(*array, name) : Tensor{}; }

void run_forward(const Communicator& comm, const Plan& plan, const InArray& q, const InArray& k, const InArray& v,
                 const OutArray& out, const OutArray& lse, const OutOrNone& entropy, const OutOrNone& received,
                 const OutOrNone& top_weights, const OutOrNone& top_rows, const OutOrNone& normalizers,
                 const std::optional<InArray>& sink, const nb::object& progress, int threads, int suggested) {
  ForwardTensors tensors{tensor_of(q, "q"), tensor_of(k, "k"), tensor_of(v, "v"), tensor_of(out, "out"),
                         tensor_of(lse, "lse")};
  tensors.statistics.entropy = tensor_or_none(entropy, "entropy");
  tensors.statistics.received = tensor_or_none(received, "received");
  tensors.statistics.top_weights = tensor_or_none(top_weights, "top_weights");
  if (sink) tensors.sink = tensor_of(*sink, "sink");
  if (top_rows) tensors.statistics.top_rows = static_cast<Index*>(top_rows->data());
  tensors.normalizers = tensor_or_none(normalizers, "normalizers");
  run([&](const Progress& tell) { forward(comm, plan, tensors, tell); }, progress, {threads, suggested});
}

void run_backward(const Communicator& comm, const Plan& plan, const InArray& normalizers, const InArray& q,
                  const InArray& k, const InArray& v, const InArray& out, const InArray& dout,
                  const std::optional<InArray>& dlse, const OutArray& dq, const OutArray& dk, const OutArray& dv,
                  const OutOrNone& dsink, const std::optional<InArray>& sink, const nb::object& progress, int threads,
                  int suggested) {
  const BackwardTensors tensors{tensor_of(q, "q"),
                                tensor_of(k, "k"),
                                tensor_of(v, "v"),
                                tensor_of(out, "out"),
                                tensor_of(dout, "dout"),
                                dlse ? tensor_of(*dlse, "dlse") : Tensor{},
                                tensor_of(dq, "dq"),
                                tensor_of(dk, "dk"),
                                tensor_of(dv, "dv"),
                                tensor_or_none(dsink, "dsink"),
                                tensor_of(normalizers, "normalizers"),
                                sink ? tensor_of(*sink, "sink") : Tensor{}};
  run([&](const Progress& tell) { backward(comm, plan, {}, tensors, tell); }, progress, {threads, suggested});
}

void run_reference(const Plan& plan, const InArray& q, const InArray& k, const InArray& v,
                   const std::vector<Index>& rows, const OutArray& out, const OutArray& lse,
                   const std::optional<InArray>& sink) {
  const Tensor tsink = sink ? tensor_of(*sink, "sink") : Tensor{};
  const Tensor tq = tensor_of(q, "q"), tk = tensor_of(k, "k"), tv = tensor_of(v, "v");
  auto* const to = static_cast<double*>(out.data());
  auto* const to_lse = static_cast<double*>(lse.data());
  run([&](const Progress& tell) { reference(plan, tq, tk, tv, rows, to, to_lse, tell, tsink); }, nb::none());
}

/// What annulus.info() says about threads and processors.
nb::dict threads_and_processors() {
  const ThreadChoice choice = thread_choice();
  nb::dict said;
  said["threads"] = choice.count;
  said["threads_from"] = choice.source;
  said["processors"] = choice.processors.numbers;
  said["processors_from"] = choice.processors.source;
  return said;
}

std::vector<std::pair<Index, Index>> pairs_of(const Rows& held) {
  std::vector<std::pair<Index, Index>> rows;
  for (const Interval& part : held.intervals) rows.emplace_back(part.begin, part.end);
  return rows;
}

#if ANNULUS_HAS_MPI
/// The communicator for the MPI_Comm at this address (mpi4py's MPI._addressof()).
Communicator communicator_at(std::uintptr_t address) {
  const nb::gil_scoped_release no_gil;
  return Communicator(*reinterpret_cast<const MPI_Comm*>(address));
}

/// The address of the MPI_Send that the loaded library at `path` calls, and the file of the MPI library that has it.
std::pair<std::uintptr_t, std::string> mpi_library_of(const std::string& path) {
  void* const loaded = dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  void* const send = loaded != nullptr ? dlsym(loaded, "MPI_Send") : nullptr;
  if (loaded != nullptr) dlclose(loaded);
  Dl_info found{};
  if (send == nullptr || dladdr(send, &found) == 0) return {0, "no MPI library in " + path};
  return {reinterpret_cast<std::uintptr_t>(send), found.dli_fname};
}
#endif

void translate(const std::exception_ptr& thrown, void*) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    const nb::object type = nb::module_::import_("annulus.errors").attr("AnnulusError");
    PyErr_SetString(type.ptr(), error.what());
  }
}

}  // namespace
}  // namespace annulus::python

NB_MODULE(_core, m) {
  using namespace annulus;
  using namespace annulus::python;
  nb::set_leak_warnings(false);  // a graph of PyTorch may outlive the module
  nb::register_exception_translator(translate);

  nb::class_<Communicator>(m, "Communicator")
      .def(nb::init<>())
      .def_prop_ro("is_interrupted", &Communicator::is_interrupted)
      .def("interrupt", &Communicator::interrupt)
      .def_prop_ro("rank", &Communicator::rank)
      .def_prop_ro("size", &Communicator::size);
  nb::class_<Plan>(m, "Plan")
      .def_prop_ro("ranks", &Plan::ranks)
      .def_prop_ro("strategy", &Plan::strategy)
      .def_prop_ro("partition", &Plan::partition)
      .def_prop_ro("reason", &Plan::reason)
      .def(
          "rows", [](const Plan& plan, int rank) { return pairs_of(plan.rows(rank)); }, "rank"_a)
      .def(
          "query_rows", [](const Plan& plan, int rank) { return pairs_of(plan.query_rows(rank)); }, "rank"_a)
      .def("kept", &Plan::kept, "rank"_a)
      .def("received", &Plan::received, "rank"_a, "backward"_a = false)
      .def("sent", &Plan::sent, "rank"_a, "backward"_a = false)
      .def("memory", &Plan::memory, "rank"_a, "backward"_a = false);

  m.def("plan", make_plan, "extents"_a, "type"_a, "segments"_a, "dilations"_a, "causal"_a, "semantics"_a, "documents"_a,
        "scale"_a.none(), "group_scale"_a, "ranks"_a, "options"_a);
  m.def("forward", run_forward, "comm"_a, "plan"_a, "q"_a, "k"_a, "v"_a, "out"_a, "lse"_a, "entropy"_a.none(),
        "received"_a.none(), "top_weights"_a.none(), "top_rows"_a.none(), "normalizers"_a.none(), "sink"_a.none(),
        "progress"_a.none(), "threads"_a = 0, "suggested"_a = 0);
  m.def("backward", run_backward, "comm"_a, "plan"_a, "normalizers"_a, "q"_a, "k"_a, "v"_a, "out"_a, "dout"_a,
        "dlse"_a.none(), "dq"_a, "dk"_a, "dv"_a, "dsink"_a.none(), "sink"_a.none(), "progress"_a.none(),
        "threads"_a = 0, "suggested"_a = 0);
  m.def("reference", run_reference, "plan"_a, "q"_a, "k"_a, "v"_a, "rows"_a, "out"_a, "lse"_a, "sink"_a.none());
  m.def("set_threads", set_threads, "count"_a);
  m.def("check_threads", check_threads, "count"_a);
  m.def("info", threads_and_processors);
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(end_with_python));
  m.def("description", library_description);
  m.attr("has_mpi") = bool(ANNULUS_HAS_MPI);
#if ANNULUS_HAS_MPI
  m.def("communicator_at", communicator_at, "address"_a);
  m.def("mpi_library_of", mpi_library_of, "path"_a);
#endif
}
