#include "core/batch/parity.h"

#include "absl/strings/str_cat.h"
#include "core/base/error.h"

namespace cpfeed {

absl::string_view ParityName(Parity parity) {
  switch (parity) {
    case Parity::kNative:
      return "native";
    case Parity::kAutomodel04:
      return "automodel_0_4";
    case Parity::kAutomodel07:
      return "automodel_0_7";
  }
  return "unknown";
}

absl::StatusOr<Parity> ParseParity(absl::string_view name) {
  for (const Parity parity :
       {Parity::kNative, Parity::kAutomodel04, Parity::kAutomodel07}) {
    if (name == ParityName(parity)) return parity;
  }
  return InvalidArgument(
      kBadOption,
      absl::StrCat("parity is \"", name,
                   "\"; must be native, automodel_0_4 or automodel_0_7"));
}

absl::Status PythonError(absl::string_view exception,
                         absl::string_view message) {
  return InvalidArgument(exception, message);
}

}  // namespace cpfeed
