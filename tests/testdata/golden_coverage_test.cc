// Fails where a case of a file in tests/testdata is not run by a test.
//
// Runs the tests that its arguments name and reads their reports: a case counts
// where a parameterised test that is named by the case's id ran to its end.
// Each of them passes or fails by itself; here it only has to have been run.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace cpfeed {
namespace {

using ::nlohmann::json;

std::vector<std::string>& TestPrograms() {
  static auto* const programs = new std::vector<std::string>();
  return *programs;
}

json ReadJson(const std::string& path) {
  std::ifstream file(path);
  return json::parse(file);
}

// The ids of each file of cases, by file name.
std::map<std::string, std::set<std::string>> IdsOfFiles() {
  std::map<std::string, std::set<std::string>> ids;
  for (const auto& entry :
       std::filesystem::directory_iterator("tests/testdata")) {
    if (entry.path().extension() != ".json") continue;
    const json document = ReadJson(entry.path());
    const json& cases = document.is_array() ? document : document.at("cases");
    for (const json& one : cases) {
      const bool is_new =
          ids[entry.path().filename()].insert(one.at("id")).second;
      EXPECT_TRUE(is_new) << entry.path() << " has twice " << one.at("id");
    }
  }
  return ids;
}

// The last part of the name of every test that `program` runs to its end.
std::set<std::string> CompletedBy(const std::string& program, int number) {
  const std::string report = std::string(std::getenv("TEST_TMPDIR")) +
                             "/report" + std::to_string(number) + ".json";
  // Without what Bazel tells this test about its own filter and shards.
  const std::string command =
      "env -u TESTBRIDGE_TEST_ONLY -u TEST_TOTAL_SHARDS -u TEST_SHARD_INDEX "
      "-u TEST_SHARD_STATUS_FILE -u XML_OUTPUT_FILE " +
      program + " --gtest_brief=1 --gtest_output=json:" + report;
  EXPECT_NE(std::system(command.c_str()), -1);
  std::set<std::string> completed;
  const json results = ReadJson(report);
  for (const json& suite : results.at("testsuites")) {
    for (const json& test : suite.at("testsuite")) {
      if (test.at("status") != "RUN" || test.at("result") != "COMPLETED") {
        continue;
      }
      const std::string name = test.at("name");
      completed.insert(name.substr(name.rfind('/') + 1));
    }
  }
  return completed;
}

TEST(GoldenCoverageTest, EveryCaseIsRun) {
  std::set<std::string> completed;
  for (size_t i = 0; i < TestPrograms().size(); ++i) {
    completed.merge(CompletedBy(TestPrograms()[i], static_cast<int>(i)));
  }
  const auto ids_of_files = IdsOfFiles();
  ASSERT_FALSE(ids_of_files.empty());
  for (const auto& [file, ids] : ids_of_files) {
    for (const std::string& id : ids) {
      EXPECT_TRUE(completed.count(id) > 0) << id << " of " << file;
    }
  }
}

}  // namespace
}  // namespace cpfeed

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  cpfeed::TestPrograms().assign(argv + 1, argv + argc);
  return RUN_ALL_TESTS();
}
