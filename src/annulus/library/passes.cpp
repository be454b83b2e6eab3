#include "annulus/library/passes.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "annulus/comm/communicator.hpp"
#include "annulus/core/arithmetic.hpp"
#include "annulus/core/gpu_driver.hpp"
#include "annulus/core/kokkos_compat.hpp"
#include "annulus/core/print.hpp"
#include "annulus/core/storage.hpp"
#include "annulus/core/with_type.hpp"
#include "annulus/kernels/normalizer.hpp"
#include "annulus/kernels/sink.hpp"
#include "annulus/library/made_plan.hpp"
#include "annulus/library/pass_lock.hpp"
#include "annulus/library/plan_identity.hpp"
#include "annulus/library/strided_copy.hpp"
#include "annulus/library/tensor_checks.hpp"
#include "annulus/strategies/problem_checks.hpp"

namespace annulus {
namespace {

using library::Argument;
using library::MadePlan;
using library::PassLock;

/// The contents of an object of class Normalizers.
struct Kept {
  core::Buffer numbers;
  std::string identity;  ///< of the plan and rank that made the numbers
  std::vector<double> sink;
};

/// Makes functions that call a caller's progress function: steps() makes a function that reports the end of a step,
/// poll() a function that repeats the latest report during a step.
class ProgressAdapter {
 public:
  explicit ProgressAdapter(const Progress& progress) : progress_(progress) {}
  Progress steps() {
    if (!progress_) return {};
    return [this](double share, const std::string& where) { progress_(share_ = share, where_ = where); };
  }
  std::function<void()> poll() {
    if (!progress_) return {};
    return [this] { progress_(share_, where_); };
  }

 private:
  const Progress progress_;
  double share_ = 0;
  std::string where_;
};

/// A pass on one rank: its plan, its rows, and functions that read a caller's tensors and write results into them.
class Pass {
 public:
  Pass(const char* name, const Communicator& comm, const Plan& plan)
      : name_(name), comm_(comm), plan_(plan.made()), identity_(plan_.identity) {
    if (plan_.problem.reproducible) identity_ += fmt::format("a GPU called '{}'\n", core::gpu_kind());
  }

  /// Throws the same Error on every rank unless all ranks make this pass with the same plan, and the plan is for as
  /// many ranks as the communicator has; collective. Before that, throws on this rank if is_interrupted().
  void check_plan() const {
    if (comm_.is_interrupted()) {
      core::fail(ErrorKind::usage,
                 "{}: an earlier pass on this communicator was interrupted, and its messages may still arrive; "
                 "expected a new Communicator",
                 name_);
    }
    library::check_same(name_, fmt::format("the call {}\n{}", name_, identity_), comm());
    if (comm_.size() == plan_.ranks) return;
    core::fail(ErrorKind::usage, "{}: the plan is for {}, the communicator has {}", name_,
               core::how_many(plan_.ranks, "rank"), comm_.size());
  }

  /// Return the extents of a tensor that has this rank's query rows (extents()) or this rank's key rows
  /// (key_extents()).
  std::array<Index, 4> extents(Index heads, Index numbers) const {
    return {plan_.shape.batch, plan_.queries[std::size_t(comm_.rank())].count(), heads, numbers};
  }
  std::array<Index, 4> key_extents(Index heads, Index numbers) const {
    return {plan_.shape.batch, plan_.rows[std::size_t(comm_.rank())].count(), heads, numbers};
  }

  /// Checks the arguments on all ranks; collective.
  void check(const std::vector<Argument>& arguments) const {
    comm::agree(comm(), [&] {
      if (!Kokkos::is_initialized()) {
        core::fail(ErrorKind::usage, "{}: Kokkos has not been started; expected Kokkos::initialize() or ScopeGuard",
                   name_);
      }
      core::require_device();
      library::check(name_, fmt::format("the plan of rank {}", comm_.rank()), arguments);
    });
  }

