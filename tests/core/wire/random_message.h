// Random protobuf messages of any type.

#ifndef CPFEED_TESTS_CORE_WIRE_RANDOM_MESSAGE_H_
#define CPFEED_TESTS_CORE_WIRE_RANDOM_MESSAGE_H_

#include <google/protobuf/message.h>

#include <random>

namespace cpfeed::testing {

// Sets some fields of `message`, of the messages in it, and so on, to values
// that include the least and the greatest. The field named "payload" stays
// empty.
void FillAtRandom(google::protobuf::Message& message, std::mt19937_64& random);

}  // namespace cpfeed::testing

#endif  // CPFEED_TESTS_CORE_WIRE_RANDOM_MESSAGE_H_
