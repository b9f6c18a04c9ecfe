#include "core/linear_attention/delta_kernel.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace cpfeed {
namespace {

// States that are kept between two that are computed again, in DeltaBackward.
constexpr int64_t kCheckpointRows = 64;

// One value head's rows.
template <class T>
class Head {
 public:
  Head(const DeltaShape& shape, const DeltaArrays<T>& arrays, int64_t head)
      : shape_(shape),
        arrays_(arrays),
        head_(head),
        key_head_(head / (shape.value_heads / shape.key_heads)) {}

  T* q(int64_t t) const { return arrays_.q + KeyOffset(t); }
  T* k(int64_t t) const { return arrays_.k + KeyOffset(t); }
  T* v(int64_t t) const { return arrays_.v + ValueOffset(t); }
  T& g(int64_t t) const { return arrays_.g[t * shape_.value_heads + head_]; }
  T& beta(int64_t t) const {
    return arrays_.beta[t * shape_.value_heads + head_];
  }
  int64_t ValueOffset(int64_t t) const {
    return (t * shape_.value_heads + head_) * shape_.value_dim;
  }

 private:
  int64_t KeyOffset(int64_t t) const {
    return (t * shape_.key_heads + key_head_) * shape_.key_dim;
  }

  const DeltaShape& shape_;
  const DeltaArrays<T>& arrays_;
  const int64_t head_;
  const int64_t key_head_;
};

// y [cols] = m [rows, cols]^T x [rows].
template <class T>
void TransposedTimes(const T* m, const T* x, int64_t rows, int64_t cols, T* y) {
  std::fill_n(y, cols, T(0));
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) y[j] += m[i * cols + j] * x[i];
  }
}

// m [rows, cols] += x [rows] y [cols]^T.
template <class T>
void AddOuter(const T* x, const T* y, int64_t rows, int64_t cols, T* m) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) m[i * cols + j] += x[i] * y[j];
  }
}

// y [rows] += m [rows, cols] x [cols].
template <class T>
void AddTimes(const T* m, const T* x, int64_t rows, int64_t cols, T* y) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < cols; ++j) y[i] += m[i * cols + j] * x[j];
  }
}

template <class T>
void Scale(T factor, int64_t size, T* values) {
  for (int64_t i = 0; i < size; ++i) values[i] *= factor;
}

// Decays the state and writes the update d_t [V]; the state is A_t then.
template <class T>
void Decay(const DeltaShape& shape, const Head<const T>& head, int64_t t,
           T* state, T* update) {
  Scale(std::exp(head.g(t)), shape.key_dim * shape.value_dim, state);
  TransposedTimes(state, head.k(t), shape.key_dim, shape.value_dim, update);
  for (int64_t j = 0; j < shape.value_dim; ++j) {
    update[j] = head.beta(t) * (head.v(t)[j] - update[j]);
  }
}

template <class T>
void Step(const DeltaShape& shape, const Head<const T>& head, int64_t t,
          T* state, T* update) {
  Decay(shape, head, t, state, update);
  AddOuter(head.k(t), update, shape.key_dim, shape.value_dim, state);
}

// m [K, cols] = exp(g) (I - beta k k^T) m: what a step does to what it finds.
template <class T>
void Transit(const DeltaShape& shape, const Head<const T>& head, int64_t t,
             int64_t cols, T* m, T* product) {
  TransposedTimes(m, head.k(t), shape.key_dim, cols, product);
  Scale(-head.beta(t), cols, product);
  AddOuter(head.k(t), product, shape.key_dim, cols, m);
  Scale(std::exp(head.g(t)), shape.key_dim * cols, m);
}

template <class T>
void SetIdentity(int64_t size, T* m) {
  std::fill_n(m, size * size, T(0));
  for (int64_t i = 0; i < size; ++i) m[i * size + i] = T(1);
}

// The backward pass of one head over one run.
template <class T>
class HeadBackward {
 public:
  HeadBackward(const DeltaShape& shape, const Head<const T>& in, const T* dout,
               const Head<T>& gradients)
      : shape_(shape),
        in_(in),
        dout_(dout),
        gradients_(gradients),
        size_(shape.key_dim * shape.value_dim),
        states_((kCheckpointRows + 1) * size_),
        decayed_(size_),
        error_(shape.value_dim),
        update_(shape.value_dim),
        dupdate_(shape.value_dim) {}

