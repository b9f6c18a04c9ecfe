// A group that exchanges a device's memory by way of the host's.

#ifndef CPFEED_CORE_COMM_STAGED_COMMUNICATOR_H_
#define CPFEED_CORE_COMM_STAGED_COMMUNICATOR_H_

#include <memory>

#include "core/comm/communicator.h"
#include "core/comm/device_memory.h"

namespace cpfeed {

// `group` knows the host's memory alone: parts that are a device's are copied
// to the host before they are sent, and back when they have arrived. Each
// exchange waits for the device, so this is for ranks that have no NCCL between
// them, such as several on one GPU.
std::unique_ptr<Communicator> StageOnHost(std::unique_ptr<Communicator> group,
                                          DeviceMemory memory);

}  // namespace cpfeed

#endif  // CPFEED_CORE_COMM_STAGED_COMMUNICATOR_H_
