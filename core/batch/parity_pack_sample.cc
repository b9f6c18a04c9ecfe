#include "core/batch/parity_pack_sample.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/batch/parity.h"

namespace cpfeed {

const ParityField* ParitySample::Find(absl::string_view name) const {
  for (const ParityField& field : fields) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

absl::StatusOr<std::vector<int64_t>> ParitySample::List(
    absl::string_view name) const {
  const ParityField* field = Find(name);
  if (field == nullptr) {
    return PythonError("KeyError", absl::StrCat("sample has no ", name));
  }
  if (!field->is_list) {
    return PythonError("TypeError",
                       absl::StrCat(name, " is a number; must be a list"));
  }
  return field->values;
}

void ParitySample::Set(absl::string_view name, std::vector<int64_t> values) {
  for (ParityField& field : fields) {
    if (field.name != name) continue;
    field.values = std::move(values);
    field.is_list = true;
    return;
  }
  fields.push_back({std::string(name), std::move(values)});
}

}  // namespace cpfeed
