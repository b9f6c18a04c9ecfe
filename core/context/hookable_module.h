// LibTorch modules with hooks, which its C++ modules do not have.

#ifndef CPFEED_CORE_CONTEXT_HOOKABLE_MODULE_H_
#define CPFEED_CORE_CONTEXT_HOOKABLE_MODULE_H_

#include <ATen/core/Tensor.h>
#include <torch/csrc/api/include/torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace cpfeed {

// What a call passes beside its input: Python's keyword arguments.
struct CallArguments {
  // A tensor that is not there, a null, is not the same as no key.
  std::map<std::string, std::optional<at::Tensor>> tensors;
  std::optional<bool> is_causal;
};

// Takes a hook off its module, which must still exist, or has done so. Handles
// may be dropped: the hook stays then.
class HookHandle {
 public:
  explicit HookHandle(std::function<void()> remove)
      : remove_(std::move(remove)) {}
  void Remove() {
    if (remove_) std::exchange(remove_, nullptr)();
  }

 private:
  std::function<void()> remove_;
};

// A module whose calls run hooks. Calls may come from several threads where
// Forward and the hooks allow it; hooks are added and removed while nobody
// calls.
class HookableModule : public torch::nn::Module {
 public:
  // Sees the arguments before Forward, and may change them.
  using PreForward = std::function<void(HookableModule&, CallArguments&)>;
  // Runs after Forward, also where that threw.
  using PostForward = std::function<void(HookableModule&)>;

  // Runs the pre-forward hooks, last added first, Forward, and the post-forward
  // hooks in the reverse order of their counterparts. A hook that throws is
  // followed by the post-forward hooks of those that ran before it.
  at::Tensor operator()(const at::Tensor& input, CallArguments arguments = {});

  // A pair, so that what one sets the other takes back. A `name` is the
  // hook's: adding another of the same name changes nothing.
  HookHandle AddHook(const std::string& name, PreForward before,
                     PostForward after = nullptr);
  bool HasHook(absl::string_view name) const;

  // "linear_attention" or "full_attention" in a decoder layer; empty elsewhere.
  virtual std::string layer_type() const { return ""; }

 protected:
  virtual at::Tensor Forward(const at::Tensor& input,
                             const CallArguments& arguments) = 0;

 private:
  struct Hook {
    std::string name;
    PreForward before;
    PostForward after;
  };

  std::vector<std::shared_ptr<const Hook>> hooks_;  // Last added first.
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_CONTEXT_HOOKABLE_MODULE_H_
