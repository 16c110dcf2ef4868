#include "cpu/entry_digests.h"

namespace dgx::exec {

void EntryDigests::forget_all() {
  for (Known& entry : entries_) entry.digest.reset();
}

Result<merkle::StateDigests> EntryDigests::of_state(const Numbers& numbers, int threads) {
  std::vector<EntryView> views;
  for (std::size_t e = 0; e < entries_.size(); ++e) {
    if (knows(e)) continue;
    DGX_TRY(const TensorView view, numbers(e));
    views.push_back({entries_[e].name, view});
  }
  DGX_TRY(merkle::StateDigests fresh, merkle::state_digests(views, threads));
  merkle::StateDigests out;
  std::vector<merkle::NamedDigest> named;
  std::size_t next = 0;
  for (Known& entry : entries_) {
    const Digest digest = entry.digest ? *entry.digest : fresh.tensors[next++];
    if (entry.is_constant) entry.digest = digest;
    out.tensors.push_back(digest);
    named.push_back({entry.name, digest});
  }
  if (views.size() == entries_.size()) return fresh;
  DGX_TRY(out.state, merkle::state_digest(named));
  return out;
}

}  // namespace dgx::exec
