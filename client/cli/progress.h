// A line now and then, so that long work can be seen to go on.

#ifndef CPFEED_CLIENT_CLI_PROGRESS_H_
#define CPFEED_CLIENT_CLI_PROGRESS_H_

#include <functional>
#include <ostream>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace cpfeed {

// Writes at most a line every two seconds, the first one after two.
class Progress {
 public:
  // `now` tells the time.
  explicit Progress(std::ostream& err,
                    std::function<absl::Time()> now = absl::Now);

  // Work goes on. `line` is called where it is time to write what it returns.
  void Report(const std::function<std::string()>& line);

 private:
  std::ostream& err_;
  std::function<absl::Time()> now_;
  absl::Time next_;
};

}  // namespace cpfeed

#endif  // CPFEED_CLIENT_CLI_PROGRESS_H_
