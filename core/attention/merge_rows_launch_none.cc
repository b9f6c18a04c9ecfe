// What a build without --config=cuda has in place of merge_rows_launch_cuda.cc.

#include <c10/util/Exception.h>

#include "core/attention/merge_rows_launch.h"

namespace cpfeed {
namespace {

[[noreturn]] void Refuse() {
  TORCH_CHECK(false, "this program was built without CUDA");
}

}  // namespace

void QueueMergeRows(const MergeRowsTask<float>&) { Refuse(); }
void QueueMergeRows(const MergeRowsTask<double>&) { Refuse(); }

}  // namespace cpfeed
