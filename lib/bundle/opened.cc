#include "dgx/bundle/opened.h"

#include <fmt/format.h>

#include "dataset_parts.h"
#include "opened_field.h"
#include "unpack_cache.h"

namespace dgx::bundle {
namespace {

/// kMalformed if the compressed fields together are larger than what one process reads.
Status check_unpacked_size(const Reader& reader, const DatasetInfo& info, std::uint64_t most) {
  std::uint64_t total = 0;
  for (const auto& [name, field] : info.fields) {
    DGX_TRY(const Stored* const stored, reader.stored(name));
    if (stored->layout) total += stored->size_bytes;  // at most kMaxFields times 2^56
    if (total > most)
      return reader.in_file(malformed(fmt::format("\"{}\": more than {} bytes of numbers", name, most),
                                      "dgx-pack --plain stores them so that they need no unpacking"));
  }
  return {};
}

}  // namespace

Result<OpenedDataset> OpenedDataset::open(const std::string& path, const OpenEffort& effort,
                                          const std::function<Status(const DatasetInfo&)>& accept) {
  DGX_TRY(Reader opened, Reader::open(path, Kind::kDataset));
  const auto reader = std::make_shared<const Reader>(std::move(opened));
  OpenedDataset out;
  DGX_TRY(out.info_, info_from(*reader));
  DGX_CHECK(check_unpacked_size(*reader, out.info_, effort.max_bytes));
  std::vector<std::shared_ptr<OpenedField>> fields;
  bool compressed = false;
  for (const auto& [name, field] : out.info_.fields) {
    DGX_TRY(std::vector<Digest> nodes, read_nodes(*reader, name, field));
    fields.push_back(std::make_shared<OpenedField>(reader, name, field, std::move(nodes)));
    out.tensors_.push_back({name, fields.back()->digest()});
    out.fields_.emplace(name, fields.back());
    DGX_TRY(const Stored* const stored, reader->stored(name));
    compressed = compressed || (stored->layout && stored->size_bytes >= effort.cache_from);
  }
  DGX_TRY(const Digest digest, merkle::dataset_digest(out.tensors_, out.recipe()));
  if (digest != out.info_.digest)
    return reader->in_file(malformed(fmt::format("the dataset has digest {}, its nodes give {}",
                                                 out.info_.digest.brief(), digest.brief())));
  if (accept) DGX_CHECK(accept(out.info_));
  std::optional<UnpackCache> cache;
  if (compressed) {
    auto found = UnpackCache::open(effort.cache);
    if (found.ok()) cache = std::move(found).value();
    if (!found.ok()) out.warnings_.push_back(found.error().message);
  }
  for (const auto& field : fields) {
    auto warning = field->place(cache ? &*cache : nullptr, effort);
    if (!warning.ok()) return reader->in_file(std::move(warning).error());
    if (!warning->empty()) out.warnings_.push_back(*std::move(warning));
  }
  return out;
}

std::string OpenedDataset::recipe() const { return recipe_of(info_); }

FieldRows OpenedDataset::rows() const {
  FieldRows out;
  for (const auto& [name, field] : fields_) out.emplace(name, std::shared_ptr<const RowSource>(field));
  return out;
}

Result<merkle::TensorOpening> OpenedDataset::open_leaf(std::string_view field, std::uint64_t leaf) const {
  const auto found = fields_.find(field);
  if (found == fields_.end()) return usage_error(fmt::format("the dataset has no field {}", field));
  return found->second->open_leaf(leaf);
}

std::vector<std::string> OpenedDataset::wrong_in_cache() const {
  std::vector<std::string> out;
  for (const auto& [name, field] : fields_) {
    std::string wrong = field->wrong_in_cache();
    if (!wrong.empty()) out.push_back(std::move(wrong));
  }
  return out;
}

}  // namespace dgx::bundle