  /// True if matrix units can read the tensor, which they do in pieces of 16 bytes. This matters only for reproducible
  /// results that matrix units compute, because no other code gives the same bits. For all other results, and for
  /// tensors with one number per row and head, the function returns true.
  bool is_in_pieces(const Tensor& tensor) const {
    if (plan_.problem.granule == 1 || tensor.extents[3] == 1) return true;
    const Index each = Index(core::bytes_of(tensor.type));
    const auto is_whole = [&](Index stride) { return stride * each % 16 == 0; };
    return reinterpret_cast<std::uintptr_t>(tensor.data) % 16 == 0 &&
           std::all_of(tensor.strides.begin(), tensor.strides.begin() + 3, is_whole);
  }
  /// True if kernels can read the tensor in place.
  bool suits(const Tensor& tensor) const {
    return (tensor.strides[3] == 1 || tensor.extents[3] == 1) && is_in_pieces(tensor);
  }

  /// Sets `lent` to the caller's tensor if no other rank reads the tensor's rows and kernels can read them in place.
  /// Otherwise sets `buffer` to whole(). If there is no tensor, sets neither.
  void take(const Tensor& from, const char* name, core::TensorView& lent, core::Buffer& buffer) const {
    if (from.data == nullptr) return;
    if (!plan_.forward->has_exchange() && suits(from)) {
      lent = {from.data, from.type, from.strides[0], from.strides[1], from.strides[2]};
    } else {
      buffer = whole(from, name);
    }
  }
  /// Returns the tensor's own memory if the tensor is contiguous and is_in_pieces(), otherwise a copy.
  core::Buffer whole(const Tensor& from, const char* name) const {
    if (library::is_contiguous(from) && is_in_pieces(from)) {
      return core::Buffer::borrowed(from.data, library::bytes_of(from));
    }
    core::Buffer copy(name, library::bytes_of(from));
    library::copy(from, contiguous(copy.data(), from.type, from.extents));
    return copy;
  }

  /// Gives the pass k and v: in place if there is one rank and kernels can read both, otherwise copied into one array.
  void take_keys(const Tensor& k, const Tensor& v, strategies::Tensors& tensors) const {
    const bool in_place = plan_.ranks == 1 && suits(k) && suits(v);
    if (in_place) {
      tensors.lent.k = {k.data, k.type, k.strides[0], k.strides[1], k.strides[2]};
      tensors.lent.v = {v.data, v.type, v.strides[0], v.strides[1], v.strides[2]};
      return;
    }
    tensors.kv = core::Buffer("kv", library::bytes_of(k) + library::bytes_of(v));
    if (tensors.kv.bytes() == 0) return;
    const auto to = strategies::kv_views(plan_.problem, tensors.kv.data(), k.extents[1]);
    const auto tensor_at = [](const Tensor& like, const core::TensorView& at) -> Tensor {
      return {at.data, at.type, like.extents, {at.batch_stride, at.row_stride, at.head_stride, 1}};
    };
    library::copy(k, tensor_at(k, to[0]));
    library::copy(v, tensor_at(v, to[1]));
  }

  /// Returns memory for a result: the caller's tensor if it is contiguous and is_in_pieces(); otherwise none, so that
  /// the pass allocates memory.
  core::Buffer memory_for(const Tensor& to) const {
    if (to.data == nullptr || !library::is_contiguous(to) || !is_in_pieces(to)) return {};
    return core::Buffer::borrowed(to.data, library::bytes_of(to));
  }
  /// Copies a result to the caller's tensor, unless the pass has made the result there.
  static void give(const void* made, const Tensor& to) {
    if (to.data == nullptr || made == to.data || library::bytes_of(to) == 0) return;
    library::copy(contiguous(const_cast<void*>(made), to.type, to.extents), to);
  }

  /// Extents of a tensor of sink logits.
  std::array<Index, 4> heads() const { return {1, 1, plan_.shape.heads, 1}; }

