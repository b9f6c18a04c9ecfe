#include "core/comm/loopback_communicator.h"

#include "tests/core/comm/communicator_conformance.h"

namespace cpfeed::testing {

INSTANTIATE_TEST_SUITE_P(Loopback, CommunicatorConformanceTest,
                         ::testing::Values(CommunicatorKind{"Loopback",
                                                            MakeLoopbackGroup}),
                         [](const auto& info) { return info.param.name; });

}  // namespace cpfeed::testing
