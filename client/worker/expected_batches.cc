#include "client/worker/expected_batches.h"

#include <nlohmann/json.hpp>
#include <numeric>
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

// The lists of a batch that have a number for each token.
struct TokenRows {
  Rows ids;
  Rows positions;  // Empty where the batch has none.
  Rows labels;     // Likewise.
};

absl::StatusOr<TokenRows> ReadTokenRows(const json& batch) {
  TokenRows rows;
  CF_ASSIGN_OR_RETURN(rows.ids, ReadRows(batch, "input_ids"));
  for (auto& [name, list] :
       {std::pair<const char*, Rows*>("position_ids", &rows.positions),
        {"labels", &rows.labels}}) {
    if (!batch.contains(name)) continue;
    CF_ASSIGN_OR_RETURN(*list, ReadRows(batch, name));
    if (list->size() != rows.ids.size()) {
      return InvalidArgument(kBatchMalformed, "lists differ in rows");
    }
    for (size_t row = 0; row < list->size(); ++row) {
      if ((*list)[row].size() == rows.ids[row].size()) continue;
      return InvalidArgument(
          kBatchMalformed,
          absl::StrCat("row ", row, ": lists of a row differ in length"));
    }
  }
  return rows;
}

// Numbers [begin, begin + count) of a row.
std::vector<int64_t> Part(const std::vector<int64_t>& row, size_t begin,
                          int64_t count) {
  const auto first = row.begin() + static_cast<int64_t>(begin);
  return std::vector<int64_t>(first, first + count);
}

// Cuts one row into its sequences and appends them.
absl::Status CutRow(const TokenRows& rows, size_t row,
                    const std::vector<int64_t>& real,
                    const std::vector<int64_t>& padded,
                    std::vector<ExpectedSequence>& sequences) {
  if (real.size() != padded.size()) {
    return InvalidArgument(kBatchMalformed, "lists of a row differ in length");
  }
  const std::vector<int64_t>& ids = rows.ids[row];
  size_t begin = 0;
  for (size_t s = 0; s < real.size(); ++s) {
    if (padded[s] < real[s] || begin + padded[s] > ids.size()) {
      return InvalidArgument(
          kBatchMalformed,
          absl::StrCat("sequence ", s, " of ", real[s], " tokens in a slot of ",
                       padded[s], " does not fit its row of ", ids.size()));
    }
    ExpectedSequence& sequence = sequences.emplace_back();
    sequence.tokens = Part(ids, begin, real[s]);
    if (rows.positions.empty()) {
      sequence.positions.resize(real[s]);
      std::iota(sequence.positions.begin(), sequence.positions.end(), 0);
    } else {
      sequence.positions = Part(rows.positions[row], begin, real[s]);
    }
    if (!rows.labels.empty()) {
      sequence.labels = Part(rows.labels[row], begin, real[s]);
    }
    begin += padded[s];
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ExpectedSequence>> ReadBatch(const json& batch) {
  if (!batch.is_object()) {
    return InvalidArgument(kBatchMalformed, "the line must be an object");
  }
  CF_ASSIGN_OR_RETURN(const TokenRows rows, ReadTokenRows(batch));
  Rows real;
  if (batch.contains("seq_lens")) {
    CF_ASSIGN_OR_RETURN(real, ReadRows(batch, "seq_lens"));
  } else {
    for (const auto& row : rows.ids) {
      real.push_back({static_cast<int64_t>(row.size())});
    }
  }
  real = WithoutNegative(std::move(real));
  Rows padded = real;
  if (batch.contains("seq_lens_padded")) {
    CF_ASSIGN_OR_RETURN(padded, ReadRows(batch, "seq_lens_padded"));
    padded = WithoutNegative(std::move(padded));
  }
  if (real.size() != rows.ids.size() || padded.size() != rows.ids.size()) {
    return InvalidArgument(kBatchMalformed, "lists differ in rows");
  }
  std::vector<ExpectedSequence> sequences;
  for (size_t row = 0; row < rows.ids.size(); ++row) {
    const absl::Status status =
        CutRow(rows, row, real[row], padded[row], sequences);
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
