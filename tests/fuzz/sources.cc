// Users' data and weight files: IDX (plain and gzip), NPY, tokens, text, safetensors and their index, NPZ. An
// accepted tensor has as many bytes as its shape requires, and no more elements than the file could hold.

#include "dgx/bundle/sources.h"
#include "dgx/bundle/model_files.h"

#include "scratch.h"
#include "target.h"

using namespace dgx;

namespace {

void check(const Result<BulkTensor>& tensor) {
  if (!tensor.ok()) return;
  const auto count = element_count(tensor->shape());
  fuzz::require(count.ok() && *count == tensor->count(), "a tensor has its shape's elements");
}

std::string npy(const std::string& header, const std::string& numbers) {
  std::string out("\x93NUMPY\x01\x00", 8);
  const std::string padded = header + std::string(117 - header.size(), ' ') + "\n";
  out += static_cast<char>(padded.size());
  out += '\0';
  return out + padded + numbers;
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  // The gzip form of the IDX file [2,3] of u8 1 … 6: a header, one stored block, its CRC-32 and length.
  const std::string idx("\0\0\x08\x02\0\0\0\x02\0\0\0\x03\x01\x02\x03\x04\x05\x06", 18);
  const std::string gzip = std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03\x01\x12\0\xed\xff", 15) + idx +
                           std::string("\x48\x94\x3e\xe5\x12\0\0\0", 8);
  const std::string safetensors =
      std::string("\x88\0\0\0\0\0\0\0", 8) +
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)" +
      R"("b":{"dtype":"U8","shape":[],"data_offsets":[8,9]}})";
  scratch().write("a.safetensors", safetensors + std::string(9, '\1'));
  std::string half = safetensors + std::string(5, '\1');
  half.replace(half.find("\"F32\""), 5, "\"F16\"").replace(half.find("[0,8]"), 5, "[0,4]");
  half.replace(half.find("[8,9]"), 5, "[4,5]");
  const std::string start = "{'descr': '";
  const std::string end = "', 'fortran_order': False, 'shape': (2, 3), }";
  const float numbers[] = {1, -2};
  const TensorView two{DType::kF32, {2}, {reinterpret_cast<const std::uint8_t*>(numbers), sizeof numbers}};
  return {R"({"metadata":{"total_size":9},"weight_map":{"a":"a.safetensors","b":"a.safetensors"}})",
          half,
          idx,
          gzip,
          *bundle::npz_bytes({{"a", two}, {"b", two}}),
          *bundle::npz_bytes({{"a", two}}, {{"format", "pt"}}),
          safetensors + std::string(9, '\1'),
          std::string("\0\0\x0d\x01\0\0\0\x01\x3f\x80\0\0", 12),
          std::string("\0\0\x0c\x01\0\0\0\x02\0\0\0\x01\xff\xff\xff\xff", 16),
          npy(start + "|u1" + end, "abcdef"),
          npy(start + "<i8" + end, std::string(48, '\1')),
          npy(start + "<f4" + end, std::string(24, '\0')),
          npy(start + "<i2" + end, std::string(12, '\2')),
          npy(start + "<f2" + end, std::string(12, '\3')),
          npy(start + "|b1" + end, std::string(6, '\1')),
          npy("{'descr': '<u2', 'fortran_order': False, 'shape': (6,), }", "aabbccddeeff")};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string path = fuzz::scratch().write("input", fuzz::text_of(data, size));
  check(bundle::read_idx(path));
  check(bundle::read_npy(path));
  if (const auto state = bundle::read_safetensors(path); state.ok()) {
    std::size_t bytes = 0;
    for (const Entry& entry : state->tensors) {
      check(Result<BulkTensor>(entry.tensor));
      bytes += entry.tensor.bytes().size();
    }
    fuzz::require(bytes < size, "a state's numbers are bytes of the file");
  }
  if (const auto wide = bundle::read_safetensors(path, bundle::Floats::kWidened); wide.ok()) {
    std::size_t bytes = 0;
    for (const Entry& entry : wide->tensors) bytes += entry.tensor.bytes().size();
    fuzz::require(bytes < 2 * size, "a widened number has at most twice the bytes of the file's");
  }
  fuzz::scratch().write(std::string(bundle::kShardIndex), fuzz::text_of(data, size));
  if (const auto model = bundle::read_sharded_safetensors(fuzz::scratch() / ""); model.ok())
    fuzz::require(model->tensors.size() == 2, "an accepted index names the tensors of its one file");
  if (const auto model = bundle::read_own_npz(path); model.ok()) {
    std::vector<bundle::NamedTensor> views;
    for (const Entry& entry : model->tensors) views.push_back({entry.name, entry.tensor.view()});
    const auto again = bundle::npz_bytes(views, model->metadata);
    fuzz::require(again.ok() && *again == fuzz::text_of(data, size), "an archive is written again as it was");
  }
  check(bundle::read_safetensor(path, "a", {.rounding = bundle::Rounding::kF32}));
  for (const auto encoding : {bundle::TokenFile::kNpy, bundle::TokenFile::kU16}) {
    const auto tokens = bundle::read_tokens(path, encoding, 2);
    fuzz::require(!tokens.ok() || tokens->x.count() == tokens->y.count(), "every token has a next");
  }
  const auto text = bundle::read_text(path, 4);
  fuzz::require(!text.ok() || text->x.count() == text->y.count(), "every byte of text has a next");
  return 0;
}
