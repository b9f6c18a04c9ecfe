#include "core/context/train_context.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/context/sdpa.h"

namespace cpfeed {
namespace {

thread_local bool loss_parallel = false;

class LossParallelScope final : public Scope {
 public:
  LossParallelScope() : outer_(std::exchange(loss_parallel, true)) {}
  ~LossParallelScope() override { loss_parallel = outer_; }

 private:
  const bool outer_;
};

// Leaves its scopes in the reverse order of entering; a vector would not.
class NestedScopes final : public Scope {
 public:
  ~NestedScopes() override {
    while (!scopes_.empty()) scopes_.pop_back();
  }
  void Add(std::unique_ptr<Scope> scope) {
    scopes_.push_back(std::move(scope));
  }

 private:
  std::vector<std::unique_ptr<Scope>> scopes_;
};

}  // namespace

absl::StatusOr<ScopeFactory> TrainContext(
    bool enable_loss_parallel, bool enable_compiled_autograd,
    std::optional<ScopeFactory> cp_context) {
  if (enable_compiled_autograd) {
    return MakeError(absl::StatusCode::kUnimplemented, kNotSupported,
                     "compiled autograd is Python's; C++ modules run as they "
                     "are");
  }
  return EnterOnce([enable_loss_parallel, cp_context = std::move(cp_context)]()
                       -> absl::StatusOr<std::unique_ptr<Scope>> {
    auto scopes = std::make_unique<NestedScopes>();
    if (enable_loss_parallel) {
      scopes->Add(std::make_unique<LossParallelScope>());
    }
    if (cp_context) {
      scopes->Add(EnterTilingKernels());
      CF_ASSIGN_OR_RETURN(std::unique_ptr<Scope> inner, (*cp_context)());
      scopes->Add(std::move(inner));
    }
    return scopes;
  });
}

bool InLossParallel() { return loss_parallel; }

}  // namespace cpfeed
