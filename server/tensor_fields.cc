#include "server/tensor_fields.h"

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

absl::Status CheckField(const v1::TensorField& field,
                        const v1::TensorSpec& tensor) {
  if (field.placement() == v1::PLACEMENT_LOCAL) {
    return InvalidArgument(
        kSchemaMismatch,
        absl::StrCat("tensor \"", tensor.name(),
                     "\" is PLACEMENT_LOCAL in the session: ranks cut their "
                     "own; must not be in a batch"));
  }
  if (field.dtype() == v1::DTYPE_UNSPECIFIED ||
      field.dtype() == tensor.dtype()) {
    return absl::OkStatus();
  }
  return InvalidArgument(
      kSchemaMismatch,
      absl::StrCat("tensor \"", tensor.name(), "\" is ",
                   v1::DType_Name(tensor.dtype()), "; must be ",
                   v1::DType_Name(field.dtype()), " as the session says"));
}

}  // namespace

absl::Status CheckFieldsOfBatch(const v1::Session& session,
                                const v1::BatchHeader& batch) {
  for (const v1::TensorSpec& tensor : batch.tensors()) {
    for (const v1::TensorField& field : session.tensors()) {
      if (field.name() != tensor.name()) continue;
      CF_RETURN_IF_ERROR(CheckField(field, tensor));
    }
  }
  return absl::OkStatus();
}

}  // namespace cpfeed
