// The merging kernel on the host: the GPU's source, warps as loops.

#ifndef CPFEED_CORE_ATTENTION_MERGE_ROWS_HOST_H_
#define CPFEED_CORE_ATTENTION_MERGE_ROWS_HOST_H_

#include "core/attention/merge_rows_thread.h"

namespace cpfeed {

// Runs the task, whose addresses are the host's.
template <class T>
void RunMergeRowsOnHost(const MergeRowsTask<T>& task) {
  for (int64_t pair = 0; pair < task.num_rows * task.heads; ++pair) {
    MergeWeights<T> weights[kMergeWarp];
    for (MergeWeights<T>& lane : weights) lane = ReadMergeWeights(task, pair);
    for (int lane = 0; lane < kMergeWarp; ++lane) {
      WriteMerged(task, weights[lane], lane);
    }
  }
}

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_MERGE_ROWS_HOST_H_
