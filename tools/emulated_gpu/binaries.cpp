#include "binaries.hpp"

#include <zstd.h>

#include <cstring>
#include <map>

namespace emulated_gpu {
namespace {

// The layout that nvcc's fatbinary uses; found by reading its output.
struct Wrapper {
  int magic, version;
  const char* data;
};
struct Header {
  std::uint32_t magic;
  std::uint16_t version, header_size;
  std::uint64_t size;  // of what follows
};
struct Entry {
  std::uint16_t kind, version;
  std::uint32_t header_size;
  std::uint64_t size;
  std::uint32_t packed_size, unknown;
  std::uint16_t minor, major;
  std::uint32_t architecture, name_offset, name_size;
  std::uint64_t flags, zero, whole_size;
};
constexpr std::uint16_t is_ptx = 1;
constexpr std::uint64_t packed_by_zstd = 0x8000;

std::string unpacked(const Entry& entry, const char* data) {
  if (entry.packed_size == 0) return std::string(data, entry.size);
  std::string text(entry.whole_size, '\0');
  if ((entry.flags & packed_by_zstd) == 0 ||
      ZSTD_isError(ZSTD_decompress(text.data(), text.size(), data, entry.packed_size)) != 0)
    fail("PTX that cannot be unpacked; compile with --no-compress");
  return text;
}

std::map<const void*, std::unique_ptr<Function>>& functions() {
  static auto* const all = new std::map<const void*, std::unique_ptr<Function>>;
  return *all;
}

struct Variable {
  Binary* binary;
  std::string name;
};
std::map<const void*, Variable>& variables() {
  static auto* const all = new std::map<const void*, Variable>;
  return *all;
}

}  // namespace

Module* Binary::module() {
  if (is_read) return read.get();
  is_read = true;
  const char* at = static_cast<const Wrapper*>(wrapper)->data;
  Header header;
  std::memcpy(&header, at, sizeof header);
  at += header.header_size;
  for (const char* const end = at + header.size; at < end;) {
    Entry entry;
    std::memcpy(&entry, at, sizeof entry);
    if (entry.kind == is_ptx) {
      read = std::make_unique<Module>(unpacked(entry, at + entry.header_size));
      break;
    }
    at += entry.header_size + entry.size;
  }
  return read.get();
}

Kernel& Function::kernel() const {
  Module* module = binary->module();
  Kernel* kernel = module == nullptr ? nullptr : module->kernel(name);
  if (kernel == nullptr) fail("no PTX of " + name + ": its file was compiled to machine code alone");
  return *kernel;
}

// A template's kernel is in many files; the first file's kernel is used.
void add_function(const void* host, Binary* binary, const char* name) {
  auto function = std::make_unique<Function>();
  function->binary = binary;
  function->name = name;
  functions().emplace(host, std::move(function));
}

Function* function_of(const void* given) {
  const auto entry = functions().find(given);
  if (entry != functions().end()) return entry->second.get();
  for (const auto& [host, function] : functions()) {
    if (function.get() == given) return function.get();
  }
  return nullptr;
}

void add_variable(const void* host, Binary* binary, const char* name) {
  variables().emplace(host, Variable{binary, name});
}

bool find_variable(const void* host, std::uint64_t& address) {
  const auto entry = variables().find(host);
  if (entry == variables().end()) return false;
  Module* module = entry->second.binary->module();
  address = module == nullptr ? 0 : module->variable(entry->second.name);
  return true;
}

}  // namespace emulated_gpu
