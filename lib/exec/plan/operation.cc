#include "plan/operation.h"

namespace dgx::exec {
namespace {

template <class AnOperation>
auto* maps_in(AnOperation& operation) {
  if (auto* both = on_cpu<ProductMaps>(operation)) return &both->maps;
  return std::visit([](auto& work) { return std::get_if<Maps>(&work); }, operation.work);
}

struct Values {
  using List = std::vector<kernels::ValueIndex>;
  List operator()(const Maps& maps) const { return maps.members; }
  List operator()(const Rows& rows) const { return rows.members; }
  List operator()(const TiledProduct& tiled) const { return {tiled.product.out}; }
  List operator()(const ProductMaps& both) const {
    List values = {both.product.out};
    values.insert(values.end(), both.maps.members.begin(), both.maps.members.end());
    return values;
  }
  List operator()(const ReplacedRows& replaced) const { return {replaced.place, replaced.out}; }
  template <class Alone>
  List operator()(const Alone& alone) const {
    return {alone.out};
  }
};

}  // namespace

Maps* maps_of(Operation& operation) { return maps_in(operation); }
const Maps* maps_of(const Operation& operation) { return maps_in(operation); }

const StripProgram* map_program_of(const Operation& operation) {
  if (const auto* const replaced = on_cpu<ReplacedRows>(operation)) return &replaced->program;
  const Maps* const maps = maps_of(operation);
  return maps == nullptr ? nullptr : &maps->program;
}

std::vector<kernels::ValueIndex> values_of(const Operation& operation) {
  return std::visit([](const auto& work) { return std::visit(Values{}, work); }, operation.work);
}

}  // namespace dgx::exec
