#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>

#include "dgx/core/result.h"
#include "dgx/program/model_archive.h"

namespace torch::jit {
struct Module;
}

/// Refuses whatever a TorchScript file could run besides its mathematics, before any of it runs.
///
/// libtorch runs code of a file while it *loads* it: `__setstate__` of an object, the default values of
/// parameters and the constants of classes, which are expressions, and constructors of libtorch's own classes
/// that are made from bytes. So the archive is first inspected with libtorch's own parser, which runs
/// nothing. Once it is loaded, the graph of forward(), with everything it calls inside, is walked. Operators
/// are not judged by a list of bad ones, which would never be complete: one is accepted if it has a lowering,
/// if libtorch composes it of others (which meet the recorder one by one), or if it only makes a tensor of
/// numbers.
namespace dgx::torch_bridge {

/// kUsage, naming file and line of the code, if loading `path` would run any; kMalformed if it is not a zip
/// archive of the current form. Throws libtorch's exceptions.
[[nodiscard]] Status vet_archive(const std::string& path);

/// kUsage, naming operator and place, if forward() could run an operator that a program cannot hold.
[[nodiscard]] Status vet_operators(const std::string& path, const torch::jit::Module& module);

/// The treatment of a call of the operator: kMissing if it may not be run, by the rule above.
[[nodiscard]] program::ModelArchive::Treatment treatment_of(const c10::OperatorHandle& op);
/// True if the operator may be run.
[[nodiscard]] bool may_run(const c10::OperatorHandle& op);

}  // namespace dgx::torch_bridge
