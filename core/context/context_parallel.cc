#include "core/context/context_parallel.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/context/sdpa.h"

namespace cpfeed {
namespace {

// The two chunks of `rank`, head then tail.
at::Tensor HeadTail(const at::Tensor& whole, int64_t dim, int rank,
                    int cp_size) {
  const int64_t chunk = whole.size(dim) / (2 * cp_size);
  return at::cat({whole.narrow(dim, rank * chunk, chunk),
                  whole.narrow(dim, (2 * cp_size - 1 - rank) * chunk, chunk)},
                 dim);
}

// Whether the tensor is all that lies in its memory. Else writing would change
// what is somebody else's.
bool HasItsOwnMemory(const at::Tensor& tensor) {
  return tensor.is_non_overlapping_and_dense() &&
         tensor.storage().nbytes() == tensor.nbytes();
}

void Overwrite(const at::Tensor& buffer, const at::Tensor& value) {
  const at::NoGradGuard no_grad;
  buffer.resize_(value.sizes()).copy_(value);
}

absl::Status CheckBuffer(const at::Tensor& buffer, int64_t dim, size_t number,
                         int cp_size) {
  if (dim < 0 || dim >= buffer.dim()) {
    return InvalidArgument(
        kShapeMismatch, absl::StrCat("buffer ", number, " has ", buffer.dim(),
                                     " axes; its sequence dim is ", dim));
  }
  if (buffer.size(dim) % (2 * cp_size) == 0) return absl::OkStatus();
  return InvalidArgument(
      kNotDivisible,
      absl::StrCat(
          "buffer ", number, " has ", buffer.size(dim),
          " positions; must be a multiple of 2 * cp_size = ", 2 * cp_size));
}

// The first of `tensors` that is `one`, under whatever handle; else none.
std::optional<size_t> Find(const std::vector<at::Tensor*>& tensors,
                           const at::Tensor& one) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i]->is_same(one)) return i;
  }
  return std::nullopt;
}

bool Contains(const std::vector<at::Tensor*>& tensors, const at::Tensor& one) {
  return Find(tensors, one).has_value();
}

// Whether another of the buffers lies in the tensor's memory: a view of it.
bool HasViewAmong(const std::vector<at::Tensor*>& buffers,
                  const at::Tensor& tensor) {
  return std::any_of(
      buffers.begin(), buffers.end(), [&](const at::Tensor* other) {
        return other->is_alias_of(tensor) && !other->is_same(tensor);
      });
}

// One tensor cannot be cut along two dims.
absl::Status CheckOneDim(const ContextParallelOptions& options, size_t number) {
  const auto first = Find(options.buffers, *options.buffers[number]);
  if (options.sequence_dims[*first] == options.sequence_dims[number]) {
    return absl::OkStatus();
  }
  return InvalidArgument(
      kShapeMismatch,
      absl::StrCat("buffer ", number, " is buffer ", *first,
                   ", whose sequence dim is ", options.sequence_dims[*first],
                   "; its own is ", options.sequence_dims[number]));
}

class ContextParallelScope final : public Scope {
 public:
  ContextParallelScope(std::shared_ptr<Communicator> group, RotateMethod method)
      : group_(group), sdpa_(EnterCpSdpa(std::move(group), method)) {}

  ~ContextParallelScope() override {
    for (const Saved& saved : saved_) {
      if (saved.replaced) {
        *saved.buffer = saved.whole;
      } else {
        Overwrite(*saved.buffer, saved.whole);
      }
    }
  }

  // All parts are made before any buffer is written: two buffers may be one
  // tensor, such as labels that are the ids, and it is cut once.
  void Shard(const ContextParallelOptions& options) {
    std::vector<Cut> cuts;
    for (size_t i = 0; i < options.buffers.size(); ++i) {
      at::Tensor* const buffer = options.buffers[i];
      const auto same = std::find_if(
          cuts.begin(), cuts.end(),
          [&](const Cut& cut) { return cut.buffer->is_same(*buffer); });
      if (same == cuts.end()) {
        const bool replace = buffer->requires_grad() ||
                             !HasItsOwnMemory(*buffer) ||
                             HasViewAmong(options.buffers, *buffer);
        cuts.push_back({buffer,
                        HeadTail(*buffer, options.sequence_dims[i],
                                 group_->rank(), group_->size()),
                        replace});
      } else if (same->replace) {
        cuts.push_back({buffer, same->part, true});
      } else {
        continue;  // It changes with the other.
      }
      if (!Contains(options.no_restore, *buffer)) Save(cuts.back());
    }
    for (const Cut& cut : cuts) {
      if (cut.replace) {
        *cut.buffer = cut.part;
      } else {
        Overwrite(*cut.buffer, cut.part);
      }
    }
  }

 private:
  struct Cut {
    at::Tensor* buffer;
    at::Tensor part;
    bool replace;
  };

  struct Saved {
    at::Tensor* buffer;
    at::Tensor whole;
    bool replaced;
  };

  void Save(const Cut& cut) {
    saved_.push_back({cut.buffer,
                      cut.replace ? *cut.buffer : cut.buffer->clone(),
                      cut.replace});
  }

  const std::shared_ptr<Communicator> group_;
  const std::unique_ptr<Scope> sdpa_;
  std::vector<Saved> saved_;
};

absl::StatusOr<std::unique_ptr<Scope>> Enter(
    const std::shared_ptr<Communicator>& group,
    const ContextParallelOptions& options, RotateMethod method) {
  // All are checked before any is changed.
  for (size_t i = 0; i < options.buffers.size(); ++i) {
    CF_RETURN_IF_ERROR(CheckBuffer(*options.buffers[i],
                                   options.sequence_dims[i], i, group->size()));
    CF_RETURN_IF_ERROR(CheckOneDim(options, i));
  }
  auto scope = std::make_unique<ContextParallelScope>(group, method);
  scope->Shard(options);
  return scope;
}

}  // namespace

absl::StatusOr<ScopeFactory> ContextParallelContext(
    std::shared_ptr<Communicator> group, ContextParallelOptions options) {
  CF_ASSIGN_OR_RETURN(const RotateMethod method,
                      ParseRotateMethod(options.rotate_method));
  if (options.buffers.size() != options.sequence_dims.size()) {
    return InvalidArgument(
        kShapeMismatch, absl::StrCat(options.buffers.size(), " buffers have ",
                                     options.sequence_dims.size(),
                                     " sequence dims; must have one each"));
  }
  for (size_t i = 0; i < options.no_restore.size(); ++i) {
    if (Contains(options.buffers, *options.no_restore[i])) continue;
    return InvalidArgument(
        kBadOption, absl::StrCat("no_restore ", i, " is none of the buffers"));
  }
  return EnterOnce([group = std::move(group), options = std::move(options),
                    method] { return Enter(group, options, method); });
}

}  // namespace cpfeed
