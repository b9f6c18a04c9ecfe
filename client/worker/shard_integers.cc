#include "client/worker/shard_integers.h"

#include "absl/strings/str_cat.h"
#include "core/base/error.h"

namespace cpfeed {

absl::StatusOr<std::vector<int64_t>> ShardIntegers(const Shard& shard,
                                                   absl::string_view name) {
  for (const NamedTensor& named : shard.tensors) {
    if (named.name != name) continue;
    auto values = named.tensor.ToInt64();
    if (!values.ok()) return Annotate(values.status(), name);
    if (static_cast<int64_t>(values->size()) < shard.num_tokens) {
      return InvalidArgument(
          kShapeMismatch,
          absl::StrCat(name, " has ", values->size(), " elements; must have ",
                       shard.num_tokens));
    }
    values->resize(shard.num_tokens);
    return values;
  }
  return InvalidArgument(kSchemaMismatch,
                         absl::StrCat("the shard has no ", name));
}

}  // namespace cpfeed
