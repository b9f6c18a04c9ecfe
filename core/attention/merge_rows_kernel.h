// The merging kernel on a GPU.

#ifndef CPFEED_CORE_ATTENTION_MERGE_ROWS_KERNEL_H_
#define CPFEED_CORE_ATTENTION_MERGE_ROWS_KERNEL_H_

#include "core/attention/merge_rows_thread.h"

namespace cpfeed {

// Queue one launch on `stream` (a cudaStream_t) of the current device. Return a
// cudaError_t. A task without rows launches nothing.
int LaunchMergeRows(const MergeRowsTask<float>& task, void* stream);
int LaunchMergeRows(const MergeRowsTask<double>& task, void* stream);

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_MERGE_ROWS_KERNEL_H_
