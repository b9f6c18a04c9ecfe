// JSON as the program reads and writes it.

#ifndef CPFEED_CLIENT_CLI_JSON_VALUES_H_
#define CPFEED_CLIENT_CLI_JSON_VALUES_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

namespace cpfeed {

// Objects keep the order of their keys.
using Json = nlohmann::ordered_json;

// A bool, or an integer that fits int64; else nothing.
std::optional<int64_t> ExactInteger(const Json& value);

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_CLI_JSON_VALUES_H_
