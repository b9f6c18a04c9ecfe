// The last steps of a session, by what they were: for people who ask
// afterwards.

#ifndef CPFEED_SERVER_STEP_HISTORY_H_
#define CPFEED_SERVER_STEP_HISTORY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "server/step_plans.h"

namespace cpfeed {

struct StepRecord {
  int64_t step = 0;
  std::string producer;
  int64_t sequence = 0;
  std::string batch_id;
  int64_t data_epoch = 0;
  std::shared_ptr<const StepPlans> plans;
};

struct HistoryOptions {
  int64_t max_steps = 256;
  int64_t max_bytes = int64_t{4} << 20;
};

// Holds the newest records that fit both bounds; the newest one always. Not
// thread-safe.
class StepHistory {
 public:
  explicit StepHistory(HistoryOptions options = {}) : options_(options) {}

  // Takes the place of a record of the same step.
  void Add(StepRecord record);

  // A seek made these steps never to have been.
  void ForgetFrom(int64_t step);

  // Null where there is none.
  std::shared_ptr<const StepRecord> Find(int64_t step) const;
  std::shared_ptr<const StepRecord> Newest() const;

  bool empty() const { return records_.empty(); }
  int64_t first_step() const { return records_.begin()->first; }
  int64_t last_step() const { return records_.rbegin()->first; }
  int64_t bytes() const { return bytes_; }

 private:
  using Records = std::map<int64_t, std::shared_ptr<const StepRecord>>;

  Records::iterator Erase(Records::iterator record);

  const HistoryOptions options_;
  Records records_;
  int64_t bytes_ = 0;
};

}  // namespace cpfeed

#endif  // CPFEED_SERVER_STEP_HISTORY_H_