  // `state` is that before the run; `dstate` comes in as the gradient of the
  // state behind it and goes out as that of `state`.
  void Run(const SequenceRun& run, const T* state, T* dstate) {
    // The state before every block of rows.
    std::vector<T> checkpoints(state, state + size_);
    std::vector<T> current = checkpoints;
    const int64_t end = run.row + run.length;
    int64_t begin = run.row;
    for (; begin + kCheckpointRows < end; begin += kCheckpointRows) {
      for (int64_t t = begin; t < begin + kCheckpointRows; ++t) {
        Step(shape_, in_, t, current.data(), update_.data());
      }
      checkpoints.insert(checkpoints.end(), current.begin(), current.end());
    }
    for (int64_t block_end = end; block_end > run.row;
         block_end = begin, begin -= kCheckpointRows) {
      Block(begin, block_end, checkpoints.data() + checkpoints.size() - size_,
            dstate);
      checkpoints.resize(checkpoints.size() - size_);
    }
  }

 private:
  void Block(int64_t begin, int64_t end, const T* state, T* dstate) {
    std::copy_n(state, size_, states_.data());
    for (int64_t t = begin; t < end; ++t) {
      T* const before = states_.data() + (t - begin) * size_;
      std::copy_n(before, size_, before + size_);
      Step(shape_, in_, t, before + size_, update_.data());
    }
    for (int64_t t = end - 1; t >= begin; --t) {
      Back(t, states_.data() + (t - begin) * size_, dstate);
    }
  }

  // One row; `before` is the state before it, and the one behind it follows.
  void Back(int64_t t, const T* before, T* dstate) {
    const int64_t keys = shape_.key_dim;
    const int64_t values = shape_.value_dim;
    const T* const dout = dout_ + in_.ValueOffset(t);
    const T beta = in_.beta(t);
    const T decay = std::exp(in_.g(t));
    AddTimes(before + size_, dout, keys, values, gradients_.q(t));
    AddOuter(in_.q(t), dout, keys, values, dstate);

    for (int64_t i = 0; i < size_; ++i) decayed_[i] = decay * before[i];
    TransposedTimes(decayed_.data(), in_.k(t), keys, values, error_.data());
    TransposedTimes(dstate, in_.k(t), keys, values, dupdate_.data());
    for (int64_t j = 0; j < values; ++j) {
      error_[j] = in_.v(t)[j] - error_[j];
      update_[j] = beta * error_[j];
      gradients_.beta(t) += dupdate_[j] * error_[j];
      dupdate_[j] *= beta;  // Of v_t; minus that of A_t^T k_t.
      gradients_.v(t)[j] += dupdate_[j];
    }
    AddTimes(dstate, update_.data(), keys, values, gradients_.k(t));
    Scale(T(-1), values, dupdate_.data());
    AddTimes(decayed_.data(), dupdate_.data(), keys, values, gradients_.k(t));
    AddOuter(in_.k(t), dupdate_.data(), keys, values, dstate);  // Of A_t now.
    T dg = T(0);
    for (int64_t i = 0; i < size_; ++i) dg += dstate[i] * decayed_[i];
    gradients_.g(t) += dg;
    Scale(decay, size_, dstate);
  }

  const DeltaShape& shape_;
  const Head<const T>& in_;
  const T* const dout_;
  const Head<T>& gradients_;
  const int64_t size_;
  std::vector<T> states_;  // Before each row of a block, and behind the last.
  std::vector<T> decayed_;
  std::vector<T> error_;
  std::vector<T> update_;
  std::vector<T> dupdate_;
};

}  // namespace

template <class T>
void DeltaTransition(const DeltaShape& shape, const TokenPart& part,
                     const DeltaArrays<const T>& in, T* transition, T* end) {
  const int64_t keys = shape.key_dim;
  const int64_t values = shape.value_dim;
  std::vector<T> product(std::max(keys, values));
  for (int64_t h = 0; h < shape.value_heads; ++h) {
    const Head<const T> head(shape, in, h);
    T* const m = transition + h * keys * keys;
    T* const e = end + h * keys * values;
    SetIdentity(keys, m);
    std::fill_n(e, keys * values, T(0));
    bool begun = false;
    for (const SequenceRun& run : part.runs) {
      if (run.begins) {
        begun = true;
        std::fill_n(e, keys * values, T(0));
      }
      for (int64_t t = run.row; t < run.row + run.length; ++t) {
        if (!begun) Transit(shape, head, t, keys, m, product.data());
        Step(shape, head, t, e, product.data());
      }
    }
    if (begun) std::fill_n(m, keys * keys, T(0));
  }
}

