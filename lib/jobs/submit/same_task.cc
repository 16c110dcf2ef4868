#include "submit/same_task.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace dgx::jobs {

std::string first_difference(const manifest::Task& found, const manifest::Task& made) {
  const std::vector<std::pair<std::string, bool>> same{
      {"--data", found.dataset == made.dataset},
      {"--model", found.model == made.model},
      {"--loss", found.loss == made.loss},
      {"--optimizer", found.optimizer == made.optimizer},
      {"--schedule", found.schedule == made.schedule},
      {"--clip-norm", found.clip_norm == made.clip_norm},
      {"--group", found.update.groups == made.update.groups},
      {"--freeze", found.update.frozen == made.update.frozen},
      {"--accumulate", found.update.accumulate == made.update.accumulate},
      {"--workers", found.update.workers == made.update.workers},
      {"--cut", found.cut == made.cut},
      {"--ema", found.update.ema == made.update.ema},
      {"--batch", found.batch == made.batch},
      {"--steps or --epochs", found.steps == made.steps},
      {"--seed", found.seed == made.seed},
      {"--checkpoint-every", found.checkpoint_every == made.checkpoint_every},
      {"--policy", found.policy == made.policy},
      {"--ledger", found.ledger == made.ledger},
      {"--price", found.price == made.price},
      {"--model, --inputs or --input", found.program == made.program},
      {"--model or --eval-model", found.evaluation == made.evaluation},
      {"--model or --init", found.initial == made.initial},
      {"--max-milliseconds", found.caps == made.caps},
      {"content", json::Value(found.predicate()).dump() == json::Value(made.predicate()).dump()}};
  const auto other = std::find_if(same.begin(), same.end(), [](const auto& one) { return !one.second; });
  return other == same.end() ? std::string() : other->first;
}

}  // namespace dgx::jobs
