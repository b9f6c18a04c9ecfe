#include "server/batch_digest.h"

#include "absl/strings/str_cat.h"
#include "core/base/digest.h"
#include "core/base/error.h"

namespace cpfeed {

absl::StatusOr<uint64_t> BatchDigest(const v1::BatchHeader& header) {
  DigestBuilder digest;
  digest.UpdateInt64({header.data_epoch(), header.tensors_size()});
  for (const v1::TensorSpec& spec : header.tensors()) {
    if (spec.checksum() == 0) {
      return InvalidArgument(
          kBatchMalformed,
          absl::StrCat("tensor ", spec.name(), " has no checksum"));
    }
    digest.UpdateInt64({static_cast<int64_t>(spec.name().size()), spec.dtype(),
                        spec.shape_size(), spec.sequence_axis(),
                        static_cast<int64_t>(spec.checksum())});
    digest.Update(spec.name().data(), static_cast<int64_t>(spec.name().size()));
    digest.UpdateInt64(
        {spec.shape().data(), static_cast<size_t>(spec.shape_size())});
  }
  return digest.Finish();
}

}  // namespace cpfeed
