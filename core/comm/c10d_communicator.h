// A group of processes that PyTorch has made, whatever its backend.

#ifndef CPFEED_CORE_COMM_C10D_COMMUNICATOR_H_
#define CPFEED_CORE_COMM_C10D_COMMUNICATOR_H_

#include <c10/core/Device.h>

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "core/comm/communicator.h"

namespace cpfeed {

// One rank's end over `group`, which the caller may go on using for collectives
// of its own, in an order that is the same on all ranks. Each exchange is one
// all-to-all of bytes; all ranks of the group take part in it.
//
// Parts of exchanges are in host memory or, where `device` is a GPU, in that
// GPU's. All ranks pass the same kind of device. Where the group has no backend
// for it but Gloo, bytes go over the host.
//
// How long a wait takes at most is the group's own setting. Collectives do not
// tell which peer failed: errors are UNAVAILABLE (reason PEER_LOST) with the
// backend's words. Abort() makes later calls fail; a wait under way ends when
// the group ends it.
std::unique_ptr<Communicator> MakeC10dCommunicator(
    c10::intrusive_ptr<c10d::ProcessGroup> group, const std::string& name,
    c10::Device device);

}  // namespace cpfeed

#endif  // CPFEED_CORE_COMM_C10D_COMMUNICATOR_H_
