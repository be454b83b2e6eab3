#include "annulus/kernels/cudnn/plans.hpp"

#include "annulus/core/error.hpp"

#if defined(ANNULUS_HAS_CUDNN)
#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#include <cudnn_frontend.h>
#include <dlfcn.h>

#include <exception>
#include <functional>
#include <limits>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // the loaded library; cuDNN's headers look up functions in it
}
#endif

namespace annulus::kernels::cudnn {

#if defined(ANNULUS_HAS_CUDNN)
namespace {

namespace fe = cudnn_frontend;
using fe::graph::Graph;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

/// Names of tensors in a plan.
enum Name : std::int64_t { q_name = 1, k_name, v_name, out_name, lse_name, dout_name, dq_name, dk_name, dv_name };

std::string load() {
  fe::cudnn_dlhandle = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
  if (fe::cudnn_dlhandle != nullptr) return "";
  return fmt::format("the library of cuDNN could not be loaded: {}; put its folder into LD_LIBRARY_PATH", dlerror());
}

/// Returns the message of the error that a function of cuDNN's headers returns or throws; empty: no error.
template <class Call>
std::string trouble_of(const Call& call) {
  try {
    fe::error_t error = call();
    return error.is_good() ? "" : error.get_message();
  } catch (const std::exception& error) {  // for example if a library is missing
    return error.what();
  }
}

fe::DataType_t type_of(core::DType type) {
  if (type == core::DType::float32) return fe::DataType_t::FLOAT;
  return type == core::DType::float16 ? fe::DataType_t::HALF : fe::DataType_t::BFLOAT16;
}

/// Builds a plan's graph.
class Builder {
 public:
  Builder(const PlanShape& shape, Graph& graph) : shape_(shape), graph_(graph) {
    graph_.set_io_data_type(type_of(shape.type))
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }

  void build() const {
    const Tensor q = queries(q_name, shape_.q), k = keys(k_name, shape_.k), v = keys(v_name, shape_.v);
    shape_.backward ? add_backward(q, k, v) : add_forward(q, k, v);
  }

 private:
  void add_forward(const Tensor& q, const Tensor& k, const Tensor& v) const {
    fe::graph::SDPA_attributes attention;
    attention.set_name("attention").set_generate_stats(true).set_attn_scale(float(shape_.scale));
    hide(attention);
    const auto [out, lse] = graph_.sdpa(q, k, v, attention);
    put_out(out, out_name, shape_.heads, shape_.queries, shape_.head_dim, shape_.type);
    put_out(lse, lse_name, shape_.heads, shape_.queries, 1, core::DType::float32);
  }
  void add_backward(const Tensor& q, const Tensor& k, const Tensor& v) const {
    const Tensor out = queries(out_name, shape_.out), dout = queries(dout_name, shape_.dout);
    const Tensor lse = graph_.tensor(fe::graph::Tensor_attributes()
                                         .set_uid(lse_name)
                                         .set_dim({shape_.batch, shape_.heads, shape_.queries, 1})
                                         .set_stride({shape_.heads * shape_.queries, shape_.queries, 1, 1})
                                         .set_data_type(fe::DataType_t::FLOAT));
    fe::graph::SDPA_backward_attributes attention;
    attention.set_name("gradients").set_attn_scale(float(shape_.scale));
    hide(attention);
    const auto [dq, dk, dv] = graph_.sdpa_backward(q, k, v, out, dout, lse, attention);
    put_out(dq, dq_name, shape_.heads, shape_.queries, shape_.head_dim, shape_.type);
    put_out(dk, dk_name, shape_.kv_heads, shape_.keys, shape_.head_dim, shape_.type);
    put_out(dv, dv_name, shape_.kv_heads, shape_.keys, shape_.head_dim, shape_.type);
  }

