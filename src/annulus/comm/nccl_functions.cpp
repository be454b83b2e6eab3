#include "annulus/comm/nccl_functions.hpp"

#include <memory>

#include <Kokkos_Core.hpp>

#include "annulus/core/error.hpp"

#if defined(ANNULUS_HAS_NCCL)
#include <dlfcn.h>
#include <nccl.h>

#include <cstring>
#endif

namespace annulus::comm {
namespace {

/// The functions, or the reason why there are none.
struct Library {
  NcclFunctions functions;
  std::string trouble;
};

#if defined(ANNULUS_HAS_NCCL)

static_assert(ncclSuccess == nccl_success && ncclInProgress == nccl_in_progress);
static_assert(sizeof(ncclUniqueId) == sizeof(NcclFunctions::Id));

/// Looks up functions of the library by name; trouble() names the first one that is missing.
class Symbols {
 public:
  Symbols() : library_(dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) {
      trouble_ =
          fmt::format("the library of NCCL could not be loaded: {}; put its folder into LD_LIBRARY_PATH", dlerror());
    }
  }
  template <class Function>
  Function* find(Function*, const char* name) {
    void* const found = library_ == nullptr ? nullptr : dlsym(library_, name);
    if (found == nullptr && trouble_.empty()) trouble_ = fmt::format("libnccl.so.2 has no {}", name);
    return reinterpret_cast<Function*>(found);
  }
  const std::string& trouble() const { return trouble_; }

 private:
  void* library_;
  std::string trouble_;
};

#define FIND(name) symbols.find(static_cast<decltype(&name)>(nullptr), #name)

ncclComm_t comm_of(NcclFunctions::Handle handle) { return static_cast<ncclComm_t>(handle); }

Library load() {
  Symbols symbols;
  NcclFunctions f;
  f.make_id = [call = FIND(ncclGetUniqueId)](NcclFunctions::Id* id) {
    ncclUniqueId made;
    const int result = call(&made);
    std::memcpy(id->data(), &made, sizeof made);
    return result;
  };
  f.init = [call = FIND(ncclCommInitRankConfig)](NcclFunctions::Handle* handle, int ranks, const NcclFunctions::Id& id,
                                                 int rank) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclUniqueId known;
    std::memcpy(&known, id.data(), sizeof known);
    ncclComm_t comm = nullptr;
    const int result = call(&comm, ranks, known, rank, &config);
    *handle = comm;
    return result;
  };
  f.state = [call = FIND(ncclCommGetAsyncError)](NcclFunctions::Handle handle, int* state) {
    ncclResult_t found = ncclSuccess;
    const int result = call(comm_of(handle), &found);
    *state = found;
    return result;
  };
  f.begin_group = [call = FIND(ncclGroupStart)] { return int(call()); };
  f.end_group = [call = FIND(ncclGroupEnd)] { return int(call()); };
  f.send = [call = FIND(ncclSend)](const void* data, std::size_t bytes, int peer, NcclFunctions::Handle handle,
                                   void* stream) {
    return int(call(data, bytes, ncclInt8, peer, comm_of(handle), static_cast<cudaStream_t>(stream)));
  };
  f.receive = [call = FIND(ncclRecv)](void* data, std::size_t bytes, int peer, NcclFunctions::Handle handle,
                                      void* stream) {
    return int(call(data, bytes, ncclInt8, peer, comm_of(handle), static_cast<cudaStream_t>(stream)));
  };
  f.finalize = [call = FIND(ncclCommFinalize)](NcclFunctions::Handle handle) { return int(call(comm_of(handle))); };
  f.destroy = [call = FIND(ncclCommDestroy)](NcclFunctions::Handle handle) { return int(call(comm_of(handle))); };
  f.abort = [call = FIND(ncclCommAbort)](NcclFunctions::Handle handle) { return int(call(comm_of(handle))); };
  f.name_of = [call = FIND(ncclGetErrorString)](int result) { return std::string(call(ncclResult_t(result))); };
  auto* const version_of = FIND(ncclGetVersion);
  int version = 0;
  if (symbols.trouble().empty() && version_of(&version) == ncclSuccess) {
    f.version = fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  }
  return {f, symbols.trouble()};
}

#undef FIND

#elif defined(KOKKOS_ENABLE_CUDA)

Library load() {
  return {{}, "this build was made without NCCL: CMake found no nccl.h, or ANNULUS_NCCL was switched off"};
}

#else

Library load() { return {{}, "this build computes on host threads; NCCL carries messages between NVIDIA GPUs"}; }

#endif

const Library& library() {
  static const Library one = load();
  return one;
}

}  // namespace

std::string why_no_nccl() { return library().trouble; }

const NcclFunctions& nccl_library() {
  if (!library().trouble.empty()) core::fail(core::ErrorKind::usage, "{}", library().trouble);
  return library().functions;
}

}  // namespace annulus::comm
