#include "h5_read.h"

#include <fmt/format.h>

#include <array>

namespace dgx::bundle::h5 {
namespace {

struct LinkList {
  std::vector<Link> links;
  std::size_t most = 0;
};

herr_t take_link(hid_t, const char* name, const H5L_info_t* info, void* out) {
  auto& list = *static_cast<LinkList*>(out);
  if (list.links.size() >= list.most) return -1;
  list.links.push_back({name, info->type == H5L_TYPE_HARD});
  return 0;
}

}  // namespace

Result<Handle> open_container(Container& container) {
  DGX_TRY(const Handle access,
          make([] { return H5Pcreate(H5P_FILE_ACCESS); }, H5Pclose, "set up", ErrorCode::kInternal));
  DGX_CHECK(check([&] { return H5Pset_fclose_degree(access.id(), H5F_CLOSE_STRONG); }, "set up",
                  ErrorCode::kInternal));
  DGX_CHECK(call([&] { return use_read_driver(access.id(), &container); }));
  return make([&] { return H5Fopen("container", H5F_ACC_RDONLY, access.id()); }, H5Fclose, "open");
}

Result<std::vector<Link>> links_of(const Handle& group, std::size_t most) {
  LinkList list{{}, most};
  const Status status =
      check([&] { return H5Literate(group.id(), H5_INDEX_NAME, H5_ITER_INC, nullptr, take_link, &list); },
            "list a group");
  if (!status.ok() && list.links.size() >= most)
    return malformed(fmt::format("has more than {} objects", most));
  if (!status.ok()) return status.error();
  return std::move(list.links);
}

H5I_type_t kind_of_object(const Handle& object) {
  return call([&] { return H5Iget_type(object.id()); });
}

Result<Handle> open_object(const Handle& parent, const std::string& name) {
  DGX_TRY(Handle object, make([&] { return H5Oopen(parent.id(), name.c_str(), H5P_DEFAULT); }, H5Oclose,
                              fmt::format("open \"{}\"", name)));
  const H5I_type_t kind = kind_of_object(object);
  if (kind != H5I_GROUP && kind != H5I_DATASET) {
    return malformed(fmt::format("\"{}\" is neither group nor dataset", name));
  }
  return object;
}

Result<Shape> shape_of(const Handle& dataset) {
  DGX_TRY(const Handle space, make([&] { return H5Dget_space(dataset.id()); }, H5Sclose, "read a shape"));
  const H5S_class_t kind = call([&] { return H5Sget_simple_extent_type(space.id()); });
  if (kind == H5S_SCALAR) return Shape{};
  const int rank = call([&] { return H5Sget_simple_extent_ndims(space.id()); });
  if (kind != H5S_SIMPLE || rank < 1 || rank > static_cast<int>(kMaxRank)) {
    return malformed(fmt::format("is not an array of at most {} dimensions", kMaxRank));
  }
  std::array<hsize_t, kMaxRank> dims{};
  DGX_CHECK(
      check([&] { return H5Sget_simple_extent_dims(space.id(), dims.data(), nullptr); }, "read a shape"));
  Shape shape;
  for (int i = 0; i < rank; ++i) {
    const hsize_t size = dims[static_cast<std::size_t>(i)];
    shape.push_back(size > (std::uint64_t{1} << 53) ? -1 : static_cast<std::int64_t>(size));
  }
  DGX_CHECK(element_count(shape));
  return shape;
}

}  // namespace dgx::bundle::h5
