// Right answers from files in tests/testdata.

#ifndef CPFEED_TESTS_TESTING_GOLDEN_H_
#define CPFEED_TESTS_TESTING_GOLDEN_H_

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/batch/packed_batch.h"
#include "core/tensor/tensor.h"
#include "core/thd/parity_dict.h"

namespace cpfeed::testing {

// The cases of `file` in tests/testdata: its "cases", or the file itself where
// that is a list. Each has an "id". Ends the process where there are none.
std::vector<nlohmann::json> GoldenCases(const std::string& file);

// Names a TEST_P's instance by the id of its case, which is what
// golden_coverage_test looks for.
std::string GoldenId(const ::testing::TestParamInfo<nlohmann::json>& info);

bool HasTag(const nlohmann::json& golden_case, const std::string& tag);

// A tensor of {"dt": "i64", "sh": [2, 3], "v": [...]}.
Tensor TensorOf(const nlohmann::json& flat);

// A case's "in" as upstream's dictionary.
ParityDict DictOf(const nlohmann::json& in);

// The reverse; comparing as nlohmann::json ignores the order of keys.
nlohmann::json JsonOf(const ParityDict& dict);

// A case's "in" as a native batch; values that are no tensors are left out.
PackedBatch NativeBatchOf(const nlohmann::json& in);

}  // namespace cpfeed::testing

#endif  // CPFEED_TESTS_TESTING_GOLDEN_H_
