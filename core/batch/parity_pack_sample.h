// Samples and records as the Python data side knows them: dicts of lists.

#ifndef CPFEED_CORE_BATCH_PARITY_PACK_SAMPLE_H_
#define CPFEED_CORE_BATCH_PARITY_PACK_SAMPLE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cpfeed {

struct ParityField {
  std::string name;
  std::vector<int64_t> values;
  bool is_list = true;  // Otherwise values holds just one number.
};

struct ParitySample {
  std::vector<ParityField> fields;  // In the order of the dict's keys.
  // The meta key ___PAD_TOKEN_IDS___: what pads a field, by its name.
  std::optional<std::map<std::string, int64_t>> pad_token_ids;

  // Null where there is no such key.
  const ParityField* Find(absl::string_view name) const;

  // The list under `name`.
  //
  // Errors (reasons):
  //   KeyError   There is no such key.
  //   TypeError  It is a number.
  absl::StatusOr<std::vector<int64_t>> List(absl::string_view name) const;

  // Puts a list there, in place of what there is.
  void Set(absl::string_view name, std::vector<int64_t> values);
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_BATCH_PARITY_PACK_SAMPLE_H_
