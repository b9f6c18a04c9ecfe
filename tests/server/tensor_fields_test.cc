#include "server/tensor_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/status/status.h"
#include "core/base/error.h"
#include "cpfeed/v1/ingest.pb.h"
#include "cpfeed/v1/session.pb.h"
#include "cpfeed/v1/tensor.pb.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

class TensorFieldsTest : public ::testing::Test {
 protected:
  TensorFieldsTest() {
    v1::TensorField& field = *session_.add_tensors();
    field.set_name("image_features");
    field.set_dtype(v1::DTYPE_BFLOAT16);
  }

  absl::Status Check(const std::string& name, v1::DType dtype) const {
    v1::BatchHeader batch;
    batch.add_tensors()->set_name("input_ids");
    batch.add_tensors()->set_name(name);
    batch.mutable_tensors(1)->set_dtype(dtype);
    return CheckFieldsOfBatch(session_, batch);
  }

  v1::Session session_;
};

TEST_F(TensorFieldsTest, TensorsOfTheListedDtypePass) {
  EXPECT_THAT(Check("image_features", v1::DTYPE_BFLOAT16), IsOk());
  EXPECT_THAT(Check("others", v1::DTYPE_INT64), IsOk());
  session_.mutable_tensors(0)->clear_dtype();
  EXPECT_THAT(Check("image_features", v1::DTYPE_INT64), IsOk());
}

TEST_F(TensorFieldsTest, AnotherDtypeIsRefused) {
  EXPECT_THAT(
      Check("image_features", v1::DTYPE_INT64),
      AllOf(HasReason(kSchemaMismatch),
            StatusIs(absl::StatusCode::kInvalidArgument,
                     HasSubstr("is DTYPE_INT64; must be DTYPE_BFLOAT16"))));
}

TEST_F(TensorFieldsTest, RanksCutLocalTensorsThemselves) {
  session_.mutable_tensors(0)->set_placement(v1::PLACEMENT_LOCAL);
  EXPECT_THAT(Check("image_features", v1::DTYPE_BFLOAT16),
              AllOf(HasReason(kSchemaMismatch),
                    StatusIs(absl::StatusCode::kInvalidArgument,
                             HasSubstr("must not be in a batch"))));
  EXPECT_THAT(Check("others", v1::DTYPE_INT64), IsOk());
}

}  // namespace
}  // namespace cpfeed
