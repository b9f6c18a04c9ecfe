#include "client/worker/rank_allocator.h"

#include <malloc.h>

#include <limits>

namespace cpfeed {

void KeepFreedMemory() {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_ARENA_MAX, 1);  // Other arenas are too small for large tensors.
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, 64 << 20);
}

}  // namespace cpfeed
