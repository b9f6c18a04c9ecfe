#include "client/cli/text_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

constexpr char kGap[] = "  ";

}  // namespace

TextTable::TextTable(const std::vector<std::string>& headings)
    : num_columns_(headings.size()) {
  Row upper;
  Row lower;
  bool two_lines = false;
  for (const std::string& heading : headings) {
    const std::vector<std::string> lines = absl::StrSplit(heading, '\n');
    two_lines |= lines.size() > 1;
    upper.cells.push_back(lines.size() > 1 ? lines.front() : "");
    lower.cells.push_back(lines.back());
  }
  if (two_lines) rows_.push_back(std::move(upper));
  rows_.push_back(std::move(lower));
}

void TextTable::AddRow(std::vector<std::string> cells) {
  CF_CHECK(cells.size() == num_columns_);
  rows_.push_back({.cells = std::move(cells)});
}

void TextTable::AddNote(std::string cell, std::string text) {
  rows_.push_back({.cells = {std::move(cell)}, .note = std::move(text)});
}

std::string TextTable::ToString() const {
  std::vector<size_t> widths(num_columns_, 0);
  for (const Row& row : rows_) {
    for (size_t i = 0; i < row.cells.size(); ++i) {
      widths[i] = std::max(widths[i], row.cells[i].size());
    }
  }
  std::string text;
  for (const Row& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.cells.size(); ++i) {
      const std::string fill(widths[i] - row.cells[i].size(), ' ');
      if (i == 0) {
        absl::StrAppend(&line, row.cells[i], fill);
      } else {
        absl::StrAppend(&line, kGap, fill, row.cells[i]);
      }
    }
    if (!row.note.empty()) absl::StrAppend(&line, kGap, row.note);
    absl::StrAppend(&text, absl::StripTrailingAsciiWhitespace(line), "\n");
  }
  return text;
}

}  // namespace cpfeed
