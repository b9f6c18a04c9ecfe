#include "server/step_history.h"

#include <utility>

namespace cpfeed {
namespace {

int64_t BytesOf(const StepRecord& record) {
  return static_cast<int64_t>(sizeof(StepRecord) + record.producer.size() +
                              record.batch_id.size()) +
         (record.plans == nullptr ? 0 : record.plans->Bytes());
}

}  // namespace

StepHistory::Records::iterator StepHistory::Erase(Records::iterator record) {
  bytes_ -= BytesOf(*record->second);
  return records_.erase(record);
}

void StepHistory::Add(StepRecord record) {
  const auto known = records_.find(record.step);
  if (known != records_.end()) Erase(known);
  bytes_ += BytesOf(record);
  const int64_t step = record.step;
  records_[step] = std::make_shared<const StepRecord>(std::move(record));
  const auto full = [&] {
    return static_cast<int64_t>(records_.size()) > options_.max_steps ||
           bytes_ > options_.max_bytes;
  };
  while (records_.size() > 1 && full()) Erase(records_.begin());
}

void StepHistory::ForgetFrom(int64_t step) {
  auto record = records_.lower_bound(step);
  while (record != records_.end()) record = Erase(record);
}

std::shared_ptr<const StepRecord> StepHistory::Find(int64_t step) const {
  const auto record = records_.find(step);
  return record == records_.end() ? nullptr : record->second;
}

std::shared_ptr<const StepRecord> StepHistory::Newest() const {
  return records_.empty() ? nullptr : records_.rbegin()->second;
}

}  // namespace cpfeed
