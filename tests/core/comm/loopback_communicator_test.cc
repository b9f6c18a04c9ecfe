#include "core/comm/loopback_communicator.h"

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "core/comm/device_memory.h"
#include "core/comm/staged_communicator.h"
#include "tests/core/comm/communicator_conformance.h"

namespace cpfeed::testing {

// A group that takes all memory for a device's.
std::vector<std::unique_ptr<Communicator>> MakeStagedGroup(
    int size, const CommOptions& options) {
  const DeviceMemory memory = {
      .is_device = [](const void*) { return true; },
      .copy =
          [](void* to, const void* from, size_t bytes) {
            std::memcpy(to, from, bytes);
            return absl::OkStatus();
          },
  };
  std::vector<std::unique_ptr<Communicator>> ends =
      MakeLoopbackGroup(size, options);
  for (auto& end : ends) end = StageOnHost(std::move(end), memory);
  return ends;
}

INSTANTIATE_TEST_SUITE_P(
    Loopback, CommunicatorConformanceTest,
    ::testing::Values(CommunicatorKind{"Loopback", MakeLoopbackGroup},
                      CommunicatorKind{"Staged", MakeStagedGroup}),
    [](const auto& info) { return info.param.name; });

}  // namespace cpfeed::testing
