// Input files of every format, whatever is in them. The first byte chooses the
// format; the rest is the file.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/documents/integer_array.h"
#include "client/documents/json_document.h"
#include "client/documents/megatron_index.h"
#include "client/documents/npy_header.h"
#include "core/base/status_macros.h"
#include "core/batch/document.h"

namespace cpfeed {
namespace {

// Whatever the header says must lie inside the file.
void FuzzNpy(absl::string_view contents) {
  const absl::StatusOr<NpyHeader> header = ParseNpyHeader(contents);
  if (!header.ok()) return;
  int64_t count = 1;
  for (const int64_t size : header->shape) count *= size;
  std::vector<int64_t> tokens;
  if (AppendTokens(contents, header->type, header->data_offset, count, tokens)
          .ok()) {
    CF_CHECK(static_cast<int64_t>(tokens.size()) == count);
  }
}

void FuzzMegatron(absl::string_view contents) {
  constexpr int64_t kBinSize = 64;
  const std::string bin(kBinSize, '\x01');
  const auto index = MegatronIndex::Parse(contents, kBinSize);
  if (!index.ok()) return;
  for (int64_t d = 0; d < index->num_documents(); ++d) {
    for (int64_t s = index->FirstSequence(d); s < index->FirstSequence(d + 1);
         ++s) {
      std::vector<int64_t> tokens;
      CF_CHECK(AppendTokens(bin, index->type(), index->SequenceOffset(s),
                            index->SequenceLength(s), tokens)
                   .ok());
    }
  }
}

void FuzzJson(absl::string_view line) {
  const absl::StatusOr<JsonDocument> parsed = ParseJsonDocument(line);
  if (!parsed.ok()) return;
  const Document& document = parsed->document;
  CF_CHECK(!document.labels ||
           document.labels->size() == document.input_ids.size());
  for (const int64_t id : document.input_ids) CF_CHECK(id >= 0);
}

}  // namespace
}  // namespace cpfeed

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view contents(reinterpret_cast<const char*>(data) + 1,
                                   size - 1);
  switch (data[0]) {
    case 'n':
      cpfeed::FuzzNpy(contents);
      break;
    case 'm':
      cpfeed::FuzzMegatron(contents);
      break;
    default:
      cpfeed::FuzzJson(contents);
  }
  return 0;
}
