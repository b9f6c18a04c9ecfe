#include "client/documents/npy_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "client/documents/npy_header.h"
#include "core/base/error.h"
#include "tests/client/documents/input_files.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::Bytes;
using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::IsOkAndHolds;
using ::cpfeed::testing::MakeFolder;
using ::cpfeed::testing::Npy;
using ::cpfeed::testing::ReadAll;
using ::cpfeed::testing::StatusIs;
using ::cpfeed::testing::WriteFile;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Dict(const std::string& descr, const std::string& shape) {
  return "{'descr': '" + descr +
         "', 'fortran_order': False, 'shape': " + shape + ", }";
}

TEST(NpyHeaderTest, ReadsWhatNumPyWrites) {
  for (const auto& [file, type, shape] :
       std::vector<std::tuple<std::string, IntegerType, std::vector<int64_t>>>{
           {"tests/testdata/tokens_uint16_stream.npy",
            IntegerType::kUint16,
            {9}},
           {"tests/testdata/tokens_int64_rows.npy",
            IntegerType::kInt64,
            {2, 3}}}) {
    std::ifstream stream(file, std::ios::binary);
    const std::string contents((std::istreambuf_iterator<char>(stream)), {});
    const auto header = ParseNpyHeader(contents);
    ASSERT_THAT(header, IsOk());
    EXPECT_EQ(header->type, type);
    EXPECT_EQ(header->shape, shape);
  }
}

TEST(NpyHeaderTest, ReadsOtherSpellingsAndVersions) {
  const std::string dict =
      "{\"shape\":(2,),\"descr\":\"|u1\",\"fortran_order\":True}";
  EXPECT_THAT(ParseNpyHeader(Npy(dict, "ab")), IsOk());
  for (const char version : {'\x02', '\x03'}) {
    const std::string file =
        std::string("\x93NUMPY") + version + std::string("\0", 1) +
        Bytes<uint32_t>({static_cast<uint32_t>(dict.size())}) + dict + "ab";
    const auto header = ParseNpyHeader(file);
    ASSERT_THAT(header, IsOk());
    EXPECT_EQ(header->data_offset, 12 + dict.size());
  }
}

struct BadFile {
  std::string name, contents, message;
};

class NpyHeaderErrorTest : public ::testing::TestWithParam<BadFile> {};

TEST_P(NpyHeaderErrorTest, SaysWhatIsWrong) {
  EXPECT_THAT(ParseNpyHeader(GetParam().contents),
              AllOf(HasReason(kInputMalformed),
                    StatusIs(absl::StatusCode::kInvalidArgument,
                             HasSubstr(GetParam().message))));
}

INSTANTIATE_TEST_SUITE_P(
    All, NpyHeaderErrorTest,
    ::testing::ValuesIn(std::vector<BadFile>{
        {"Empty", "", "does not begin as an .npy file"},
        {"OtherFile", "PK\x03\x04", "does not begin as an .npy file"},
        {"Version9", std::string("\x93NUMPY\x09\x00", 8), "version 9"},
        {"NoLength", std::string("\x93NUMPY\x01\x00\x10", 9),
         "ends inside its header"},
        {"CutHeader", std::string("\x93NUMPY\x01\x00\x10\x00{}", 12),
         "header has 16 bytes; file has only 2 more"},
        {"NoDict", Npy("hello", ""), "header has \"hello"},
        {"Missing", Npy("{'descr': '<i4', }", ""), "lacks descr"},
        {"Unknown", Npy("{'color': 'red'}", ""), "header has \"color\""},
        {"Twice", Npy("{'descr': '<i4', 'descr': '<i4'}", ""),
         "header has \"descr\"; must have"},
        {"Open", Npy("{'descr: ", ""), "must have a string"},
        {"Trailing", Npy(Dict("<i4", "(0,)") + "x", ""),
         "must have nothing more"},
        {"Float", Npy(Dict("<f4", "(1,)"), "abcd"),
         "type \"<f4\"; must be little-endian integers"},
        {"BigEndian", Npy(Dict(">i4", "(1,)"), "abcd"), "type \">i4\""},
        {"Scalar", Npy(Dict("<i4", "()"), "abcd"),
         "0 dimensions; must have 1 or 2"},
        {"Cube", Npy(Dict("<i4", "(1, 1, 1)"), "abcd"), "3 dimensions"},
        {"NegativeSize", Npy(Dict("<i4", "(-1,)"), "abcd"), "a size below"},
        {"HugeSize", Npy(Dict("<i4", "(99999999999999999999,)"), "abcd"),
         "a size below 2^63"},
        {"Overflow", Npy(Dict("<i8", "(4611686018427387904, 4)"), ""),
         "needs over 2^63 bytes; file has 0"},
        {"EmptyRows", Npy(Dict("<i4", "(4611686018427387904, 0)"), ""),
         "shape (4611686018427387904, 0) has rows without tokens"},
        {"CutOff", Npy(Dict("<i4", "(2,)"), "abcd"),
         "shape (2) needs 8 bytes; file has 4"},
        {"TooLong", Npy(Dict("<i4", "(1,)"), "abcde"),
         "shape (1) needs 4 bytes; file has 5"},
        {"Fortran",
         Npy("{'descr': '<i4', 'fortran_order': True, 'shape': (1, 1)}",
             "abcd"),
         "in Fortran order"},
    }),
    [](const auto& info) { return info.param.name; });

