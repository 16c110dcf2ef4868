#include "vetting.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/frontend/lexer.h>
#include <torch/csrc/jit/frontend/parser.h>
#include <torch/csrc/jit/frontend/tree_views.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/inliner.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string_view>

#include "decompositions.h"
#include "dgx/lowering/lower.h"

namespace dgx::torch_bridge {
namespace {

namespace jit = torch::jit;

/// Something that may not be run, where it is, and why.
struct Offence {
  std::string what;
  jit::SourceRange where;
  const char* why;
};
constexpr const char* kLoads = "it would run while the file is loaded";
constexpr const char* kHidden = "the code that it runs cannot be inspected";
using Found = std::optional<Offence>;

/// The place of a range, written as the recorder does.
std::string place_of(const jit::SourceRange& where) {
  const auto position = where.findSourceRangeThatGenerated().value_or(where).file_line_col();
  if (!position) return {};
  const auto& [file, line, column] = *position;
  return fmt::format(" ({}:{})", std::filesystem::path(file).filename().string(), line);
}

Error refused(const std::string& path, std::string_view when, const Offence& offence) {
  return usage_error(
      fmt::format("{}: {} ({}{}): {}", path, offence.what, when, place_of(offence.where), offence.why));
}

std::string text_of(const jit::SourceRange& range) {
  const std::string text(range.token_text());
  constexpr std::size_t kMost = 80;
  return text.size() <= kMost ? text : text.substr(0, kMost) + "…";
}

/// True if the callee makes a number or a device, or names a type, as the printer of archives writes them.
bool is_plain_call(const jit::TreeRef& callee) {
  static const std::set<std::string> kPlain = {"annotate", "float", "int", "bool"};
  if (callee->kind() == jit::TK_VAR) return kPlain.contains(jit::Var(callee).name().name());
  if (callee->kind() != '.') return false;
  const jit::Select select(callee);
  return select.value().kind() == jit::TK_VAR && jit::Var(select.value().tree()).name().name() == "torch" &&
         select.selector().name() == "device";
}

/// The first call in an expression that loading evaluates.
Found find_call(const jit::TreeRef& tree) {
  if (tree->isAtom()) return std::nullopt;
  if (tree->kind() == jit::TK_APPLY && !is_plain_call(tree->tree(0))) {
    return Offence{text_of(tree->range()), tree->range(), kLoads};
  }
  for (const jit::TreeRef& part : tree->trees()) {
    if (auto found = find_call(part)) return found;
  }
  return std::nullopt;
}

Found look_at_function(const jit::Def& function);

/// The first offence of a function in a tree: functions may be inside functions.
Found look_for_functions(const jit::TreeRef& tree) {
  if (tree->kind() == jit::TK_DEF) return look_at_function(jit::Def(tree));
  if (tree->isAtom()) return std::nullopt;
  for (const jit::TreeRef& part : tree->trees()) {
    if (auto found = look_for_functions(part)) return found;
  }
  return std::nullopt;
}

Found look_at_function(const jit::Def& function) {
  if (function.name().name() == "__setstate__") return Offence{"__setstate__", function.range(), kLoads};
  for (const jit::Param& parameter : function.decl().params()) {
    if (!parameter.defaultValue().present()) continue;
    if (auto found = find_call(parameter.defaultValue().get().tree())) return found;
  }
  for (const jit::TreeRef& part : function.tree()->trees()) {
    if (auto found = look_for_functions(part)) return found;
  }
  return std::nullopt;
}

Found look_at_class(const jit::ClassDef& definition) {
  for (const jit::Stmt& statement : definition.body()) {
    Found found = statement.kind() == jit::TK_DEF ? look_at_function(jit::Def(statement.tree()))
                                                  : find_call(statement.tree());
    if (found) return found;
  }
  return std::nullopt;
}

void skip_line(jit::Lexer& lexer) {
  while (lexer.cur().kind != jit::TK_NEWLINE && lexer.cur().kind != jit::TK_EOF) lexer.next();
  lexer.nextIf(jit::TK_NEWLINE);
}

/// The first offence in a file of code, which is read as libtorch's importer reads it.
Found look_at_source(const std::shared_ptr<jit::Source>& source) {
  jit::Parser parser(source);
  jit::Lexer& lexer = parser.lexer();
  if (lexer.cur().kind == jit::TK_IDENT && lexer.cur().text() == "op_version_set") skip_line(lexer);
  while (lexer.cur().kind != jit::TK_EOF) {
    if (lexer.nextIf(jit::TK_IMPORT)) {
      skip_line(lexer);
      continue;
    }
    Found found = lexer.cur().kind == jit::TK_CLASS_DEF
                      ? look_at_class(jit::ClassDef(parser.parseClass()))
                      : look_at_function(jit::Def(parser.parseFunction(false)));
    if (found) return found;
  }
  return std::nullopt;
}

/// True if `bytes` name one of libtorch's own classes, which are made by code that takes the file's bytes.
/// Pickles have their names in two parts.
bool names_own_class(std::string_view bytes) {
  for (const char* name : {"torch.classes.", "torch\nclasses.", "torch.classes\n"}) {
    if (bytes.find(name) != std::string_view::npos) return true;
  }
  return false;
}

/// The range of an offence that has no place in the file's code.
jit::SourceRange nowhere() { return jit::SourceRange(); }

/// True for host operators, unknown to the dispatcher, whose effect is harmless: it is on objects of the host
/// only, or a message.
bool is_harmless_effect(const jit::Node& node) {
  static const std::set<std::string_view> kHarmless = {
      "prim::SetAttr", "prim::RaiseException",  "prim::Print",
      "aten::warn",    "aten::append",          "aten::extend",
      "aten::insert",  "aten::_set_item",       "aten::clear",
      "aten::pop",     "aten::remove",          "aten::reverse",
      "aten::Delete",  "aten::update",          "aten::setdefault",
      "aten::popitem", "aten::__delitem__",     "aten::add_",
      "aten::mul_",    "aten::is_grad_enabled", "aten::set_grad_enabled"};
  return kHarmless.contains(node.kind().toQualString());
}

/// True for operators without a lowering that only make a tensor of numbers, or of another's shape: the
/// capture has their result as a literal if it is the same in every step, and refuses it with a reason
/// otherwise.
bool only_makes_numbers(std::string_view name) {
  static const std::set<std::string_view> kMakers = {"aten::tensor", "aten::as_tensor"};
  return kMakers.contains(name);
}

bool is_decomposed(std::string_view name) {
  const auto all = decompositions();
  return std::any_of(all.begin(), all.end(), [&](const Decomposition& d) { return name == d.name; });
}

/// True if the table has the operator or, for an in-place form, the operator without the underscore:
/// functionalisation turns the one into the other.
bool is_lowered(std::string name) {
  if (lowering::has_lowering(name) || is_decomposed(name)) return true;
  if (!name.ends_with('_') || name.ends_with("__")) return false;
  name.pop_back();
  return lowering::has_lowering(name) || is_decomposed(name);
}

/// True for operators that are not for models: those that libtorch's own functions call with arguments which
/// they have checked, and which crash with others; and those that change what is trained.
bool is_internal(std::string_view name) {
  constexpr std::array kPublic = {"_batch_norm_impl_index",
                                  "_cast_Float",
                                  "_cast_Long",
                                  "_convolution",
                                  "_convolution_mode",
                                  "_dim_arange",
                                  "_fused_rms_norm",
                                  "_pad_circular",
                                  "_pad_enum",
                                  "_reshape_from_tensor",
                                  "_scaled_dot_product_attention_math",
                                  "_shape_as_tensor",
                                  "_weight_norm"};
  constexpr std::array kChangeTraining = {"requires_grad_", "set_data", "retain_grad"};
  name.remove_prefix(std::min(name.find("::") + 2, name.size()));
  if (std::ranges::find(kChangeTraining, name) != kChangeTraining.end()) return true;
  if (name.starts_with("quantized_") || name.starts_with("fbgemm_")) return true;
  if (name.starts_with("_upsample_")) return false;  // of interpolate(), whatever its mode
  return name.starts_with('_') && !name.starts_with("__") &&
         std::ranges::find(kPublic, name) == kPublic.end();
}

bool is_made_of_others(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
         !is_internal(op.schema().name());
}

/// True for operators whose result or its shape depends on numbers: the recorder refuses them with that
/// reason, or their results are literals.
bool asks_numbers(const c10::OperatorHandle& op) {
  return op.hasTag(at::Tag::dynamic_output_shape) || op.hasTag(at::Tag::data_dependent_output);
}

bool takes_storage(const c10::FunctionSchema& schema) {
  return std::any_of(schema.arguments().begin(), schema.arguments().end(), [](const c10::Argument& argument) {
    return argument.type()->kind() == c10::TypeKind::StorageType;
  });
}

/// True if a node may be run.
bool is_taken(const jit::Node& node) {
  const std::string name = node.kind().toQualString();
  if (!node.kind().is_prim() && !node.kind().is_aten()) return false;
  const c10::FunctionSchema* const schema = node.maybeSchema();
  if (schema != nullptr) {
    if (const auto op = c10::Dispatcher::singleton().findSchema(schema->operator_name())) return may_run(*op);
  }
  return !node.hasSideEffects() || is_harmless_effect(node);
}

class Walk {
 public:
  Found block(const jit::Block* block) {
    for (const jit::Node* node : block->nodes()) {
      if (auto found = look_at(*node)) return found;
      for (const jit::Block* inside : node->blocks()) {
        if (auto found = this->block(inside)) return found;
      }
    }
    return std::nullopt;
  }

