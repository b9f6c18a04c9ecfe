#include "client/cli/text_table.h"

#include <gtest/gtest.h>

namespace cpfeed {
namespace {

TEST(TextTableTest, AlignsTheFirstColumnLeftAndTheOthersRight) {
  TextTable table({"name", "rows\nmax", "ms"});
  table.AddRow({"a", "12345", "1"});
  table.AddRow({"longer name", "6", "10.5"});
  EXPECT_EQ(table.ToString(),
            "              rows\n"
            "name           max    ms\n"
            "a            12345     1\n"
            "longer name      6  10.5\n");
}

TEST(TextTableTest, NotesRunOverTheColumns) {
  TextTable table({"name", "n"});
  table.AddRow({"ab", "1"});
  table.AddNote("c", "refused: because of reasons");
  EXPECT_EQ(table.ToString(),
            "name  n\n"
            "ab    1\n"
            "c     refused: because of reasons\n");
}

}  // namespace
}  // namespace cpfeed
