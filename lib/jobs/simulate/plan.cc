#include "simulate/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "dgx/core/checked.h"
#include "dgx/manifest/fields.h"
#include "dgx/merkle/digests.h"
#include "dgx/protocol/admission.h"
#include "dgx/protocol/draw.h"
#include "dgx/protocol/estimate.h"
#include "dgx/protocol/lots.h"
#include "dgx/protocol/segments.h"

namespace dgx::jobs {
namespace {

constexpr std::int64_t kMillion = 1'000'000;
// The task of dgx-money(7), CLOSED FORMS: 10^6 base units in 100 segments. Its states are so small that
// proving them costs less than a unit.
constexpr std::int64_t kSteps = 200, kEvery = 2, kStepOperations = 5'000'000'000, kPrice = 1'000;

manifest::Task task_with(const manifest::Policy& policy, Stream& digests) {
  manifest::Task out;
  out.program = {digests.digest(), 1};
  out.evaluation = {digests.digest(), 1};
  out.initial = {digests.digest(), manifest::InitialSource::kSeed};
  out.dataset = {digests.digest(), 1, {{"x", {DType::kF32, {1}}}}};
  out.model = "simulated";
  out.optimizer.learning_rate = 0.1;
  out.batch = 1;
  out.steps = kSteps;
  out.checkpoint_every = kEvery;
  out.policy = policy;
  out.price = kPrice;
  out.caps = {kSteps, 1, 1};
  out.ledger = digests.digest();
  return out;
}

/// Computes the task's money and draw, and checks that a market with its policy takes it.
Status set_task(Plan& plan, Stream& digests) {
  plan.task = task_with(plan.policy, digests);
  manifest::Task& task = plan.task;
  DGX_TRY(task.estimate,
          protocol::estimate({kStepOperations, task.caps.bytes, kSteps, kEvery, kPrice}, plan.policy));
  DGX_CHECK(protocol::check_admission(task));
  DGX_CHECK(protocol::check_terms(task));
  DGX_TRY(const protocol::Segments segments, protocol::Segments::of(kSteps, kEvery));
  DGX_CHECK(protocol::check_segment_time(task, 1));
  plan.segments = segments.count();
  plan.drawn = protocol::drawn_count(task, segments);
  plan.work = plan.drawn * kEvery * kStepOperations;
  plan.missed = protocol::miss_probabilities(plan.segments, plan.drawn);
  plan.bonds = protocol::bonds_of(task);
  DGX_TRY(plan.cost, mul_div(task.estimate.train, kPrice, protocol::kPriceUnit));
  DGX_TRY(plan.recheck, mul_div(task.estimate.verify, kPrice, protocol::kPriceUnit));
  return {};
}

void set_states(Plan& plan, Stream& digests) {
  plan.states.push_back(plan.task.initial.digest);
  while (std::ssize(plan.states) <= plan.segments) plan.states.push_back(digests.digest());
  for (const Digest& state : plan.states) plan.tree.add_hash(merkle::committed_state_leaf(state));
  plan.root = {plan.tree.root(), std::ssize(plan.states)};
}

Status check_range(std::string_view option, std::int64_t number, std::int64_t most) {
  if (number >= 1 && number <= most) return {};
  return usage_error(fmt::format("{}: is {}, must be 1 to {}", option, number, most));
}

}  // namespace

std::int64_t Plan::faked(const AgentGroup& cheat) const {
  return std::max<std::int64_t>(1, segments * cheat.false_ppm / kMillion);
}

Result<Plan> make_plan(const manifest::Policy& policy, const Agents& agents, const SimulateOptions& options) {
  DGX_CHECK(check_range("--tasks", options.tasks, kMostSimulatedTasks));
  DGX_CHECK(check_range("--open", options.open, kMostTasksOpen));
  Plan plan;
  plan.policy = policy;
  plan.agents = agents;
  plan.seed = options.seed;
  plan.open = options.open;
  Stream digests(options.seed, ~std::uint64_t{0}, 0);
  if (Status status = set_task(plan, digests); !status.ok())
    return within("policy: the simulated task", std::move(status).error());
  set_states(plan, digests);
  return plan;
}

std::size_t People::of_key(const Digest& key) const {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Person& person) { return person.key == key; });
  return static_cast<std::size_t>(found - all.begin());
}

namespace {

/// True for those who offer to verify every task; farmers do so for their own alone.
bool verifies(AgentKind kind) {
  return kind == AgentKind::kHonest || kind == AgentKind::kLazy || kind == AgentKind::kSilent ||
         kind == AgentKind::kSybil || kind == AgentKind::kAccomplice || kind == AgentKind::kColluder ||
         kind == AgentKind::kGuesser || kind == AgentKind::kInsider || kind == AgentKind::kSeller ||
         kind == AgentKind::kVenal;
}

/// Makes the people of a market, group by group.
class Maker {
 public:
  Maker(const Plan& plan, Stream& keys) : plan_(plan), keys_(keys) {}