  /// Returns the plan's sink logits (H), if any; collective. Throws the same Error(usage) on every rank if one rank has
  /// NaN or too large numbers among its logits, or if logits differ between ranks.
  std::vector<double> take_sink(const Tensor& from) const {
    if (!plan_.problem.sink) return {};
    std::vector<double> logits;
    comm::agree(comm(), [&] {
      const core::Buffer buffer("sink", library::bytes_of(from));
      library::copy(from, contiguous(buffer.data(), from.type, from.extents));
      std::vector<std::byte> bytes(std::size_t(buffer.bytes()));
      core::copy_to_host(bytes.data(), buffer.data(), buffer.bytes());
      core::with_type(from.type, [&](auto number) {
        const auto* numbers = reinterpret_cast<const decltype(number)*>(bytes.data());
        for (Index h = 0; h < plan_.shape.heads; ++h) logits.push_back(core::load_as<double>(numbers[h]));
      });
      if (const auto found = strategies::check_sink(plan_.problem.precision, logits))
        core::fail(ErrorKind::usage, "{}: {}{}", name_, found->name(), found->reason);
    });
    library::check_same(name_, fmt::format("sink logits {}\n", fmt::join(logits, " ")), comm());
    return logits;
  }
  /// Writes the gradients of the sink logits, in the type of the caller's tensor.
  void give_dsink(const std::vector<std::int64_t>& sums, const Tensor& to) const {
    if (to.data == nullptr) return;
    const std::vector<double> gradients = kernels::sink_gradients_of(sums);
    std::vector<std::byte> bytes(gradients.size() * core::bytes_of(to.type));
    core::with_type(to.type, [&](auto number) {
      auto* numbers = reinterpret_cast<decltype(number)*>(bytes.data());
      for (std::size_t h = 0; h < gradients.size(); ++h) core::store_as(numbers[h], gradients[h]);
    });
    const core::Buffer on_device("sink", Index(bytes.size()));
    core::copy_to_device(on_device.data(), bytes.data(), on_device.bytes());
    give(on_device.data(), to);
  }

  /// Does the work of a pass during which messages are in flight. If an exception ends the work, other ranks do not
  /// know it. MPI may then still read and write the pass's buffers, and messages in flight may match those of a later
  /// pass. So the buffers stay allocated, and later passes on this communicator are refused.
  template <class Work>
  auto compute(const Work& work) const {
    if (comm_.size() == 1) return work();
    try {
      const core::BuffersStay stay;
      return work();
    } catch (...) {
      comm_.interrupt();
      throw;
    }
  }

  const MadePlan& plan() const { return plan_; }
  const comm::Communicator& comm() const { return comm_.inner(); }

  /// Returns a text that identifies plan and rank. A backward pass checks that its normalizers have the same text.
  std::string identity_here() const { return fmt::format("{}a communicator's rank {}\n", identity_, comm_.rank()); }

