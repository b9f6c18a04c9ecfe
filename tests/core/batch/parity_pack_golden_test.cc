// Every case of tests/testdata/automodel_pack.json in both parity modes, and
// native packing of the same samples.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/batch/document.h"
#include "core/batch/packer.h"
#include "core/batch/packer_options.h"
#include "core/batch/packer_rows.h"
#include "core/batch/parity.h"
#include "core/batch/parity_pack.h"
#include "core/batch/parity_pack_collate.h"
#include "core/batch/parity_pack_sample.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {

namespace {

using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using Json = nlohmann::ordered_json;

const std::vector<Json>& Cases() {
  static const auto* cases = [] {
    std::ifstream file("tests/testdata/automodel_pack.json");
    return new std::vector<Json>(Json::parse(file)["cases"]);
  }();
  return *cases;
}

std::vector<Json> CasesOf(const std::string& fn) {
  std::vector<Json> found;
  for (const Json& test_case : Cases()) {
    if (test_case["fn"] == fn) found.push_back(test_case);
  }
  return found;
}

ParitySample SampleFrom(const Json& dict) {
  ParitySample sample;
  for (const auto& [name, value] : dict.items()) {
    if (name == "___PAD_TOKEN_IDS___") {
      sample.pad_token_ids = value.get<std::map<std::string, int64_t>>();
    } else if (value.is_array()) {
      sample.fields.push_back({name, value.get<std::vector<int64_t>>()});
    } else {
      sample.fields.push_back({name, {value.get<int64_t>()}, false});
    }
  }
  return sample;
}

std::vector<ParitySample> SamplesFrom(const Json& list) {
  std::vector<ParitySample> samples;
  for (const Json& dict : list) samples.push_back(SampleFrom(dict));
  return samples;
}

Json ToJson(const ParityPack& pack) {
  return {{"input_ids", pack.input_ids},
          {"labels", pack.labels},
          {"position_ids", pack.position_ids},
          {"seq_lens", pack.seq_lens},
          {"seq_lens_padded", pack.seq_lens_padded}};
}

Json ToJson(const std::vector<ParityPack>& packs) {
  Json list = Json::array();
  for (const ParityPack& pack : packs) list.push_back(ToJson(pack));
  return {{"packs", list}};
}

// The tensor form of the file: {"dt": "i64", "sh": [2, 3], "v": [...]}.
Json ToJson(const Tensor& tensor) {
  static const auto* names = new std::map<DType, std::string>{
      {DType::kInt64, "i64"}, {DType::kBool, "bool"}, {DType::kFloat32, "f32"}};
  return {
      {"dt", names->at(tensor.dtype)},
      {"sh", std::vector<int64_t>(tensor.shape.begin(), tensor.shape.end())},
      {"v",
       tensor.bytes.size() == 0 ? std::vector<int64_t>() : *tensor.ToInt64()}};
}

Json ToJson(const ParityBatch& batch) {
  Json dict = Json::object();
  for (const NamedTensor& named : batch.tensors) {
    dict[named.name] = ToJson(named.tensor);
  }
  if (!batch.qkv_format.empty()) dict["qkv_format"] = batch.qkv_format;
  return dict;
}

// `result` against what the release returned or raised.
template <class T>
void ExpectResult(const absl::StatusOr<T>& result, const Json& expected) {
  if (expected.contains("err")) {
    EXPECT_THAT(result, HasReason(expected["err"]["type"].get<std::string>()));
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
    return;
  }
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(ToJson(*result), expected);
}

const std::vector<std::pair<Parity, std::string>>& Eras() {
  static const auto* eras = new std::vector<std::pair<Parity, std::string>>{
      {Parity::kAutomodel04, "A"}, {Parity::kAutomodel07, "B2"}};
  return *eras;
}

bool HasTag(const Json& test_case, const std::string& tag) {
  for (const Json& t : test_case["tags"]) {
    if (t == tag) return true;
  }
  return false;
}

std::string NameOf(const ::testing::TestParamInfo<Json>& info) {
  return info.param["id"].get<std::string>();
}

class PackDatasetTest : public ::testing::TestWithParam<Json> {};

TEST_P(PackDatasetTest, EqualsTheRelease) {
  const Json& test_case = GetParam();
  const Json& args = test_case["args"];
  ParityPackOptions options{
      .packed_sequence_size = args["packed_sequence_size"],
      .padding_idx = args["padding_idx"],
      .drop_long_samples = args["drop_long_samples"],
      .cp_size = args["cp_size"],
      .pad_to_multiple_of = args["pad_to_multiple_of"]};
  if (!args["max_packs"].is_null()) options.max_packs = args["max_packs"];
  const auto samples = SamplesFrom(test_case["in"]["samples"]);
  for (const auto& [parity, era] : Eras()) {
    SCOPED_TRACE(era);
    const Json& expected = test_case["out"][era];
    const auto packs = PackDataset(samples, options, parity);
    if (HasTag(test_case, "later_sample_cp_padding_exceeds_pack")) {
      EXPECT_THAT(packs, HasReason(kNotDivisible));
    } else if (expected.contains("not_supported")) {
      EXPECT_THAT(packs, HasReason("TypeError"));
    } else {
      ExpectResult(packs, expected);
    }
  }
}

// Native packing refuses only what cannot be packed; every token and label of
// every sample is in exactly one slot, on a multiple of 2 * cp_size.
TEST_P(PackDatasetTest, NativePackerKeepsTheSamples) {
  const Json& args = GetParam()["args"];
  const int64_t cp_size = args["cp_size"];
  PackOptions options{.row_width = args["packed_sequence_size"],
                      .slot_multiple = cp_size > 1 ? 2 * cp_size : 1,
                      .long_documents = LongDocuments::kDrop,
                      .padding_token_id = args["padding_idx"]};
  if (options.row_width % options.slot_multiple != 0) {
    EXPECT_THAT(Packer::Create(options), HasReason(kNotDivisible));
    options.row_width = 12;
  }
  using Sequence = std::pair<std::vector<int64_t>, std::vector<int64_t>>;
  std::multiset<Sequence> expected, packed;
  auto packer = Packer::Create(options);
  ASSERT_THAT(packer, IsOk());
  for (const Json& sample : GetParam()["in"]["samples"]) {
    Document document;
    document.input_ids = sample["input_ids"].get<std::vector<int64_t>>();
    document.labels = sample["labels"].get<std::vector<int64_t>>();
    if (static_cast<int64_t>(document.input_ids.size()) <= options.row_width) {
      expected.insert({document.input_ids, *document.labels});
    }
    ASSERT_THAT(packer->Add(document), IsOk());
  }
  packer->Flush();
  while (const auto rows = packer->Next()) {
    const auto ids = *rows->batch.input_ids.ToInt64();
    const auto labels = *rows->batch.labels.ToInt64();
    const RaggedLengths& real = *rows->batch.seq_lens;
    const RaggedLengths& padded = *rows->batch.seq_lens_padded;
    int64_t at = 0;
    for (size_t i = 0; i < real.values.size(); ++i) {
      EXPECT_EQ(padded.values[i] % options.slot_multiple, 0);
      packed.insert(
          {{ids.begin() + at, ids.begin() + at + real.values[i]},
           {labels.begin() + at, labels.begin() + at + real.values[i]}});
      at += padded.values[i];
    }
    EXPECT_EQ(at, options.row_width);
  }
  EXPECT_EQ(packed, expected);
}

INSTANTIATE_TEST_SUITE_P(All, PackDatasetTest,
                         ::testing::ValuesIn(CasesOf("pack_dataset")), NameOf);

class ThdCollateTest : public ::testing::TestWithParam<Json> {};

TEST_P(ThdCollateTest, EqualsTheRelease) {
  const auto samples = SamplesFrom(GetParam()["in"]["items"]);
  for (const auto& [parity, era] : Eras()) {
    ExpectResult(PackedSequenceThdCollate(samples), GetParam()["out"][era]);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ThdCollateTest,
    ::testing::ValuesIn(CasesOf("packed_sequence_thd_collater")), NameOf);

class DefaultCollateTest : public ::testing::TestWithParam<Json> {};

TEST_P(DefaultCollateTest, EqualsTheRelease) {
  const auto samples = SamplesFrom(GetParam()["in"]["items"]);
  const Json& divisible = GetParam()["args"]["pad_seq_len_divisible"];
  std::optional<int64_t> multiple;
  if (!divisible.is_null()) multiple = divisible.get<int64_t>();
  for (const auto& [parity, era] : Eras()) {
    ExpectResult(DefaultCollate(samples, multiple, parity),
                 GetParam()["out"][era]);
  }
}

INSTANTIATE_TEST_SUITE_P(All, DefaultCollateTest,
                         ::testing::ValuesIn(CasesOf("default_collater")),
                         NameOf);

class PackFeaturesTest : public ::testing::TestWithParam<Json> {};

TEST_P(PackFeaturesTest, EqualsTheReleaseThatHasIt) {
  const auto features = SamplesFrom(GetParam()["in"]["items"]);
  const auto pack = PackFeaturesForThd(features, Parity::kAutomodel07);
  ExpectResult(pack, GetParam()["out"]["B2"]);
  EXPECT_THAT(PackFeaturesForThd(features, Parity::kAutomodel04),
              HasReason("ImportError"));
}

INSTANTIATE_TEST_SUITE_P(All, PackFeaturesTest,
                         ::testing::ValuesIn(CasesOf("pack_features_for_thd")),
                         NameOf);

TEST(PackGoldenTest, EveryCaseIsOfAFunctionThatIsTested) {
  std::map<std::string, int> count;
  for (const Json& test_case : Cases()) ++count[test_case["fn"]];
  EXPECT_EQ(count,
            (std::map<std::string, int>{{"pack_dataset", 23},
                                        {"packed_sequence_thd_collater", 8},
                                        {"default_collater", 3},
                                        {"pack_features_for_thd", 4}}));
}

}  // namespace
}  // namespace cpfeed
