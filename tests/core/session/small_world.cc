#include "tests/core/session/small_world.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"

namespace cpfeed::testing {
namespace {

constexpr int64_t kBatches[] = {2, 1};
// Turns go round the producers: a0, b0, a1.
constexpr std::pair<int, int64_t> kOrder[] = {{0, 0}, {1, 0}, {0, 1}};
constexpr int64_t kSteps = 3;
constexpr int64_t kSkew = 2;
constexpr int64_t kPayload = 10;  // Of each batch, and of the largest.
constexpr int64_t kCost = kPayload * kCostPerPayloadByte;
constexpr int64_t kStepBytes = 5;  // Of a step at a consumer.
constexpr const char* kIds[] = {"a", "b"};

uint64_t ContentOf(int producer, int64_t sequence) {
  return static_cast<uint64_t>(1000 * (producer + 1) + sequence);
}

// The least memory that ValidateConfig takes.
SessionConfig ConfigFor(Retention retention) {
  const int64_t kept = retention == Retention::kRetain ? kSteps : 0;
  return {.cp_size = 2,
          .consumers_per_cp_rank = 2,
          .producers = {kIds[0], kIds[1]},
          .retention = retention,
          .max_step_skew = kSkew,
          .max_uncommitted_steps = kSteps,
          .memory_budget_bytes = (SmallWorld::kProducers + kept) * kCost,
          .max_batch_bytes = kPayload};
}

template <class T>
bool Refused(const T& result, const char* reason) {
  return !result.ok() && ReasonOf(result.status()) == reason;
}
bool Refused(const absl::Status& status, const char* reason) {
  return !status.ok() && ReasonOf(status) == reason;
}

}  // namespace

SmallWorld::SmallWorld(Retention retention) : session_(ConfigFor(retention)) {
  Expect(ValidateConfig(session_.config()).ok(), "config is valid");
}

std::string SmallWorld::NameOf(int number) {
  constexpr const char* kOfProducers[] = {"open",   "admit",  "convert",
                                          "reject", "finish", "break"};
  constexpr const char* kOfConsumers[] = {"attach", "send", "ack", "grant",
                                          "leave"};
  if (number < 6 * kProducers) {
    return absl::StrCat(kOfProducers[number / kProducers], " ",
                        kIds[number % kProducers]);
  }
  number -= 6 * kProducers;
  if (number < 5 * kConsumers) {
    return absl::StrCat(kOfConsumers[number / kConsumers], " ",
                        number % kConsumers);
  }
  return number == 5 * kConsumers ? "commit" : "seek";
}

bool SmallWorld::Apply(int number) {
  using OfOne = bool (SmallWorld::*)(int);
  constexpr OfOne kOfProducers[] = {&SmallWorld::Open,    &SmallWorld::Admit,
                                    &SmallWorld::Convert, &SmallWorld::Reject,
                                    &SmallWorld::Finish,  &SmallWorld::Break};
  constexpr OfOne kOfConsumers[] = {&SmallWorld::Attach, &SmallWorld::Send,
                                    &SmallWorld::Ack, &SmallWorld::Grant,
                                    &SmallWorld::Leave};
  bool done = false;
  if (number < 6 * kProducers) {
    done = (this->*kOfProducers[number / kProducers])(number % kProducers);
  } else if (number < 6 * kProducers + 5 * kConsumers) {
    number -= 6 * kProducers;
    done = (this->*kOfConsumers[number / kConsumers])(number % kConsumers);
  } else {
    done = number == kEvents - 1 ? Seek() : Commit();
  }
  if (done) CheckBooks();
  return done;
}

void SmallWorld::Expect(bool holds, const std::string& what) {
  if (!holds && problem_.empty()) problem_ = absl::StrCat("must be: ", what);
}

bool SmallWorld::TakeFault() {
  if (faults_left_ == 0) return false;
  --faults_left_;
  return true;
}

// ---- The trainer ----

bool SmallWorld::Commit() {
  const int64_t step = SlowestAcked();
  if (step <= committed_) return false;
  Expect(session_.Commit(step).ok(), "what all have can be committed");
  committed_ = step;
  for (int64_t i = 0; i <= step; ++i) {
    known_[steps_[i].first][steps_[i].second] = false;
  }
  return true;
}

// To where the slowest is, or one step further back.
bool SmallWorld::Seek() {
  const int64_t step = std::max<int64_t>(SlowestAcked() - 1, -1);
  if (steps_.empty() || faults_left_ == 0) return false;
  std::vector<int64_t> next(kProducers, 0);
  for (int64_t i = 0; i <= step; ++i) ++next[steps_[i].first];
  const auto rewinds =
      session_.Seek(step, next, std::vector<bool>(kProducers, false));
  const bool retain = session_.config().retention == Retention::kRetain;
  if (retain && step + 1 < freed_) {
    Expect(Refused(rewinds, kCursorExpired), "freed steps cannot be sought");
    return false;
  }
  TakeFault();
  Expect(rewinds.ok() && *rewinds == !retain, "seek works");
  ++generation_;
  committed_ = std::min(committed_, step);
  for (Rank& rank : ranks_) {
    if (rank.connection != 0) rank.stale = rank.connection;
    rank = {.stale = rank.stale,
            .incarnation = rank.incarnation,
            .acked = step,
            .next = step + 1,
            .unsent = step + 1};
  }
  if (retain) return true;
  steps_.resize(step + 1);
  freed_ = step + 1;
  for (int p = 0; p < kProducers; ++p) {
    Loader& loader = loaders_[p];
    if (loader.connection != 0) loader.stale = loader.connection;
    loader = {.stale = loader.stale,
              .incarnation = loader.incarnation,
              .admitted = next[p],
              .complete = next[p]};
  }
  return true;
}

// ---- The model's view of the whole ----

int64_t SmallWorld::SlowestAcked() const {
  int64_t slowest = kSteps;
  for (const Rank& rank : ranks_) slowest = std::min(slowest, rank.acked);
  return slowest;
}

int64_t SmallWorld::FirstNeeded() const {
  int64_t first = SlowestAcked() + 1;
  if (session_.config().retention == Retention::kRetain) {
    first = std::min(first, committed_ + 1);
  }
  return std::max(first, freed_);
}

bool SmallWorld::AllFinished() const {
  return std::all_of(loaders_.begin(), loaders_.end(),
                     [](const Loader& loader) { return loader.finished; }) &&
         static_cast<int64_t>(steps_.size()) == kSteps;
}

void SmallWorld::CheckBooks() {
  const std::string books = session_.CheckInvariants();
  Expect(books.empty(), books);
  freed_ = FirstNeeded();
  Expect(session_.first_held_step() == freed_,
         absl::StrCat("steps are held from ", freed_, " on, not ",
                      session_.first_held_step()));
  Expect(session_.next_step() == static_cast<int64_t>(steps_.size()),
         "next_step counts what was published");
  Expect(session_.generation() == generation_, "a seek alone fences");
  Expect(session_.committed_step() == committed_, "commit is remembered");
  Expect(session_.all_finished() == AllFinished(), "all_finished is true");
}

std::string SmallWorld::Key() const {
  std::string key = absl::StrCat(
      steps_.size(), ",", committed_, ",", freed_, ",", generation_, ",",
      faults_left_, ",", session_.turn(), ",", session_.charged_bytes());
  for (int p = 0; p < kProducers; ++p) {
    const Loader& l = loaders_[p];
    const Session::Producer& s = session_.producers()[p];
    absl::StrAppend(&key, ";", l.connection != 0, l.stale != 0, l.incarnation,
                    l.admitted, l.complete, l.finished, "/", s.credit_bytes,
                    ",", s.pending_grant_bytes, ",", known_[p][0],
                    known_[p][1]);
  }
  std::vector<std::string> ranks;
  for (const Rank& r : ranks_) {
    ranks.push_back(absl::StrCat(";", r.connection != 0, r.stale != 0,
                                 r.incarnation, ",", r.acked, ",", r.next, ",",
                                 r.unsent, ",", r.credit, ",", r.at_end));
  }
  std::sort(ranks.begin(), ranks.end());
  for (const std::string& rank : ranks) key += rank;
  return key;
}

// ---- Producers ----

bool SmallWorld::Open(int p) {
  Loader& loader = loaders_[p];
  if (loader.connection != 0 && !TakeFault()) return false;
  const auto opened = session_.OpenProducer(kIds[p], loader.incarnation + 1);
  Expect(opened.ok(), "a newer incarnation opens");
  if (!opened.ok()) return true;
  if (loader.connection != 0) loader.stale = loader.connection;
  ++loader.incarnation;
  loader.connection = *opened;
  loader.admitted = loader.complete;  // What was under way is dropped.
  return true;
}

bool SmallWorld::Admit(int p) {
  Loader& loader = loaders_[p];
  if (loader.connection == 0 || loader.admitted == kBatches[p]) return false;
  const auto admission =
      session_.Admit(loader.connection, loader.admitted,
                     ContentOf(p, loader.admitted), kPayload, kCost);
  if (Refused(admission, kProtocolError)) return false;  // No credit now.
  Expect(admission.ok() && !admission->duplicate, "the next batch is taken");
  ++loader.admitted;
  return true;
}

bool SmallWorld::Convert(int p) {
  Loader& loader = loaders_[p];
  if (loader.admitted == loader.complete) return false;
  const auto published =
      session_.Complete(loader.connection, loader.complete, kCost);
  Expect(published.ok(), "a batch under way is completed");
  ++loader.complete;
  if (published.ok()) OnPublished(*published);
  return true;
}

bool SmallWorld::Reject(int p) {
  Loader& loader = loaders_[p];
  if (loader.admitted == loader.complete || !TakeFault()) return false;
  Expect(session_.Reject(loader.connection, loader.complete).ok(),
         "a batch under way is rejected");
  loader.admitted = loader.complete;
  return true;
}

bool SmallWorld::Finish(int p) {
  Loader& loader = loaders_[p];
  if (loader.connection == 0 || loader.finished) return false;
  const bool early = loader.admitted > loader.complete;
  if (!early && loader.complete < kBatches[p]) return false;
  const auto published = session_.Finish(loader.connection, loader.complete);
  if (early) {
    Expect(Refused(published, kOutOfOrder), "finish waits for its batches");
    return false;
  }
  Expect(published.ok(), "finish works");
  loader.finished = true;
  if (published.ok()) OnPublished(*published);
  return true;
}

bool SmallWorld::Break(int p) {
  Loader& loader = loaders_[p];
  if (loader.connection == 0 || !TakeFault()) return false;
  session_.CloseProducer(loader.connection);
  loader.stale = loader.connection;
  loader.connection = 0;
  loader.admitted = loader.complete;
  return true;
}

void SmallWorld::OnPublished(const std::vector<PublishedStep>& published) {
  for (const PublishedStep& step : published) {
    const auto number = static_cast<int64_t>(steps_.size());
    const Batch batch = {step.producer, step.sequence};
    Expect(number < kSteps && step.step == number && batch == kOrder[number],
           absl::StrCat("step ", number, " is the batch whose turn it is"));
    Expect(step.sequence < loaders_[step.producer].complete,
           "a step is a complete batch");
    steps_.push_back(batch);
    known_[batch.first][batch.second] = true;
  }
  // All that can be published is.
  const auto next = static_cast<int64_t>(steps_.size());
  if (next == kSteps) return;
  const auto [producer, sequence] = kOrder[next];
  Expect(loaders_[producer].complete <= sequence, "nothing waits in vain");
}

// ---- Consumers ----

bool SmallWorld::Attach(int c) {
  Rank& rank = ranks_[c];
  if (rank.at_end || (rank.connection != 0 && !TakeFault())) return false;
  const auto attached =
      session_.Attach(c / 2, c % 2, rank.incarnation + 1, generation_, {});
  if (rank.acked + 1 < freed_) {
    Expect(Refused(attached, kCursorExpired), "freed steps are not sent");
    return false;
  }
  Expect(attached.ok(), "a newer incarnation attaches");
  if (!attached.ok()) return true;
  rank = {.connection = *attached,
          .stale = rank.connection != 0 ? rank.connection : rank.stale,
          .incarnation = rank.incarnation + 1,
          .acked = rank.acked,
          .next = rank.acked + 1,
          .unsent = rank.unsent};
  return true;
}

bool SmallWorld::Send(int c) {
  Rank& rank = ranks_[c];
  if (rank.connection == 0 || rank.at_end) return false;
  const auto next = session_.Next(rank.connection);
  Expect(next.ok(), "an open stream is answered");
  if (!next.ok()) return true;
  const bool is_last = rank.next == static_cast<int64_t>(steps_.size());
  const auto wanted =
      is_last ? AllFinished() ? Delivery::Kind::kEnd : Delivery::Kind::kNothing
      : rank.next <= SlowestAcked() + kSkew ? Delivery::Kind::kStep
                                            : Delivery::Kind::kNothing;
  Expect(next->kind == wanted, "it gets the next step within the skew, or end");
  if (next->kind == Delivery::Kind::kEnd) {
    rank.at_end = true;
    return true;
  }
  if (next->kind == Delivery::Kind::kNothing) return false;
  Expect(next->step == rank.next, "steps come in order without gaps");
  const bool affordable =
      rank.credit >= kStepBytes || rank.acked + 1 == rank.next;
  const auto sent = session_.TrySend(rank.connection, kStepBytes);
  Expect(sent.ok() && *sent == affordable, "credit decides");
  if (!sent.ok() || !*sent) return false;
  rank.credit -= kStepBytes;
  ++rank.next;
  rank.unsent = std::max(rank.unsent, rank.next);
  return true;
}

bool SmallWorld::Ack(int c) {
  Rank& rank = ranks_[c];
  if (rank.connection == 0 || rank.acked + 1 == rank.next) return false;
  Expect(session_.Ack(rank.connection, rank.acked + 1).ok(),
         "what was sent is acknowledged");
  ++rank.acked;
  return true;
}

bool SmallWorld::Grant(int c) {
  Rank& rank = ranks_[c];
  if (rank.connection == 0 || rank.credit >= kStepBytes) return false;
  Expect(session_.AddCredit(rank.connection, kStepBytes).ok(), "credit grows");
  rank.credit += kStepBytes;
  return true;
}

bool SmallWorld::Leave(int c) {
  Rank& rank = ranks_[c];
  if (rank.connection == 0 || !TakeFault()) return false;
  session_.CloseConsumer(rank.connection);
  rank.stale = rank.connection;
  rank.connection = 0;
  rank.at_end = false;
  return true;
}

// ---- Probes ----

void SmallWorld::Probe() {
  const std::string before = Key();
  for (int p = 0; p < kProducers; ++p) ProbeLoader(p);
  for (int c = 0; c < kConsumers && problem_.empty(); ++c) ProbeRank(c);
  if (!problem_.empty()) return;
  Expect(Refused(session_.Commit(static_cast<int64_t>(steps_.size())),
                 kCursorMismatch),
         "what is not published is not committed");
  Expect(session_.CheckInvariants().empty() && Key() == before,
         "refusals change nothing");
}

void SmallWorld::ProbeLoader(int p) {
  const Loader& loader = loaders_[p];
  if (loader.stale != 0) {
    Expect(Refused(session_.Admit(loader.stale, loader.admitted, 0, 0, 0),
                   kFenced) &&
               Refused(session_.TakeGrant(loader.stale), kFenced),
           "an old stream of a loader is fenced");
  }
  if (loader.incarnation > 0) {
    Expect(Refused(session_.OpenProducer(kIds[p], loader.incarnation - 1),
                   kFenced),
           "an older incarnation of a loader is fenced");
  }
  if (loader.connection == 0) return;
  Expect(Refused(session_.OpenProducer(kIds[p], loader.incarnation), kFenced),
         "a second loader of the same incarnation is fenced");
  Expect(
      Refused(session_.Admit(loader.connection, loader.admitted + 1, 7, 0, 0),
              kOutOfOrder),
      "a gap is out of order");
  if (loader.finished) {
    Expect(Refused(session_.Admit(loader.connection, loader.admitted,
                                  ContentOf(p, loader.admitted), 0, 0),
                   kOutOfOrder),
           "nothing comes behind the end");
  }
  if (known_[p][loader.admitted] && !loader.finished) {
    Expect(Refused(session_.Admit(loader.connection, loader.admitted, 7, 0, 0),
                   kSequenceConflict),
           "what comes again after a seek is what it was");
  }
  Expect(Refused(session_.Complete(loader.connection, loader.admitted, 0),
                 kOutOfOrder),
         "what was not admitted is not completed");
  if (loader.complete == 0) return;
  const int64_t last = loader.complete - 1;
  const auto again =
      session_.Admit(loader.connection, last, ContentOf(p, last), 0, 0);
  const auto step = std::find(steps_.begin(), steps_.end(), Batch{p, last});
  if (step != steps_.end() && !known_[p][last]) {
    Expect(Refused(again, kCursorExpired), "committed batches are forgotten");
    return;
  }
  Expect(again.ok() && again->duplicate, "a known batch is a duplicate");
  Expect(Refused(session_.Admit(loader.connection, last, 7, 0, 0),
                 kSequenceConflict),
         "a known batch with other content is a conflict");
}

void SmallWorld::ProbeRank(int c) {
  const Rank& rank = ranks_[c];
  if (rank.stale != 0) {
    Expect(Refused(session_.Next(rank.stale), kFenced) &&
               Refused(session_.Ack(rank.stale, rank.acked), kFenced),
           "an old stream of a rank is fenced");
  }
  const int64_t incarnation = rank.incarnation + 1;
  Expect(
      Refused(session_.Attach(c / 2, c % 2, incarnation, generation_ + 1, {}),
              kFenced),
      "another generation is fenced");
  if (rank.incarnation > 0) {
    Expect(Refused(session_.Attach(c / 2, c % 2, rank.incarnation - 1, 0, {}),
                   kFenced),
           "an older incarnation of a rank is fenced");
  }
  Expect(Refused(session_.Attach(c / 2, c % 2, incarnation, 0, rank.unsent + 1),
                 kCursorMismatch),
         "nobody jumps past what it was not sent");
  if (freed_ > 0) {
    Expect(Refused(session_.Attach(c / 2, c % 2, incarnation, 0, freed_ - 1),
                   kCursorExpired),
           "freed steps are not sent");
  }
  if (rank.connection == 0) return;
  Expect(Refused(session_.Ack(rank.connection, rank.next), kProtocolError),
         "what was not sent is not acknowledged");
}

void SmallWorld::Complete() {
  faults_left_ = 0;
  const auto all_at_end = [this] {
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [](const Rank& rank) { return rank.at_end; });
  };
  bool moved = true;
  while (moved && problem_.empty() && !all_at_end()) {
    moved = false;
    for (int number = 0; number < kEvents - 2; ++number) {
      moved |= Apply(number);
    }
    moved |= Commit();
  }
  Expect(all_at_end(), "everybody gets to the end");
}

}  // namespace cpfeed::testing
