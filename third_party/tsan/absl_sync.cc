// Debian's Abseil is built without ThreadSanitizer, which so doesn't see what
// absl::Mutex and its like order and reports races in code that locks properly.
// The definitions here come before the library's (gRPC's calls reach them too):
// each calls the library's own and tells ThreadSanitizer.

#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include "absl/synchronization/barrier.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

// The library's function with that mangled name (but for the prefix), as
// R(...).
#define NEXT(name, R, ...)                                            \
  [] {                                                                \
    static auto* const next =                                         \
        reinterpret_cast<R (*)(__VA_ARGS__)>(dlsym(RTLD_NEXT, name)); \
    return next;                                                      \
  }()

namespace {

// The mutex whose conditions the library may evaluate on this thread now.
thread_local void* evaluating = nullptr;

class Evaluating {
 public:
  explicit Evaluating(void* mutex) : before_(evaluating) { evaluating = mutex; }
  ~Evaluating() { evaluating = before_; }

 private:
  void* before_;
};

}  // namespace

namespace absl {
inline namespace debian3 {

void Mutex::Lock() {
  NEXT("_ZN4absl7debian35Mutex4LockEv", void, Mutex*)(this);
  __tsan_acquire(this);
}

void Mutex::Unlock() {
  Evaluating scope(this);
  __tsan_release(this);
  NEXT("_ZN4absl7debian35Mutex6UnlockEv", void, Mutex*)(this);
}

bool Mutex::TryLock() {
  const bool locked =
      NEXT("_ZN4absl7debian35Mutex7TryLockEv", bool, Mutex*)(this);
  if (locked) __tsan_acquire(this);
  return locked;
}

void Mutex::ReaderLock() {
  NEXT("_ZN4absl7debian35Mutex10ReaderLockEv", void, Mutex*)(this);
  __tsan_acquire(this);
}

void Mutex::ReaderUnlock() {
  Evaluating scope(this);
  __tsan_release(this);
  NEXT("_ZN4absl7debian35Mutex12ReaderUnlockEv", void, Mutex*)(this);
}

bool Mutex::ReaderTryLock() {
  const bool locked =
      NEXT("_ZN4absl7debian35Mutex13ReaderTryLockEv", bool, Mutex*)(this);
  if (locked) __tsan_acquire(this);
  return locked;
}

#define WAITS(Class, R, method, name, params, types, args) \
  R Class::method params {                                 \
    Evaluating scope(this);                                \
    __tsan_release(this);                                  \
    struct Acquire {                                       \
      void* mutex;                                         \
      ~Acquire() { __tsan_acquire(mutex); }                \
    } acquire{this};                                       \
    return NEXT(name, R, types) args;                      \
  }
#define TYPES(...) __VA_ARGS__

WAITS(Mutex, void, Await, "_ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE",
      (const Condition& condition), TYPES(Mutex*, const Condition&),
      (this, condition))
WAITS(Mutex, void, LockWhen,
      "_ZN4absl7debian35Mutex8LockWhenERKNS0_9ConditionE",
      (const Condition& condition), TYPES(Mutex*, const Condition&),
      (this, condition))
WAITS(Mutex, void, ReaderLockWhen,
      "_ZN4absl7debian35Mutex14ReaderLockWhenERKNS0_9ConditionE",
      (const Condition& condition), TYPES(Mutex*, const Condition&),
      (this, condition))
WAITS(
    Mutex, bool, AwaitWithTimeout,
    "_ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE",
    (const Condition& condition, Duration t),
    TYPES(Mutex*, const Condition&, Duration), (this, condition, t))
WAITS(Mutex, bool, AwaitWithDeadline,
      "_ZN4absl7debian35Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE",
      (const Condition& condition, Time t),
      TYPES(Mutex*, const Condition&, Time), (this, condition, t))
WAITS(Mutex, bool, LockWhenWithTimeout,
      "_ZN4absl7debian35Mutex19LockWhenWithTimeoutERKNS0_9ConditionENS0_"
      "8DurationE",
      (const Condition& condition, Duration t),
      TYPES(Mutex*, const Condition&, Duration), (this, condition, t))
WAITS(
    Mutex, bool, LockWhenWithDeadline,
    "_ZN4absl7debian35Mutex20LockWhenWithDeadlineERKNS0_9ConditionENS0_4TimeE",
    (const Condition& condition, Time t), TYPES(Mutex*, const Condition&, Time),
    (this, condition, t))

bool Condition::Eval() const {
  if (evaluating) __tsan_acquire(evaluating);
  const bool holds =
      NEXT("_ZNK4absl7debian39Condition4EvalEv", bool, const Condition*)(this);
  if (evaluating) __tsan_release(evaluating);
  return holds;
}

#define CONDVAR_WAITS(R, method, name, params, types, args) \
  R CondVar::method params {                                \
    Evaluating scope(mu);                                   \
    __tsan_release(mu);                                     \
    struct Acquire {                                        \
      void* mutex;                                          \
      ~Acquire() { __tsan_acquire(mutex); }                 \
    } acquire{mu};                                          \
    return NEXT(name, R, types) args;                       \
  }

CONDVAR_WAITS(void, Wait, "_ZN4absl7debian37CondVar4WaitEPNS0_5MutexE",
              (Mutex * mu), TYPES(CondVar*, Mutex*), (this, mu))
CONDVAR_WAITS(
    bool, WaitWithTimeout,
    "_ZN4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE",
    (Mutex * mu, Duration t), TYPES(CondVar*, Mutex*, Duration), (this, mu, t))
CONDVAR_WAITS(
    bool, WaitWithDeadline,
    "_ZN4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE",
    (Mutex * mu, Time t), TYPES(CondVar*, Mutex*, Time), (this, mu, t))

void Notification::Notify() {
  __tsan_release(this);
  __tsan_release(reinterpret_cast<char*>(this) +
                 sizeof(Mutex));  // what HasBeenNotified() loads
  NEXT("_ZN4absl7debian312Notification6NotifyEv", void, Notification*)(this);
}

void Notification::WaitForNotification() const {
  NEXT("_ZNK4absl7debian312Notification19WaitForNotificationEv", void,
       const Notification*)
  (this);
  __tsan_acquire(const_cast<Notification*>(this));
}

bool Notification::WaitForNotificationWithTimeout(Duration t) const {
  const bool notified = NEXT(
      "_ZNK4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_"
      "8DurationE",
      bool, const Notification*, Duration)(this, t);
  if (notified) __tsan_acquire(const_cast<Notification*>(this));
  return notified;
}

bool BlockingCounter::DecrementCount() {
  __tsan_release(this);
  return NEXT("_ZN4absl7debian315BlockingCounter14DecrementCountEv", bool,
              BlockingCounter*)(this);
}

void BlockingCounter::Wait() {
  NEXT("_ZN4absl7debian315BlockingCounter4WaitEv", void, BlockingCounter*)
  (this);
  __tsan_acquire(this);
}

bool Barrier::Block() {
  __tsan_release(this);
  const bool last =
      NEXT("_ZN4absl7debian37Barrier5BlockEv", bool, Barrier*)(this);
  __tsan_acquire(this);
  return last;
}

}  // namespace debian3
}  // namespace absl