  Found function(const jit::Function& function) {
    if (!seen_.insert(&function).second) return std::nullopt;
    if (!function.isGraphFunction()) {
      return Offence{function.qualname().qualifiedName(), nowhere(), kHidden};
    }
    const auto graph = jit::toGraphFunction(const_cast<jit::Function&>(function)).graph()->copy();
    jit::Inline(*graph);
    return block(graph->block());
  }

 private:
  /// Looks at what a node runs outside itself: methods that the interpreter finds by their names.
  Found called(const jit::Node& node, std::initializer_list<const char*> methods) {
    const auto type = node.inputs()[0]->type()->cast<c10::ClassType>();
    for (const char* name : methods) {
      const jit::Function* const method = type ? type->findMethod(name) : nullptr;
      if (method == nullptr) return Offence{name, node.sourceRange(), kHidden};
      if (auto found = function(*method)) return found;
    }
    return std::nullopt;
  }

  Found look_at(const jit::Node& node) {
    const auto kind = node.kind();
    if (kind == c10::prim::Enter) return called(node, {"__enter__"});
    if (kind == c10::prim::Exit) return called(node, {"__exit__"});
    if (kind == c10::prim::CallMethod || kind == c10::prim::CallFunction) {
      return Offence{"a call of an interface", node.sourceRange(), kHidden};
    }
    if (sorts_objects(node)) return Offence{"sorting objects", node.sourceRange(), kHidden};
    if (is_taken(node)) return std::nullopt;
    return Offence{fmt::format("no exact lowering for {}", kind.toQualString()), node.sourceRange(),
                   "it is not in the table"};
  }