  template <class Attributes>
  void hide(Attributes& attention) const {
    if (!shape_.seen) return;
    attention.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT);
    attention.set_diagonal_band_right_bound(int(*shape_.seen));
  }
  Tensor read(Name name, Index heads, Index rows, const Strides& strides) const {
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_uid(name)
                             .set_dim({shape_.batch, heads, rows, shape_.head_dim})
                             .set_stride({strides.batch, strides.head, strides.row, 1}));
  }
  Tensor queries(Name name, const Strides& strides) const { return read(name, shape_.heads, shape_.queries, strides); }
  Tensor keys(Name name, const Strides& strides) const { return read(name, shape_.kv_heads, shape_.keys, strides); }
  void put_out(const Tensor& tensor, Name name, Index heads, Index rows, Index numbers, core::DType type) const {
    tensor->set_output(true)
        .set_uid(name)
        .set_dim({shape_.batch, heads, rows, numbers})
        .set_stride({heads * rows * numbers, rows * numbers, numbers, 1})
        .set_data_type(type_of(type));
  }

  const PlanShape& shape_;
  Graph& graph_;
};

/// Returns why cuDNN has no plan of a shape that its headers would refuse with a message that no user understands;
/// otherwise empty.
std::string why_no_plan(const PlanShape& shape) {
  constexpr Index most = std::numeric_limits<int>::max();
  if (shape.backward && shape.queries == 1 && shape.keys == 1) return "cuDNN has no gradients of one query and one key";
  if (shape.queries > most || shape.keys > most || shape.seen.value_or(0) > most) return "2^31 rows or more";
  return "";
}

class Plans : public Engine {
 public:
  explicit Plans(void* stream) {
    start([&] { return fe::detail::create_handle(&handle_); });
    start([&] { return fe::detail::set_stream(handle_, static_cast<cudaStream_t>(stream)); });
  }
  explicit Plans(const DescribedGpu& gpu) : gpu_(gpu) {
    const auto properties = std::make_shared<fe::DeviceProperties>();
    const std::string trouble = trouble_of(
        [&] { return properties->deserialize(std::vector<std::uint8_t>(gpu.json.begin(), gpu.json.end())); });
    core::require(trouble.empty(), [&] { return "description of a GPU: " + trouble; });
    device_ = properties;
  }
  ~Plans() override {
    kept_.clear();
    if (handle_ != nullptr) (void)fe::detail::destroy_handle(handle_);
  }
  Plans(const Plans&) = delete;
  Plans& operator=(const Plans&) = delete;

  Prepared prepare(const PlanShape& shape) override {
    const auto found = kept_.find(shape);
    if (found != kept_.end()) {
      found->second.last_use = ++uses_;
      return found->second.prepared;
    }
    if (kept_.size() >= most_kept) forget_one();
    Plan& plan = kept_[shape];
    plan.last_use = ++uses_;
    plan.prepared = made(shape, plan.graph);
    return plan.prepared;
  }

  void forward(const PlanShape& shape, const ForwardPointers& t, void* workspace) override {
    run(shape, {{q_name, t.q}, {k_name, t.k}, {v_name, t.v}, {out_name, t.out}, {lse_name, t.lse}}, workspace);
  }
  void backward(const PlanShape& shape, const BackwardPointers& t, void* workspace) override {
    run(shape,
        {{q_name, t.q},
         {k_name, t.k},
         {v_name, t.v},
         {out_name, t.out},
         {dout_name, t.dout},
         {lse_name, t.lse},
         {dq_name, t.dq},
         {dk_name, t.dk},
         {dv_name, t.dv}},
        workspace);
  }

 private:
  // How many plans are kept. This must be more than one list needs (most_shapes in attend.cpp), because all plans of a
  // list are prepared before the first of them runs.
  static constexpr std::size_t most_kept = 256;

  struct Plan {
    std::shared_ptr<Graph> graph;
    Prepared prepared;
    std::uint64_t last_use = 0;
  };

  template <class Call>
  void start(const Call& call) {
    const std::string trouble = trouble_of([&]() -> fe::error_t {
      const cudnnStatus_t status = call();
      if (status == CUDNN_STATUS_SUCCESS) return {};
      return {fe::error_code_t::HANDLE_ERROR, fe::detail::get_error_string(status)};
    });
    if (!trouble.empty()) core::fail(core::ErrorKind::failure, "cuDNN cannot be started: {}", trouble);
  }

