#include "core/shard/cuda/shard_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "core/base/error.h"
#include "core/shard/cuda/device.h"
#include "tests/core/shard/cuda/fake_device.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

absl::StatusOr<std::shared_ptr<Device>> NoDevice() {
  return MakeError(absl::StatusCode::kUnavailable, kNotSupported,
                   "no CUDA device: none");
}

TEST(ShardDeviceTest, WordsAreParsed) {
  EXPECT_THAT(ParseDeviceChoice("auto"), IsOkAndHolds(DeviceChoice::kAuto));
  EXPECT_THAT(ParseDeviceChoice("cpu"), IsOkAndHolds(DeviceChoice::kCpu));
  EXPECT_THAT(ParseDeviceChoice("cuda"), IsOkAndHolds(DeviceChoice::kCuda));
  EXPECT_THAT(ParseDeviceChoice("gpu"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("\"gpu\"; must be auto, cpu or cuda")));
}

TEST(ShardDeviceTest, AutoTakesTheCpuWhereThereIsNoDevice) {
  const auto chosen =
      ChooseShardDevice({.choice = DeviceChoice::kAuto}, NoDevice());
  ASSERT_THAT(chosen, IsOk());
  EXPECT_EQ(chosen->cuda, nullptr);
  EXPECT_NE(chosen->executor, nullptr);
  EXPECT_EQ(chosen->why, "cpu: no CUDA device: none");
}

TEST(ShardDeviceTest, CudaIsAnErrorWhereThereIsNoDevice) {
  EXPECT_THAT(
      ChooseShardDevice({.choice = DeviceChoice::kCuda}, NoDevice()),
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no CUDA device")));
}

TEST(ShardDeviceTest, CudaIsTakenUnmeasured) {
  const auto device = std::make_shared<FakeDevice>();
  const auto chosen = ChooseShardDevice({.choice = DeviceChoice::kCuda},
                                        std::shared_ptr<Device>(device));
  ASSERT_THAT(chosen, IsOk());
  EXPECT_EQ(chosen->cuda, chosen->executor.get());
  EXPECT_EQ(chosen->why, "cuda: host memory (device 0), chosen");
  EXPECT_EQ(device->launches(), 0);
}

TEST(ShardDeviceTest, AutoMeasuresBoth) {
  const auto device = std::make_shared<FakeDevice>();
  const auto chosen = ChooseShardDevice({.choice = DeviceChoice::kAuto},
                                        std::shared_ptr<Device>(device));
  ASSERT_THAT(chosen, IsOk());
  EXPECT_EQ(device->launches(), 6);
  EXPECT_THAT(chosen->why, AnyOf(StartsWith("cpu: "), StartsWith("cuda: ")));
  EXPECT_THAT(chosen->why, HasSubstr(" a batch on the CPU, "));
}

TEST(ShardDeviceTest, AutoTakesTheCpuWhereTheDeviceFails) {
  const auto device = std::make_shared<FakeDevice>();
  device->FailCall(20, /*lost=*/true);
  bool told = false;
  const auto chosen = ChooseShardDevice(
      {.choice = DeviceChoice::kAuto,
       .cuda = {.on_lost = [&](const absl::Status&) { told = true; }}},
      std::shared_ptr<Device>(device));
  ASSERT_THAT(chosen, IsOk());
  EXPECT_EQ(chosen->cuda, nullptr);
  EXPECT_THAT(chosen->why, HasSubstr("failed"));
  EXPECT_FALSE(told);
}

}  // namespace
}  // namespace cpfeed::testing