  static bool sorts_objects(const jit::Node& node) {
    if (node.kind() != c10::aten::sort && node.kind() != c10::aten::sorted) return false;
    const auto list = node.inputs()[0]->type()->cast<c10::ListType>();
    return list && list->getElementType()->kind() == c10::TypeKind::ClassType;
  }

  std::set<const jit::Function*> seen_;
};

}  // namespace

program::ModelArchive::Treatment treatment_of(const c10::OperatorHandle& op) {
  using Treatment = program::ModelArchive::Treatment;
  const std::string& name = op.schema().name();
  if (!name.starts_with("aten::") && !name.starts_with("prim::")) return Treatment::kMissing;
  if (takes_storage(op.schema())) return Treatment::kMissing;
  if (is_decomposed(name)) return Treatment::kDecomposed;
  if (is_lowered(name)) return Treatment::kLowered;
  if (is_made_of_others(op)) return Treatment::kDecomposed;
  return asks_numbers(op) || only_makes_numbers(name) ? Treatment::kFolded : Treatment::kMissing;
}

bool may_run(const c10::OperatorHandle& op) {
  return treatment_of(op) != program::ModelArchive::Treatment::kMissing;
}

Status vet_archive(const std::string& path) {
  caffe2::serialize::PyTorchStreamReader reader(path);
  if (!reader.hasRecord("data.pkl") || !reader.hasRecord("constants.pkl")) {
    return malformed(
        path + (reader.hasRecord("data.pkl") ? ": is a file of torch.save, which holds no program"
                                             : ": is no archive of torch.export or TorchScript"),
        "torch.export.save(torch.export.export(model.train(), (x,)), \"net.pt2\") writes one");
  }
  for (const std::string& name : reader.getAllRecords()) {
    const bool is_code = name.ends_with(".py");
    if (!is_code && !name.ends_with("pkl")) continue;
    const auto [data, size] = reader.getRecord(name);
    const std::string_view bytes(static_cast<const char*>(data.get()), size);
    if (names_own_class(bytes))
      return refused(path, "loading", {"torch.classes in " + name, nowhere(), kLoads});
    if (!is_code) continue;
    if (auto found = look_at_source(std::make_shared<jit::Source>(std::string(bytes), name, 1)))
      return refused(path, "loading", *found);
  }
  return {};
}

Status vet_operators(const std::string& path, const jit::Module& module) {
  const auto forward = module.find_method("forward");
  if (!forward) return malformed(fmt::format("{}: the module has no forward()", path));
  if (const auto found = Walk().function(forward->function())) return refused(path, "forward", *found);
  return {};
}

}  // namespace dgx::torch_bridge
