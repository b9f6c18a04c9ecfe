// A fuzzer makes messages that protobuf complains of by the thousand.

#ifndef CPFEED_TESTS_FUZZ_QUIET_PROTOBUF_H_
#define CPFEED_TESTS_FUZZ_QUIET_PROTOBUF_H_

#include <google/protobuf/stubs/logging.h>

namespace cpfeed::testing {

// Turns protobuf's log off.
inline void QuietProtobuf() {
  [[maybe_unused]] static google::protobuf::LogHandler* const previous =
      google::protobuf::SetLogHandler(nullptr);
}

}  // namespace cpfeed::testing

#endif  // CPFEED_TESTS_FUZZ_QUIET_PROTOBUF_H_
