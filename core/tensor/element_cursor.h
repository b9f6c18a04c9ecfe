// Reads integers out of a buffer from front to back, in long runs, wherever the
// fragments were cut.

#ifndef CPFEED_CORE_TENSOR_ELEMENT_CURSOR_H_
#define CPFEED_CORE_TENSOR_ELEMENT_CURSOR_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "core/tensor/buffer.h"

namespace cpfeed {

// A place in a buffer of elements of one size. Copies no bytes but those of an
// element that lies across two fragments. The buffer must outlive the cursor.
// Not thread-safe.
class ElementCursor {
 public:
  // `item_size` is 1, 2, 4 or 8 bytes and divides the size of `bytes`.
  ElementCursor(const Buffer& bytes, int64_t item_size);
  ElementCursor(const ElementCursor&) = delete;
  ElementCursor& operator=(const ElementCursor&) = delete;

  // Whole elements that lie behind each other in memory.
  struct Run {
    const std::byte* data = nullptr;  // Not aligned.
    int64_t count = 0;                // 0 at the end of the buffer only.
  };

  // The run that starts here; valid until the next Advance.
  Run Peek() const { return run_; }

  // Moves on by `count` elements of the current run.
  void Advance(int64_t count);

  // Moves on by `count` elements, over as many runs as it takes.
  void Skip(int64_t count);

  // Moves on while the elements, as little-endian signed integers, equal
  // `value`, at most `limit` of them. Returns how many did.
  int64_t SkipEqual(int64_t limit, int64_t value);

  // The element here, as a little-endian signed integer. Not at the end.
  int64_t Value() const;

 private:
  void FindRun();
  void TakeFragment();

  absl::Span<const Buffer::Fragment> fragments_;
  const int64_t item_size_;
  size_t next_fragment_ = 0;
  const std::byte* rest_ = nullptr;  // What is left of the current fragment
  int64_t rest_bytes_ = 0;           // behind the current run.
  std::byte joined_[8] = {};         // An element that was cut.
  Run run_;
};

}  // namespace cpfeed

#endif  // CPFEED_CORE_TENSOR_ELEMENT_CURSOR_H_
