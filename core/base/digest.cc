#include "core/base/digest.h"

// After xxhash.h: sends its functions to the widest vectors of the processor,
// which is twice as fast.
#include <xxh_x86dispatch.h>

#include <bit>

#include "core/base/status_macros.h"

namespace cpfeed {

static_assert(std::endian::native == std::endian::little,
              "digests are over little-endian numbers");

uint64_t Digest(const void* data, int64_t size) {
  return XXH3_64bits(data, static_cast<size_t>(size));
}

struct DigestBuilder::State {
  State() : xxh(XXH3_createState()) { CF_CHECK(xxh != nullptr); }
  ~State() { XXH3_freeState(xxh); }
  XXH3_state_t* xxh;
};

DigestBuilder::DigestBuilder() : state_(std::make_unique<State>()) {
  XXH3_64bits_reset(state_->xxh);
}

DigestBuilder::~DigestBuilder() = default;

void DigestBuilder::Update(const void* data, int64_t size) {
  XXH3_64bits_update(state_->xxh, data, static_cast<size_t>(size));
}

void DigestBuilder::UpdateInt64(absl::Span<const int64_t> values) {
  Update(values.data(), static_cast<int64_t>(values.size() * sizeof(int64_t)));
}

uint64_t DigestBuilder::Finish() const {
  return XXH3_64bits_digest(state_->xxh);
}

}  // namespace cpfeed
