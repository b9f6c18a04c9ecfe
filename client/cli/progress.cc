#include "client/cli/progress.h"

#include <utility>

namespace cpfeed {
namespace {

constexpr absl::Duration kEvery = absl::Seconds(2);

}  // namespace

Progress::Progress(std::ostream& err, std::function<absl::Time()> now)
    : err_(err), now_(std::move(now)), next_(now_() + kEvery) {}

void Progress::Report(const std::function<std::string()>& line) {
  const absl::Time now = now_();
  if (now < next_) return;
  next_ = now + kEvery;
  err_ << line() << std::endl;
}

}  // namespace cpfeed