  void add(const AgentGroup& group) {
    for (std::int64_t n = 0; n < group.count; ++n, ++owner_) add_one(group);
  }
  /// The colluders' bonds, which together are their share of all.
  Status add_colluders(const AgentGroup& group) {
    __int128 others = 0;
    for (const std::size_t verifier : out_.verifiers) others += out_.all[verifier].bond;
    const __int128 divisor = static_cast<__int128>(kMillion - group.share_ppm) * group.count;
    const __int128 bond = (others * group.share_ppm + divisor - 1) / divisor;
    if (bond > manifest::kMaxInteger) return not_allowed("agents: colluder: their bonds exceed 2^53");
    if (bond < plan_.bonds.verifier)
      return usage_error(fmt::format("agents: colluder: each would stake {}, a verifier's bond is {}",
                                     static_cast<std::int64_t>(bond), plan_.bonds.verifier),
                         "let fewer of them hold that share");
    AgentGroup with_bond = group;
    with_bond.bond = static_cast<std::int64_t>(bond);
    add(with_bond);
    return {};
  }
  People finish() && {
    out_.submitter = key_of(AgentKind::kSubmitter, 0);
    for (std::size_t n = 0; n < out_.all.size(); ++n) out_.by_account.emplace(out_.all[n].account, n);
    return std::move(out_);
  }
  [[nodiscard]] const People& people() const { return out_; }

 private:
  std::size_t key_of(AgentKind kind, std::int64_t bond) {
    const Digest key = keys_.digest();
    out_.all.push_back({kind, key, key.hex(), bond, owner_});
    return out_.all.size() - 1;
  }

  void add_one(const AgentGroup& group) {
    const AgentKind kind = group.kind;
    const std::int64_t bond = group.bond.value_or(plan_.bonds.verifier);
    if (kind == AgentKind::kHonest || kind == AgentKind::kCheat || kind == AgentKind::kFarmer)
      out_.solvers.push_back(key_of(kind, 0));
    if (kind == AgentKind::kFarmer) {
      const std::size_t solver = out_.solvers.back();
      out_.farm_submitters[solver] = key_of(kind, 0);
      out_.farm_verifiers[solver] = key_of(kind, bond);
      out_.claimants[solver] = key_of(kind, 0);
    }
    const std::int64_t keys = kind == AgentKind::kSybil ? group.keys : 1;
    for (std::int64_t n = 0; verifies(kind) && n < keys; ++n) out_.verifiers.push_back(key_of(kind, bond));
    if (kind == AgentKind::kInsider) out_.claimants[out_.verifiers.back()] = key_of(kind, 0);
    if (kind == AgentKind::kVolunteer) out_.volunteers.push_back(key_of(kind, 0));
    if (kind == AgentKind::kGuesser) out_.guessers.push_back(key_of(kind, 0));
    if (kind == AgentKind::kRobber) out_.robbers.push_back(key_of(kind, 0));
    if (kind == AgentKind::kGriefer) out_.griefers.push_back(key_of(kind, 0));
    if (kind == AgentKind::kCopier) out_.copiers.push_back(key_of(kind, 0));
  }

  const Plan& plan_;
  Stream& keys_;
  People out_;
  std::size_t owner_ = 0;
};

Status check_bond(const Plan& plan, const AgentGroup& group) {
  if (!group.bond) return {};
  if (!plan.has_rounds())
    return usage_error(fmt::format("agents: {}: bond: without rounds every verifier stakes the policy's",
                                   name_of(group.kind)));
  if (*group.bond >= plan.bonds.verifier) return {};
  return usage_error(fmt::format("agents: {}: bond: is {}, must be at least {}", name_of(group.kind),
                                 *group.bond, plan.bonds.verifier));
}

}  // namespace

Result<People> make_people(const Plan& plan, Stream& keys) {
  Maker maker(plan, keys);
  const AgentGroup* colluders = nullptr;
  for (const AgentGroup& group : plan.agents) {
    DGX_CHECK(check_bond(plan, group));
    if (group.kind == AgentKind::kColluder)
      colluders = &group;
    else
      maker.add(group);
  }
  if (colluders != nullptr) DGX_CHECK(maker.add_colluders(*colluders));
  const People& people = maker.people();
  if (people.solvers.empty())
    return usage_error("agents: nobody solves", "add some who are honest, cheat or farm");
  if (people.verifiers.empty())
    return usage_error("agents: nobody verifies", "add some who are honest or lazy");
  const std::size_t offers = people.verifiers.size() + (people.farm_verifiers.empty() ? 0 : 1);
  if (offers > protocol::kMostOffers)
    return usage_error(
        fmt::format("agents: {} keys offer to verify, at most {} can", offers, protocol::kMostOffers));
  return std::move(maker).finish();
}

}  // namespace dgx::jobs
