// A group whose ranks are threads of one process.

#ifndef CPFEED_CORE_COMM_LOOPBACK_COMMUNICATOR_H_
#define CPFEED_CORE_COMM_LOOPBACK_COMMUNICATOR_H_

#include <memory>
#include <vector>

#include "core/comm/communicator.h"

namespace cpfeed {

// The ends of a group of `size` (at least 1) ranks, to be handed to one thread
// each. A rank whose end is destroyed has left: peers that still wait for it
// get PEER_LOST, after they have received what it had sent.
std::vector<std::unique_ptr<Communicator>> MakeLoopbackGroup(
    int size, const CommOptions& options = {});

}  // namespace cpfeed

#endif  // CPFEED_CORE_COMM_LOOPBACK_COMMUNICATOR_H_