  Prepared made(const PlanShape& shape, std::shared_ptr<Graph>& graph) {
    Prepared prepared{why_no_plan(shape)};
    if (!prepared.why_not.empty()) return prepared;
    using Step = std::function<fe::error_t()>;
    std::vector<Step> steps{[&] { return graph->validate(); }, [&] { return graph->build_operation_graph(handle_); },
                            [&] { return graph->create_execution_plans({fe::HeurMode_t::A}); },
                            [&] { return graph->check_support(); }};
    if (!device_) {
      steps.push_back([&] { return graph->build_plans(fe::BuildPlanPolicy_t::HEURISTICS_CHOICE); });
      steps.push_back([&] { return graph->get_workspace_size(prepared.workspace_bytes); });
    }
    prepared.why_not = trouble_of([&] {
      graph = std::make_shared<Graph>();
      if (device_) {  // before nodes are added, because nodes copy these properties
        graph->set_device_properties(device_)
            .set_sm_version(gpu_.compute_capability)
            .set_sm_count(gpu_.multiprocessors);
      }
      Builder(shape, *graph).build();
      for (const Step& step : steps) {
        if (fe::error_t error = step(); error.is_bad()) return error;
      }
      return fe::error_t();
    });
    if (prepared.why_not.empty()) return prepared;
    graph.reset();
    return {"cuDNN: " + prepared.why_not};
  }

  void run(const PlanShape& shape, const std::vector<std::pair<Name, const void*>>& tensors, void* workspace) {
    const auto found = kept_.find(shape);
    core::require(found != kept_.end() && found->second.graph != nullptr && handle_ != nullptr,
                  [] { return "a plan that was not prepared, or one for a GPU that is not there"; });
    std::unordered_map<std::int64_t, void*> pointers;
    for (const auto& [name, data] : tensors) pointers[name] = const_cast<void*>(data);
    const std::string trouble = trouble_of([&] { return found->second.graph->execute(handle_, pointers, workspace); });
    if (!trouble.empty()) core::fail(core::ErrorKind::failure, "cuDNN: {}", trouble);
  }

  void forget_one() {
    auto oldest = kept_.begin();
    for (auto plan = kept_.begin(); plan != kept_.end(); ++plan) {
      if (plan->second.last_use < oldest->second.last_use) oldest = plan;
    }
    kept_.erase(oldest);
  }

  cudnnHandle_t handle_ = nullptr;
  std::shared_ptr<const fe::DeviceProperties> device_;
  DescribedGpu gpu_;
  std::map<PlanShape, Plan> kept_;
  std::uint64_t uses_ = 0;
};

}  // namespace

bool is_built() { return true; }

std::string why_no_cudnn() {
  static const std::string trouble = load();
  return trouble;
}

std::string cudnn_version() {
  if (!why_no_cudnn().empty()) return "";
  const std::size_t version = fe::detail::get_backend_version();
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::unique_ptr<Engine> make_engine(void* stream) {
  if (!why_no_cudnn().empty()) core::fail(core::ErrorKind::usage, "{}", why_no_cudnn());
  return std::make_unique<Plans>(stream);
}

std::unique_ptr<Engine> make_planner(const DescribedGpu& gpu) {
  if (!why_no_cudnn().empty()) core::fail(core::ErrorKind::usage, "{}", why_no_cudnn());
  return std::make_unique<Plans>(gpu);
}

#else

bool is_built() { return false; }

std::string why_no_cudnn() {
  return "this build was made without cuDNN, which computes on NVIDIA GPUs: CMake wants a Kokkos with CUDA, "
         "cudnn_graph.h and cudnn_frontend.h, and no -DANNULUS_CUDNN=OFF";
}

std::string cudnn_version() { return ""; }

std::unique_ptr<Engine> make_engine(void*) { core::fail(core::ErrorKind::usage, "{}", why_no_cudnn()); }

std::unique_ptr<Engine> make_planner(const DescribedGpu&) { core::fail(core::ErrorKind::usage, "{}", why_no_cudnn()); }

#endif

}  // namespace annulus::kernels::cudnn
