// What every Communicator must do, as one suite that each implementation
// instantiates with a factory of groups.

#ifndef CPFEED_TESTS_CORE_COMM_COMMUNICATOR_CONFORMANCE_H_
#define CPFEED_TESTS_CORE_COMM_COMMUNICATOR_CONFORMANCE_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/comm/communicator.h"

namespace cpfeed::testing {

// The ends of a fresh group, one for each rank.
using GroupFactory = std::function<std::vector<std::unique_ptr<Communicator>>(
    int size, const CommOptions& options)>;

struct CommunicatorKind {
  std::string name;
  GroupFactory make;
};

class CommunicatorConformanceTest
    : public ::testing::TestWithParam<CommunicatorKind> {
 protected:
  // Runs `body` as all ranks of a fresh group, each in a thread of its own,
  // and destroys a rank's end when its body returns.
  void RunRanks(int size, const std::function<void(Communicator&)>& body,
                absl::Duration timeout = absl::Seconds(60));
};

}  // namespace cpfeed::testing

#endif  // CPFEED_TESTS_CORE_COMM_COMMUNICATOR_CONFORMANCE_H_
