// Input files for tests, in a folder of the test's own.

#ifndef CPFEED_TESTS_CLIENT_DOCUMENTS_INPUT_FILES_H_
#define CPFEED_TESTS_CLIENT_DOCUMENTS_INPUT_FILES_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "client/documents/document_store.h"

namespace cpfeed::testing {

// A new empty folder, named after the test.
inline std::string MakeFolder() {
  const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
  std::string name = std::string(info->test_suite_name()) + "." + info->name();
  for (char& c : name) {
    if (c == '/') c = '_';
  }
  const auto folder = std::filesystem::path(::testing::TempDir()) / name;
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder.string();
}

// Writes folder/name, with the folders on the way, and returns its path.
inline std::string WriteFile(const std::string& folder, const std::string& name,
                             const std::string& contents) {
  const auto path = std::filesystem::path(folder) / name;
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << contents;
  return path.string();
}

// Little-endian bytes of the integers, one after the other.
template <class T>
std::string Bytes(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()),
                     values.size() * sizeof(T));
}

// An .npy file of format version 1 with this dict.
inline std::string Npy(const std::string& dict, const std::string& data) {
  std::string header = dict;
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  const auto length = static_cast<uint16_t>(header.size());
  return std::string("\x93NUMPY\x01\x00", 8) + Bytes<uint16_t>({length}) +
         header + data;
}

// The .idx file of a Megatron dataset.
inline std::string MegatronIdx(uint8_t type_code,
                               const std::vector<int32_t>& lengths,
                               const std::vector<int64_t>& offsets,
                               const std::vector<int64_t>& first_sequences) {
  return std::string("MMIDIDX\0\0", 9) + Bytes<uint64_t>({1}) +
         Bytes<uint8_t>({type_code}) + Bytes<uint64_t>({lengths.size()}) +
         Bytes<uint64_t>({first_sequences.size()}) + Bytes(lengths) +
         Bytes(offsets) + Bytes(first_sequences);
}

// All documents of a store, whole.
inline absl::StatusOr<std::vector<std::vector<int64_t>>> ReadAll(
    DocumentStore& store) {
  std::vector<std::vector<int64_t>> documents;
  for (int64_t i = 0;; ++i) {
    const absl::StatusOr<bool> has = store.Has(i);
    if (!has.ok()) return has.status();
    if (!*has) return documents;
    const absl::StatusOr<int64_t> length = store.Length(i);
    if (!length.ok()) return length.status();
    const absl::StatusOr<Document> document = store.Read(i, 0, *length);
    if (!document.ok()) return document.status();
    EXPECT_FALSE(document->next_token.has_value());
    documents.push_back(document->input_ids);
  }
}

}  // namespace cpfeed::testing

#endif  // CPFEED_TESTS_CLIENT_DOCUMENTS_INPUT_FILES_H_
