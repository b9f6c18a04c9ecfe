// Where a merge of CUDA tensors goes; what stands behind it depends on the
// build.

#ifndef CPFEED_CORE_ATTENTION_MERGE_ROWS_LAUNCH_H_
#define CPFEED_CORE_ATTENTION_MERGE_ROWS_LAUNCH_H_

#include "core/attention/merge_rows_thread.h"

namespace cpfeed {

// Queue the kernel on LibTorch's current stream of its current device. Throw
// c10::Error where that fails, or the program was built without CUDA.
void QueueMergeRows(const MergeRowsTask<float>& task);
void QueueMergeRows(const MergeRowsTask<double>& task);

}  // namespace cpfeed

#endif  // CPFEED_CORE_ATTENTION_MERGE_ROWS_LAUNCH_H_