 private:
  const core::DefaultArithmeticOnHost arithmetic_;
  const char* name_;
  const Communicator& comm_;
  const MadePlan& plan_;
  std::string identity_;
};

std::vector<Argument> arguments_of(const Pass& pass, const ForwardTensors& t) {
  const Shape& s = pass.plan().shape;
  const DType lse = core::lse_type(s.type);
  const strategies::Statistics& wanted = pass.plan().problem.statistics;
  std::vector<Argument> all{{"q", t.q, pass.extents(s.heads, s.head_dim), s.type},
                            {"k", t.k, pass.key_extents(s.kv_heads, s.head_dim), s.type},
                            {"v", t.v, pass.key_extents(s.kv_heads, s.value_dim), s.type},
                            {"out", t.out, pass.extents(s.heads, s.value_dim), s.type, true},
                            {"lse", t.lse, pass.extents(s.heads, 1), lse, true}};
  if (pass.plan().problem.sink) all.push_back({"sink", t.sink, pass.heads(), t.sink.type});
  if (wanted.entropy) all.push_back({"entropy", t.statistics.entropy, pass.extents(s.heads, 1), lse, true});
  if (wanted.received) {
    all.push_back({"received", t.statistics.received, pass.key_extents(s.heads, 1), DType::float64, true});
  }
  if (wanted.top_keys > 0) {
    all.push_back({"top_weights", t.statistics.top_weights, pass.extents(s.heads, wanted.top_keys), lse, true});
  }
  return all;
}

std::vector<Argument> arguments_of(const Pass& pass, const BackwardTensors& t) {
  const Shape& s = pass.plan().shape;
  const auto queries = pass.extents(s.heads, s.head_dim), keys = pass.key_extents(s.kv_heads, s.head_dim);
  const auto values = pass.key_extents(s.kv_heads, s.value_dim), outs = pass.extents(s.heads, s.value_dim);
  std::vector<Argument> all{{"q", t.q, queries, s.type},      {"k", t.k, keys, s.type},
                            {"v", t.v, values, s.type},       {"out", t.out, outs, s.type},
                            {"dout", t.dout, outs, s.type},   {"dq", t.dq, queries, s.type, true},
                            {"dk", t.dk, keys, s.type, true}, {"dv", t.dv, values, s.type, true}};
  if (t.dsink.data != nullptr) all.push_back({"dsink", t.dsink, pass.heads(), core::lse_type(s.type), true});
  if (t.dlse.data != nullptr) all.push_back({"dlse", t.dlse, pass.extents(s.heads, 1), core::lse_type(s.type)});
  return all;
}

/// Throws if sink logits, or a tensor for their gradients, are given but the plan has no sink logits.
void check_sink(const char* pass, const char* name, const MadePlan& plan, const Tensor& given) {
  if (plan.problem.sink || given.data == nullptr) return;
  core::fail(ErrorKind::usage, "{}: {} is given, but the plan has no sink logits; expected Pattern::sink", pass, name);
}

/// True if the caller gave memory for normalizers. The address cannot show this, because it may be null on a rank
/// without rows.
bool is_given(const Tensor& normalizers) { return normalizers.extents[3] > 0; }
Argument normalizers_of(const Pass& pass, const Tensor& given, bool is_written) {
  const strategies::Problem& problem = pass.plan().problem;
  return {"normalizers", given, pass.extents(problem.shape.heads, kernels::normalizer_numbers), problem.sum_type(),
          is_written};
}

/// Throws if the plan has no backward pass. If the caller gave no tensor of normalizers (`given` is false), also throws
/// unless `kept` was made with this plan on this rank.
void check_normalizers(const Pass& pass, const Kept* kept, bool given) {
  if (!pass.plan().backward) {
    core::fail(ErrorKind::usage, "attention_backward: the plan has no backward pass, expected Options::gradients");
  }
  if (given) return;
  if (kept == nullptr) {
    core::fail(ErrorKind::usage, "attention_backward: no normalizers, expected those that attention() returned");
  }
  const std::string here = pass.identity_here();
  if (kept->identity == here) return;
  const auto [theirs, ours] = library::first_difference(kept->identity, here);
  core::fail(ErrorKind::usage,
             "attention_backward: the normalizers are of another plan, with {} where this one has {}; expected those "
             "that attention() returned with this plan",
             theirs, ours);
}

/// Makes the statistics that need a pass of their own, and copies all statistics to the caller's tensors.
void make_statistics(const Pass& pass, strategies::Tensors& tensors, const Statistics& to, const Progress& progress) {
  const MadePlan& plan = pass.plan();
  if (plan.statistics) run_statistics_pass(*plan.statistics, pass.comm(), tensors, progress);
  const strategies::Statistics& wanted = plan.problem.statistics;
  if (wanted.entropy) Pass::give(tensors.entropy.data(), to.entropy);
  if (wanted.received) Pass::give(tensors.received.data(), to.received);
  if (wanted.top_keys == 0) return;
  Pass::give(tensors.top_weights.data(), to.top_weights);
  if (to.top_rows == nullptr) return;
  const std::array<Index, 4> lists = pass.extents(plan.shape.heads, wanted.top_keys);
  Pass::give(tensors.top_rows.data(), contiguous(to.top_rows, DType::float64, lists));  // 8 bytes, like int64
}

/// Makes the results of forward(), whose arguments have been checked.
Normalizers compute_forward(const Pass& pass, const ForwardTensors& given, const std::vector<double>& sink, bool keeps,
                            const Progress& progress) {
  strategies::Tensors tensors;
  pass.take(given.q, "q", tensors.lent.q, tensors.q);
  pass.take_keys(given.k, given.v, tensors);
  tensors.out = pass.memory_for(given.out);
  tensors.lse = pass.memory_for(given.lse);
  tensors.entropy = pass.memory_for(given.statistics.entropy);
  tensors.sink = sink;
  ProgressAdapter adapter(progress);
  tensors.poll = adapter.poll();
  run_forward_pass(*pass.plan().forward, pass.comm(), tensors, adapter.steps());
  Pass::give(tensors.out.data(), given.out);
  Pass::give(tensors.lse.data(), given.lse);
  if (keeps) Pass::give(tensors.normalizers.data(), given.normalizers);
  make_statistics(pass, tensors, given.statistics, adapter.steps());
  if (!pass.plan().problem.gradients) return {};
  return Normalizers(std::make_shared<Kept>(Kept{tensors.normalizers, pass.identity_here(), tensors.sink}));
}

/// Makes the results of backward(), whose arguments have been checked; `kept` is null if `given` has the normalizers.
void compute_backward(const Pass& pass, const BackwardTensors& given, const std::vector<double>& sink, const Kept* kept,
                      const Progress& progress) {
  strategies::Tensors tensors;
  pass.take(given.q, "q", tensors.lent.q, tensors.q);
  pass.take_keys(given.k, given.v, tensors);
  tensors.sink = sink;
  pass.take(given.out, "out", tensors.lent.out, tensors.out);
  pass.take(given.dout, "dout", tensors.lent.dout, tensors.dout);
  pass.take(given.dlse, "dlse", tensors.lent.dlse, tensors.dlse);
  tensors.normalizers = kept == nullptr ? pass.whole(given.normalizers, "normalizers") : kept->numbers;
  tensors.dq = pass.memory_for(given.dq);
  tensors.dk = pass.memory_for(given.dk);
  tensors.dv = tensors.dk.bytes() > 0 ? pass.memory_for(given.dv) : core::Buffer();
  if (tensors.dv.bytes() == 0) tensors.dk = {};
  ProgressAdapter adapter(progress);
  tensors.poll = adapter.poll();
  run_backward_pass(*pass.plan().backward, pass.comm(), tensors, adapter.steps());
  Pass::give(tensors.dq.data(), given.dq);
  pass.give_dsink(tensors.sink_sums, given.dsink);
  if (tensors.dkv.bytes() == 0) return;  // dk and dv have been made in the caller's memory
  Pass::give(tensors.dkv.data(), given.dk);
  Pass::give(tensors.dkv.at(library::bytes_of(given.dk)), given.dv);
}

}  // namespace

Normalizers forward(const Communicator& comm, const Plan& plan, const ForwardTensors& given, const Progress& progress) {
  const PassLock lock("attention");
  const Pass pass("attention", comm, plan);
  pass.check_plan();
  comm::agree(pass.comm(), [&] { check_sink("attention", "sink", pass.plan(), given.sink); });
  std::vector<Argument> arguments = arguments_of(pass, given);
  const bool keeps = is_given(given.normalizers) && pass.plan().problem.gradients;
  if (keeps) arguments.push_back(normalizers_of(pass, given.normalizers, true));
  pass.check(arguments);
  for (const auto* sums : {&pass.plan().backward, &pass.plan().statistics})
    strategies::check_ranks(*pass.plan().forward, sums->get(), pass.comm());
  const std::vector<double> sink = pass.take_sink(given.sink);
  return pass.compute([&] { return compute_forward(pass, given, sink, keeps, progress); });
}

void backward(const Communicator& comm, const Plan& plan, const Normalizers& normalizers, const BackwardTensors& given,
              const Progress& progress) {
  const PassLock lock("attention_backward");
  const Pass pass("attention_backward", comm, plan);
  pass.check_plan();
  const auto* kept = static_cast<const Kept*>(normalizers.kept().get());
  const bool has_tensor = is_given(given.normalizers);
  comm::agree(pass.comm(), [&] {
    check_normalizers(pass, kept, has_tensor);
    check_sink("attention_backward", "dsink", pass.plan(), given.dsink);
    check_sink("attention_backward", "sink", pass.plan(), given.sink);
  });
  if (pass.plan().problem.sink) {  // take_sink() below is collective, so all ranks must call it, or none
    library::check_same("attention_backward", fmt::format("normalizers {}\n", has_tensor ? "a tensor" : "kept"),
                        pass.comm());
  }
  std::vector<Argument> arguments = arguments_of(pass, given);
  if (has_tensor) arguments.push_back(normalizers_of(pass, given.normalizers, false));
  if (has_tensor && pass.plan().problem.sink) arguments.push_back({"sink", given.sink, pass.heads(), given.sink.type});
  pass.check(arguments);
  const std::vector<double> sink = has_tensor ? pass.take_sink(given.sink) : kept->sink;
  pass.compute([&] { compute_backward(pass, given, sink, has_tensor ? nullptr : kept, progress); });
}

}  // namespace annulus
