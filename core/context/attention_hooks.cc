#include "core/context/attention_hooks.h"

#include <utility>

#include "absl/strings/match.h"
#include "core/context/scope.h"

namespace cpfeed {
namespace {

struct NamedModule {
  std::string name;  // Dotted; empty for the model itself.
  HookableModule* module = nullptr;
};

// The modules that have hooks. The model owns them, and is not asked for as a
// shared_ptr, which it need not be.
std::vector<NamedModule> ModulesOf(HookableModule& model) {
  std::vector<NamedModule> modules = {{"", &model}};
  for (const auto& item : model.named_modules("", /*include_self=*/false)) {
    auto* const module = dynamic_cast<HookableModule*>(item.value().get());
    if (module != nullptr) modules.push_back({item.key(), module});
  }
  return modules;
}

std::vector<HookableModule*> SelfAttentionModules(HookableModule& model) {
  std::vector<HookableModule*> modules;
  for (const NamedModule& named : ModulesOf(model)) {
    if (absl::EndsWith(named.name, "self_attn")) {
      modules.push_back(named.module);
    }
  }
  return modules;
}

// Scopes of calls under way on this thread; a module may call itself again.
std::vector<std::unique_ptr<Scope>>& OpenScopes() {
  thread_local std::vector<std::unique_ptr<Scope>> scopes;
  return scopes;
}

void DropMask(HookableModule&, CallArguments& arguments) {
  if (arguments.tensors.erase("attention_mask") > 0) {
    arguments.is_causal = true;
  }
}

}  // namespace

std::vector<HookHandle> AttachContextParallelHooks(HookableModule& model) {
  std::vector<HookHandle> handles;
  for (HookableModule* module : SelfAttentionModules(model)) {
    handles.push_back(module->AddHook("context_parallel", DropMask));
  }
  return handles;
}

std::vector<HookHandle> AttachCpSdpaHooks(HookableModule& model,
                                          std::shared_ptr<Communicator> group,
                                          RotateMethod method) {
  std::vector<HookHandle> handles;
  for (HookableModule* module : SelfAttentionModules(model)) {
    handles.push_back(module->AddHook(
        "cp_sdpa",
        [group, method](HookableModule&, CallArguments&) {
          OpenScopes().push_back(InCpSdpa() ? std::make_unique<Scope>()
                                            : EnterCpSdpa(group, method));
        },
        [](HookableModule&) { OpenScopes().pop_back(); }));
  }
  return handles;
}

std::vector<HookHandle> AttachLinearAttnPositionHooks(HookableModule& model) {
  std::vector<HookHandle> handles;
  for (const NamedModule& named : ModulesOf(model)) {
    HookableModule* const layer = named.module;
    if (layer->layer_type().empty()) continue;
    const auto children = layer->named_children();
    const auto* const child = children.find("linear_attn");
    if (child == nullptr) continue;
    const auto linear =
        std::dynamic_pointer_cast<LinearAttentionModule>(*child);
    if (linear == nullptr) continue;
    // The layer owns its child, and so this hook.
    LinearAttentionModule* const attention = linear.get();
    handles.push_back(layer->AddHook(
        "linear_attn_positions",
        [attention](HookableModule&, CallArguments& arguments) {
          const auto found = arguments.tensors.find("position_ids");
          attention->set_positions(
              found == arguments.tensors.end() ? std::nullopt : found->second);
        }));
  }
  return handles;
}

}  // namespace cpfeed