TEST(NpyStoreTest, ARowIsADocument) {
  const auto store = NpyStore::Open(
      WriteFile(MakeFolder(), "x.npy",
                Npy(Dict("<i4", "(2, 3)"), Bytes<int32_t>({1, 2, 3, 4, 5, 6}))),
      3);
  ASSERT_THAT(store, IsOk());
  EXPECT_THAT(
      ReadAll(**store),
      IsOkAndHolds(ElementsAre(ElementsAre(1, 2, 3), ElementsAre(4, 5, 6))));
  EXPECT_THAT((*store)->Count(), IsOkAndHolds(2));
}

TEST(NpyStoreTest, AStreamEndsDocumentsBehindTheEndToken) {
  const std::string path = WriteFile(
      MakeFolder(), "x.npy",
      Npy(Dict("<u2", "(7,)"), Bytes<uint16_t>({5, 9, 9, 6, 7, 9, 65535})));
  const auto store = NpyStore::Open(path, 9);
  ASSERT_THAT(store, IsOk());
  EXPECT_THAT(ReadAll(**store), IsOkAndHolds(ElementsAre(
                                    ElementsAre(5, 9), ElementsAre(9),
                                    ElementsAre(6, 7, 9), ElementsAre(65535))));
  EXPECT_EQ((*store)->Name(3), path + " document 3");
  const auto whole = NpyStore::Open(path, std::nullopt);
  ASSERT_THAT(whole, IsOk());
  EXPECT_THAT((*whole)->Count(), IsOkAndHolds(1));
  EXPECT_THAT((*whole)->Length(0), IsOkAndHolds(7));
  const auto piece = (*whole)->Read(0, 2, 4);
  ASSERT_THAT(piece, IsOk());
  EXPECT_THAT(piece->input_ids, ElementsAre(9, 6));
  EXPECT_EQ(piece->next_token, 7);
}

TEST(NpyStoreTest, FindsDocumentsAcrossTheScannedParts) {
  std::vector<uint8_t> tokens(50000, 1);
  for (const int64_t end : {20000, 32767, 32768, 49999}) tokens[end] = 2;
  const auto store =
      NpyStore::Open(WriteFile(MakeFolder(), "x.npy",
                               Npy(Dict("|u1", "(50000,)"), Bytes(tokens))),
                     2);
  ASSERT_THAT(store, IsOk());
  std::vector<int64_t> lengths;
  for (int64_t i = 0; *(*store)->Has(i); ++i) {
    lengths.push_back(*(*store)->Length(i));
  }
  EXPECT_THAT(lengths, ElementsAre(20001, 12767, 1, 17231));
}

TEST(NpyStoreTest, EmptyStreamHasNoDocuments) {
  const auto store = NpyStore::Open(
      WriteFile(MakeFolder(), "x.npy", Npy(Dict("<i8", "(0,)"), "")),
      std::nullopt);
  ASSERT_THAT(store, IsOk());
  EXPECT_THAT(ReadAll(**store), IsOkAndHolds(IsEmpty()));
}

TEST(NpyStoreTest, RefusesNegativeTokens) {
  const auto store = NpyStore::Open(
      WriteFile(MakeFolder(), "x.npy",
                Npy(Dict("<i8", "(1, 2)"), Bytes<int64_t>({5, -100}))),
      std::nullopt);
  ASSERT_THAT(store, IsOk());
  EXPECT_THAT(ReadAll(**store),
              AllOf(HasReason(kInputMalformed),
                    StatusIs(absl::StatusCode::kInvalidArgument,
                             HasSubstr("x.npy from token 0: token 1 is -100; "
                                       "must be in [0, 2^63)"))));
}

}  // namespace
}  // namespace cpfeed
