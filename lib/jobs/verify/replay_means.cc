#include "verify/replay_means.h"

namespace dgx::jobs {

Result<exec::StepExecutor*> ReplayMeans::executor(const VerifyOptions& options, const TaskFiles& files,
                                                  const JobContext& context) {
  if (task_ == files.task.id) return executor_.get();
  task_.reset();
  executor_.reset();  // before the next one takes its memory
  const std::pair key(options.data, files.body().dataset.digest);
  auto found = data_.find(key);
  if (found == data_.end()) {
    if (data_.size() >= kMostOpen) data_.clear();
    DGX_TRY(auto opened, open_task_dataset(options.data, files.body(), context, options.cache));
    found = data_.emplace(key, std::move(opened)).first;
  }
  DGX_TRY(executor_, make_executor_on(options.device, options.parts, files, found->second.rows(), context));
  task_ = files.task.id;
  return executor_.get();
}

void ReplayMeans::warn(const JobContext& context) const {
  for (const auto& [key, data] : data_)
    for (const std::string& warning : data.wrong_in_cache())
      context.progress.warning(key.first + ": " + warning);
}

}  // namespace dgx::jobs
