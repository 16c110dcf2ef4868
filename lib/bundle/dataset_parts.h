#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "container.h"
#include "dgx/bundle/dataset.h"

/// The parts of a dataset bundle that are read alike by those who read it all and those who open it.
namespace dgx::bundle {

/// Names of tensors that a bundle has, besides the fields, only if they are not empty.
inline constexpr std::string_view kClasses = "classes";
inline constexpr std::string_view kChannels = "channels";
[[nodiscard]] Tensor class_tensor(const std::vector<std::string>& classes);
[[nodiscard]] Tensor channel_tensor(const std::vector<Affine>& channels);

/// Names and shapes of fields, by which all of them are checked.
using Shapes = std::vector<std::pair<std::string_view, const Shape*>>;
/// kMalformed, as check_fields().
[[nodiscard]] Status check_shapes(const Shapes& shapes);
/// kUsage unless both are finite, and the scale is not 0.
[[nodiscard]] Status check_scales(float scale, float shift);
/// kMalformed if there are names, and they cannot be those of y's classes.
[[nodiscard]] Status check_named(const DatasetInfo& info);

/// The path of a field's nodes: "x.nodes". No field has such a name.
[[nodiscard]] std::string nodes_path(std::string_view field);
/// The metadata: all but numbers and nodes. kMalformed unless the bundle has exactly a dataset's objects,
/// each of the right type and shape.
[[nodiscard]] Result<DatasetInfo> info_from(const Reader& reader);
/// The recipe whose digest the dataset's binds.
[[nodiscard]] std::string recipe_of(const DatasetInfo& info);
/// Reads the nodes of a field of this shape. They are not compared with anything.
[[nodiscard]] Result<std::vector<Digest>> read_nodes(const Reader& reader, std::string_view field,
                                                     const FieldInfo& info);

}  // namespace dgx::bundle
