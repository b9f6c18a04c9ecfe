#include "client/cli/lengths_file.h"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iostream>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/json_values.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

absl::Status Malformed(absl::string_view message) {
  return InvalidArgument(kBatchMalformed, message);
}

// Lengths row after row, and where rows begin.
struct RowLists {
  std::vector<int64_t> values;
  std::vector<int64_t> row_splits = {0};
};

absl::StatusOr<int64_t> ParseLength(const Json& value, absl::string_view name) {
  const std::optional<int64_t> length = ExactInteger(value);
  if (length.has_value() && !value.is_boolean()) return *length;
  return Malformed(absl::StrCat(name, " is ", value.dump(),
                                "; must be a whole number of tokens"));
}

absl::Status ParseRow(const Json& row, absl::string_view name,
                      RowLists& lists) {
  if (!row.is_array()) {
    return Malformed(
        absl::StrCat(name, " is ", row.dump(), "; must be a list"));
  }
  for (size_t i = 0; i < row.size(); ++i) {
    CF_ASSIGN_OR_RETURN(const int64_t length,
                        ParseLength(row[i], absl::StrCat(name, "[", i, "]")));
    lists.values.push_back(length);
  }
  lists.row_splits.push_back(static_cast<int64_t>(lists.values.size()));
  return absl::OkStatus();
}

absl::StatusOr<RowLists> ParseRows(const Json& value, absl::string_view name) {
  RowLists lists;
  if (!value.is_array() || value.empty() || !value.front().is_array()) {
    CF_RETURN_IF_ERROR(ParseRow(value, name, lists));
    return lists;
  }
  for (size_t row = 0; row < value.size(); ++row) {
    CF_RETURN_IF_ERROR(
        ParseRow(value[row], absl::StrCat(name, "[", row, "]"), lists));
  }
  return lists;
}

absl::StatusOr<RowLists> ParseLines(absl::string_view text) {
  RowLists lists;
  int64_t line_number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++line_number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty()) continue;
    int64_t length;
    if (!absl::SimpleAtoi(line, &length)) {
      return Malformed(absl::StrCat("line ", line_number, " is \"",
                                    line.substr(0, 40),
                                    "\"; must be a whole number of tokens"));
    }
    lists.values.push_back(length);
  }
  lists.row_splits.push_back(static_cast<int64_t>(lists.values.size()));
  return lists;
}

absl::StatusOr<PackedLengths> ToLengths(RowLists real, RowLists padded) {
  if (real.values.empty()) return Malformed("there are no lengths");
  if (real.row_splits != padded.row_splits) {
    return InvalidArgument(
        kLengthsInconsistent,
        absl::StrCat("seq_lens and seq_lens_padded have ", real.values.size(),
                     " and ", padded.values.size(),
                     " lengths; must have as many in each row"));
  }
  return PackedLengths{.real = std::move(real.values),
                       .padded = std::move(padded.values),
                       .row_splits = std::move(real.row_splits)};
}

absl::StatusOr<PackedLengths> ParseJson(absl::string_view text) {
  const Json document = Json::parse(text.begin(), text.end(), nullptr,
                                    /*allow_exceptions=*/false);
  if (document.is_discarded()) return Malformed("lengths are no valid JSON");
  if (document.is_array()) {
    CF_ASSIGN_OR_RETURN(RowLists rows, ParseRows(document, "lengths"));
    return ToLengths(rows, rows);
  }
  if (!document.contains("seq_lens")) {
    return Malformed("the object has no seq_lens; must be a list or have it");
  }
  CF_ASSIGN_OR_RETURN(RowLists real,
                      ParseRows(document["seq_lens"], "seq_lens"));
  const auto slots = document.find("seq_lens_padded");
  if (slots == document.end() || slots->is_null()) return ToLengths(real, real);
  CF_ASSIGN_OR_RETURN(RowLists padded, ParseRows(*slots, "seq_lens_padded"));
  return ToLengths(std::move(real), std::move(padded));
}

absl::StatusOr<std::string> ReadAll(const std::string& path) {
  std::ifstream file;
  if (path != "-") {
    file.open(path, std::ios::binary);
    if (!file) {
      return InvalidArgument(
          kBadOption, absl::StrCat("cannot be read: ", std::strerror(errno)));
    }
  }
  std::istream& in = path == "-" ? std::cin : file;
  std::string text;
  std::array<char, 1 << 16> block;
  do {
    in.read(block.data(), block.size());
    text.append(block.data(), static_cast<size_t>(in.gcount()));
  } while (in);
  if (in.bad()) return InvalidArgument(kBadOption, "cannot be read");
  return text;
}

}  // namespace

absl::StatusOr<PackedLengths> ParseLengths(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  if (!text.empty() && (text.front() == '[' || text.front() == '{')) {
    return ParseJson(text);
  }
  CF_ASSIGN_OR_RETURN(RowLists lines, ParseLines(text));
  return ToLengths(lines, lines);
}

absl::StatusOr<PackedLengths> ReadLengthsFile(const std::string& path) {
  const std::string name = path == "-" ? "standard input" : path;
  absl::StatusOr<std::string> text = ReadAll(path);
  if (!text.ok()) return Annotate(text.status(), name);
  absl::StatusOr<PackedLengths> lengths = ParseLengths(*text);
  if (!lengths.ok()) return Annotate(lengths.status(), name);
  return lengths;
}

}  // namespace cpfeed
