#include "client/worker/expected_batches.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

using ::nlohmann::json;
using Rows = std::vector<std::vector<int64_t>>;

absl::StatusOr<Rows> ReadRows(const json& batch, const std::string& name) {
  Rows rows;
  const auto malformed = [&](absl::string_view rule) {
    return InvalidArgument(kBatchMalformed,
                           absl::StrCat(name, " must be ", rule));
  };
  const auto list = batch.find(name);
  if (list == batch.end() || !list->is_array()) {
    return malformed("a list of rows");
  }
  for (const json& row : *list) {
    if (!row.is_array()) return malformed("a list of rows");
    rows.emplace_back();
    for (const json& value : row) {
      if (!value.is_number_integer()) return malformed("lists of integers");
      rows.back().push_back(value.get<int64_t>());
    }
  }
  return rows;
}

// `rows` without fillers.
Rows WithoutNegative(Rows rows) {
  for (auto& row : rows) {
    std::erase_if(row, [](int64_t length) { return length < 0; });
  }
  return rows;
}

// Cuts one row into its sequences and appends them.
absl::Status CutRow(const std::vector<int64_t>& ids,
                    const std::vector<int64_t>* positions,
                    const std::vector<int64_t>& real,
                    const std::vector<int64_t>& padded,
                    std::vector<ExpectedSequence>& sequences) {
  if (real.size() != padded.size() ||
      (positions != nullptr && positions->size() != ids.size())) {
    return InvalidArgument(kBatchMalformed, "lists of a row differ in length");
  }
  size_t begin = 0;
  for (size_t s = 0; s < real.size(); ++s) {
    if (padded[s] < real[s] || begin + padded[s] > ids.size()) {
      return InvalidArgument(
          kBatchMalformed,
          absl::StrCat("sequence ", s, " of ", real[s], " tokens in a slot of ",
                       padded[s], " does not fit its row of ", ids.size()));
    }
    ExpectedSequence sequence;
    for (int64_t p = 0; p < real[s]; ++p) {
      sequence.tokens.push_back(ids[begin + p]);
      sequence.positions.push_back(positions ? (*positions)[begin + p] : p);
    }
    sequences.push_back(std::move(sequence));
    begin += padded[s];
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ExpectedSequence>> ReadBatch(const json& batch) {
  if (!batch.is_object()) {
    return InvalidArgument(kBatchMalformed, "the line must be an object");
  }
  CF_ASSIGN_OR_RETURN(const Rows ids, ReadRows(batch, "input_ids"));
  Rows real, positions;
  if (batch.contains("seq_lens")) {
    CF_ASSIGN_OR_RETURN(real, ReadRows(batch, "seq_lens"));
  } else {
    for (const auto& row : ids) {
      real.push_back({static_cast<int64_t>(row.size())});
    }
  }
  real = WithoutNegative(std::move(real));
  Rows padded = real;
  if (batch.contains("seq_lens_padded")) {
    CF_ASSIGN_OR_RETURN(padded, ReadRows(batch, "seq_lens_padded"));
    padded = WithoutNegative(std::move(padded));
  }
  const bool has_positions = batch.contains("position_ids");
  if (has_positions) {
    CF_ASSIGN_OR_RETURN(positions, ReadRows(batch, "position_ids"));
  }
  if (real.size() != ids.size() || padded.size() != ids.size() ||
      (has_positions && positions.size() != ids.size())) {
    return InvalidArgument(kBatchMalformed, "lists differ in rows");
  }
  std::vector<ExpectedSequence> sequences;
  for (size_t row = 0; row < ids.size(); ++row) {
    const absl::Status status =
        CutRow(ids[row], has_positions ? &positions[row] : nullptr, real[row],
               padded[row], sequences);
    if (!status.ok()) return Annotate(status, absl::StrCat("row ", row));
  }
  return sequences;
}

}  // namespace

ExpectedBatches::ExpectedBatches(std::string path, std::ifstream file)
    : path_(std::move(path)), file_(std::move(file)) {}

absl::StatusOr<ExpectedBatches> ExpectedBatches::Open(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat(path, " cannot be read"));
  return ExpectedBatches(path, std::move(file));
}

absl::StatusOr<std::optional<std::vector<ExpectedSequence>>>
ExpectedBatches::Read(int64_t step) {
  CF_CHECK(step >= next_line_);
  std::string line;
  do {
    if (!std::getline(file_, line)) return std::nullopt;
  } while (next_line_++ < step);
  auto batch =
      ReadBatch(json::parse(line, nullptr, /*allow_exceptions=*/false));
  if (!batch.ok()) {
    return Annotate(batch.status(), absl::StrCat(path_, ":", next_line_));
  }
  return *std::move(batch);
}

}  // namespace cpfeed
