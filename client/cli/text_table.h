// Aligned columns for people.

#ifndef CPFEED_CLIENT_CLI_TEXT_TABLE_H_
#define CPFEED_CLIENT_CLI_TEXT_TABLE_H_

#include <cstddef>
#include <string>
#include <vector>

namespace cpfeed {

// The first column is aligned left, the others right.
class TextTable {
 public:
  // The headings; a line break in a heading makes a second heading line.
  explicit TextTable(const std::vector<std::string>& headings);

  // As many cells as there are headings.
  void AddRow(std::vector<std::string> cells);

  // A first cell, then text over all further columns.
  void AddNote(std::string cell, std::string text);

  // Lines, each with its end; no spaces before it.
  std::string ToString() const;

 private:
  struct Row {
    std::vector<std::string> cells;
    std::string note;  // Behind a single cell.
  };

  std::vector<Row> rows_;  // The headings first.
  std::size_t num_columns_;
};

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_CLI_TEXT_TABLE_H_
