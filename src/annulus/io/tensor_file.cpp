#include "annulus/io/tensor_file.hpp"

#include "annulus/io/attributes.hpp"
#include "annulus/io/dataset_checks.hpp"
#include "annulus/io/tensor_checks.hpp"

namespace annulus::io {

TensorFile::TensorFile(const InputSettings& input, const comm::Communicator& comm, bool gradients) {
  file_ = {*input.file, agreed_state(*input.file, comm), {}};
  contents_ = agreed_contents(file_.path, input.documents, comm,
                              [&](hid_t file) { return describe_tensors(file, input, gradients); });
  const auto& [batch, sequence, heads, kv_heads, head_dim] = shape();
  const auto add = [&](const std::string& name, const std::vector<Index>& extents, core::DType type) {
    file_.datasets[name] = {reordered(extents, order()), type, order()};
  };
  add(input.q, {batch, sequence, heads, head_dim}, type());
  for (const std::string& name : {input.k, input.v}) add(name, {batch, sequence, kv_heads, head_dim}, type());
  if (!gradients) return;
  add(input.dout, {batch, sequence, heads, head_dim}, type());
  if (input.dlse) add(*input.dlse, {batch, sequence, heads}, core::lse_type(type()));
}

DatasetInfo look_at_dataset(const std::string& path, const std::string& name) {
  const FoundDataset found = look_at(open_alone(path, false), path, name);
  return {found.extents, found.type};
}

std::optional<std::string> read_text_attribute(const std::string& path, const std::string& name) {
  const FileId file = open_alone(path, false);
  const std::vector<std::string> texts = texts_of(file, name);
  if (texts.empty()) return std::nullopt;
  return texts.front();
}

std::string read_text_dataset(const std::string& path, const std::string& name) {
  const FileId file = open_alone(path, false);
  const DatasetId dataset = open_dataset(file, path, name);
  const SpaceId space(check_hdf5(H5Dget_space(dataset), "{}: dataset {}", path, name));
  if (H5Sget_simple_extent_npoints(space) != 1) {  // the read below has room for one
    core::fail(core::ErrorKind::failure, "{}: dataset {} holds no text: expected one string", path, name);
  }
  const TypeId type = text_type();
  char* text = nullptr;  // allocated by HDF5
  check_hdf5(comm::blocking("H5Dread", H5Dread, dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, &text),
             "{}: dataset {} holds no text", path, name);
  const std::string copy = text == nullptr ? "" : text;
  H5free_memory(text);
  return copy;
}

}  // namespace annulus::io
