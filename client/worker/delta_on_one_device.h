// What one device gives for a case of gated delta attention: document by
// document and token by token, in float64, by code that shares nothing with
// shards and exchanges.

#ifndef CPFEED_CLIENT_WORKER_DELTA_ON_ONE_DEVICE_H_
#define CPFEED_CLIENT_WORKER_DELTA_ON_ONE_DEVICE_H_

#include <map>
#include <string>

#include "client/worker/delta_case.h"
#include "client/worker/number_array.h"

namespace cpfeed {

// The names and shapes of DeltaResult; out, final_state, conv_out of the one.
struct OneDeviceDelta {
  std::map<std::string, NumberArray> out;
  std::map<std::string, NumberArray> grad;
};

// The case's shapes fit together and its lengths have passed PlanShards.
OneDeviceDelta DeltaOnOneDevice(const DeltaCase& input);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_WORKER_DELTA_ON_ONE_DEVICE_H_
