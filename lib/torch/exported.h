#pragma once

#include "dgx/lowering/aten.h"
#include "dgx/program/model_archive.h"
#include "models.h"

namespace dgx::torch_bridge {

/// The model of a torch.export archive (dgx-submit(1), MODELS), ready for a pass under functionalisation.
///
/// An archive holds a list of calls, no code. Each is looked at before the first one runs: an operator of
/// libtorch's own that passes the rule of vetting.h, with arguments of the kinds that its schema has, or one
/// of a few functions of integers. So nothing but the mathematics can run, and an operator that is missing is
/// named with the user's line. forward() then gives the calls to libtorch's dispatcher one by one, where
/// autograd, functionalisation and the recorder see them as they see those of a TorchScript file.
///
/// The graph of a training export serves for evaluation, too, if no call draws random numbers or trains a
/// norm. Errors: kMalformed, kUsage, with the path; exceptions of libtorch pass through.
[[nodiscard]] Result<Model> load_exported(const lowering::CaptureRequest& request);

/// Describes an archive, for dgx-inspect(1). Reads no numbers and runs nothing; errors of Archive::open(),
/// with the path.
[[nodiscard]] Result<program::ModelArchive> describe_exported(const program::ModelFile& file);

}  // namespace dgx::torch_bridge
