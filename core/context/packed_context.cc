#include "core/context/packed_context.h"

#include <utility>

#include "absl/status/statusor.h"
#include "core/context/sdpa.h"

namespace cpfeed {
namespace {

class PackedScope;
thread_local PackedScope* current = nullptr;

class PackedScope final : public Scope {
 public:
  explicit PackedScope(const AttentionGroup& group)
      : group_(group),
        sdpa_(EnterPackedSdpa(group)),
        outer_(std::exchange(current, this)) {}
  ~PackedScope() override { current = outer_; }

  // Made when the first layer asks: most models have none.
  std::shared_ptr<const PartGroup> part_group() {
    if (part_group_ == nullptr) {
      part_group_ = MakePartGroup(group_.plan, group_.communicator);
    }
    return part_group_;
  }

 private:
  const AttentionGroup group_;
  const std::unique_ptr<Scope> sdpa_;
  PackedScope* const outer_;
  std::shared_ptr<const PartGroup> part_group_;
};

}  // namespace

ScopeFactory PackedContext(AttentionGroup group) {
  return
      [group = std::move(group)]() -> absl::StatusOr<std::unique_ptr<Scope>> {
        return std::make_unique<PackedScope>(group);
      };
}

std::shared_ptr<const PartGroup> PackedPartGroup() {
  return current == nullptr ? nullptr : current->part_group();
}

}  // namespace cpfeed
