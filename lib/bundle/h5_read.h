#pragma once

#include <string>
#include <vector>

#include "dgx/core/tensor.h"
#include "h5.h"
#include "read_driver.h"

/// Reading with the HDF5 library, done only by dgx-h5.
namespace dgx::bundle::h5 {

/// Opens a container, which must outlive the returned file.
[[nodiscard]] Result<Handle> open_container(Container& container);

struct Link {
  std::string name;
  bool hard = false;
};
/// Links of a group by name; kMalformed if there are more than `most`.
[[nodiscard]] Result<std::vector<Link>> links_of(const Handle& group, std::size_t most);

[[nodiscard]] H5I_type_t kind_of_object(const Handle& object);
/// Opens a group or a dataset; named types are refused.
[[nodiscard]] Result<Handle> open_object(const Handle& parent, const std::string& name);

/// Dimensions of a dataset: scalar or simple, fixed, at most kMaxRank.
[[nodiscard]] Result<Shape> shape_of(const Handle& dataset);

}  // namespace dgx::bundle::h5
