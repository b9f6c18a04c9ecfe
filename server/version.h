// The version of this release.

#ifndef CPFEED_SERVER_VERSION_H_
#define CPFEED_SERVER_VERSION_H_

namespace cpfeed {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace cpfeed

#endif  // CPFEED_SERVER_VERSION_H_
