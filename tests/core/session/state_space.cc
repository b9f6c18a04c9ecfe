#include "tests/core/session/state_space.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/digest.h"
#include "tests/core/session/small_world.h"

namespace cpfeed::testing {
namespace {

constexpr int kWalks = 40;
constexpr int kMostDepth = 60;
constexpr int kMostFaults = 2;
constexpr int kCompleteOneIn = 16;

class Search {
 public:
  Search(Retention retention, int64_t most_states)
      : retention_(retention), most_states_(most_states) {}

  Exploration Run() {
    for (int walk = 0; walk < kWalks && !Ended(); ++walk) {
      // Longer and longer, so that all depths have their share.
      SmallWorld world(retention_);
      path_.clear();
      for (int step = 0; step < walk && !Ended(); ++step) Step(world);
      world.AllowFaults(kMostFaults);
      share_ = most_states_ * (walk + 1) / kWalks;
      Visit(world);
    }
    return std::move(found_);
  }

 private:
  bool Ended() const { return !found_.problem.empty(); }

  std::vector<int> ShuffledEvents() {
    std::vector<int> events(SmallWorld::kEvents);
    std::iota(events.begin(), events.end(), 0);
    std::shuffle(events.begin(), events.end(), random_);
    return events;
  }

  void Step(SmallWorld& world) {
    for (const int event : ShuffledEvents()) {
      if (!world.Apply(event)) continue;
      path_.push_back(event);
      Report(world);
      return;
    }
  }

  void Report(const SmallWorld& world) {
    if (world.problem().empty() || Ended()) return;
    found_.problem = absl::StrCat(
        world.problem(), "; after ",
        absl::StrJoin(path_, ", ", [](std::string* out, int event) {
          absl::StrAppend(out, SmallWorld::NameOf(event));
        }));
  }

  void Visit(const SmallWorld& world) {
    if (Ended() || found_.states >= share_) return;
    const std::string key = world.Key();
    const uint64_t digest =
        Digest(key.data(), static_cast<int64_t>(key.size()));
    if (!seen_.insert(digest).second) return;
    ++found_.states;
    Examine(world);
    if (path_.size() >= kMostDepth) return;
    for (const int event : ShuffledEvents()) {
      SmallWorld next = world;
      ++found_.transitions;
      if (!next.Apply(event)) {
        Report(next);
        continue;
      }
      path_.push_back(event);
      Report(next);
      Visit(next);
      path_.pop_back();
      if (Ended() || found_.states >= share_) return;
    }
  }

  void Examine(const SmallWorld& world) {
    SmallWorld probed = world;
    probed.Probe();
    Report(probed);
    if (found_.states % kCompleteOneIn != 0) return;
    SmallWorld completed = world;
    completed.Complete();
    ++found_.completions;
    Report(completed);
  }

  const Retention retention_;
  const int64_t most_states_;
  int64_t share_ = 0;
  std::mt19937_64 random_{2026};
  std::unordered_set<uint64_t> seen_;
  std::vector<int> path_;
  Exploration found_;
};

}  // namespace

Exploration Explore(Retention retention, int64_t most_states) {
  return Search(retention, most_states).Run();
}

}  // namespace cpfeed::testing
