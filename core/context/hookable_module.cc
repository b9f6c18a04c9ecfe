#include "core/context/hookable_module.h"

#include <algorithm>

namespace cpfeed {
namespace {

// Runs what was added, last first, when it goes out of scope.
class Unwinder {
 public:
  ~Unwinder() {
    while (!actions_.empty()) {
      const std::function<void()> action = std::move(actions_.back());
      actions_.pop_back();
      action();
    }
  }
  void Add(std::function<void()> action) {
    actions_.push_back(std::move(action));
  }

 private:
  std::vector<std::function<void()>> actions_;
};

}  // namespace

at::Tensor HookableModule::operator()(const at::Tensor& input,
                                      CallArguments arguments) {
  // A hook may take itself off.
  const std::vector<std::shared_ptr<const Hook>> hooks = hooks_;
  Unwinder unwinder;
  for (const auto& hook : hooks) {
    if (hook->before) hook->before(*this, arguments);
    if (hook->after) unwinder.Add([this, hook] { hook->after(*this); });
  }
  return Forward(input, arguments);
}

HookHandle HookableModule::AddHook(const std::string& name, PreForward before,
                                   PostForward after) {
  if (!HasHook(name)) {
    hooks_.insert(hooks_.begin(),
                  std::make_shared<const Hook>(
                      Hook{name, std::move(before), std::move(after)}));
  }
  return HookHandle([this, name] {
    std::erase_if(hooks_, [&](const auto& hook) { return hook->name == name; });
  });
}

bool HookableModule::HasHook(absl::string_view name) const {
  return std::any_of(hooks_.begin(), hooks_.end(),
                     [&](const auto& hook) { return hook->name == name; });
}

}  // namespace cpfeed