template <class T>
void DeltaForward(const DeltaShape& shape, const TokenPart& part,
                  const DeltaArrays<const T>& in, T* state, T* out,
                  T* final_states) {
  const int64_t size = shape.key_dim * shape.value_dim;
  std::vector<T> update(shape.value_dim);
  for (int64_t h = 0; h < shape.value_heads; ++h) {
    const Head<const T> head(shape, in, h);
    T* const s = state + h * size;
    for (const SequenceRun& run : part.runs) {
      if (run.begins) std::fill_n(s, size, T(0));
      for (int64_t t = run.row; t < run.row + run.length; ++t) {
        Step(shape, head, t, s, update.data());
        TransposedTimes(s, head.q(t), shape.key_dim, shape.value_dim,
                        out + head.ValueOffset(t));
      }
      if (run.ends && final_states != nullptr) {
        std::copy_n(
            s, size,
            final_states + run.sequence * shape.state_size() + h * size);
      }
    }
  }
}

template <class T>
void DeltaStateGradient(const DeltaShape& shape, const TokenPart& part,
                        const DeltaArrays<const T>& in, const T* dout,
                        T* dstate) {
  std::fill_n(dstate, shape.state_size(), T(0));
  // Only outputs of the sequence that comes in depend on its state.
  if (part.runs.empty() || part.runs[0].begins) return;
  const SequenceRun& run = part.runs[0];
  std::vector<T> product(shape.value_dim);
  for (int64_t h = 0; h < shape.value_heads; ++h) {
    const Head<const T> head(shape, in, h);
    T* const d = dstate + h * shape.key_dim * shape.value_dim;
    for (int64_t t = run.row + run.length - 1; t >= run.row; --t) {
      AddOuter(head.q(t), dout + head.ValueOffset(t), shape.key_dim,
               shape.value_dim, d);
      // What a step does to a state is symmetric.
      Transit(shape, head, t, shape.value_dim, d, product.data());
    }
  }
}

template <class T>
void DeltaBackward(const DeltaShape& shape, const TokenPart& part,
                   const DeltaArrays<const T>& in, const T* state,
                   const T* dout, const T* dstate_end,
                   const DeltaArrays<T>& gradients) {
  const int64_t size = shape.key_dim * shape.value_dim;
  const std::vector<T> zeros(size, T(0));
  for (int64_t h = 0; h < shape.value_heads; ++h) {
    const Head<const T> head(shape, in, h);
    const Head<T> head_gradients(shape, gradients, h);
    HeadBackward<T> backward(shape, head, dout, head_gradients);
    std::vector<T> dstate(dstate_end + h * size, dstate_end + (h + 1) * size);
    for (auto run = part.runs.rbegin(); run != part.runs.rend(); ++run) {
      // The state goes on from a run only out of the last.
      if (run != part.runs.rbegin()) std::fill_n(dstate.data(), size, T(0));
      backward.Run(*run, run->begins ? zeros.data() : state + h * size,
                   dstate.data());
    }
  }
}

#define CPFEED_DELTA_KERNEL(T)                                               \
  template void DeltaTransition<T>(const DeltaShape&, const TokenPart&,      \
                                   const DeltaArrays<const T>&, T*, T*);     \
  template void DeltaForward<T>(const DeltaShape&, const TokenPart&,         \
                                const DeltaArrays<const T>&, T*, T*, T*);    \
  template void DeltaStateGradient<T>(const DeltaShape&, const TokenPart&,   \
                                      const DeltaArrays<const T>&, const T*, \
                                      T*);                                   \
  template void DeltaBackward<T>(const DeltaShape&, const TokenPart&,        \
                                 const DeltaArrays<const T>&, const T*,      \
                                 const T*, const T*, const DeltaArrays<T>&)

CPFEED_DELTA_KERNEL(float);
CPFEED_DELTA_KERNEL(double);

#undef CPFEED_DELTA_KERNEL

}  // namespace cpfeed
