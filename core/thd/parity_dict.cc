#include "core/thd/parity_dict.h"

#include <algorithm>

namespace cpfeed {

const ParityValue* ParityDict::Find(absl::string_view name) const {
  for (const auto& [key, value] : entries_) {
    if (key == name) return &value;
  }
  return nullptr;
}

const Tensor* ParityDict::FindTensor(absl::string_view name) const {
  const ParityValue* const value = Find(name);
  return value == nullptr ? nullptr : std::get_if<Tensor>(value);
}

void ParityDict::Set(absl::string_view name, ParityValue value) {
  for (auto& [key, old] : entries_) {
    if (key != name) continue;
    old = std::move(value);
    return;
  }
  entries_.emplace_back(std::string(name), std::move(value));
}

void ParityDict::Erase(absl::string_view name) {
  entries_.erase(
      std::remove_if(entries_.begin(), entries_.end(),
                     [&](const auto& entry) { return entry.first == name; }),
      entries_.end());
}

}  // namespace cpfeed
