#include "server/auth/authenticator.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "server/auth/method_roles.h"
#include "transport/grpc_status.h"

namespace cpfeed {
namespace {

constexpr absl::string_view kBearer = "bearer ";

absl::Status Nobody() {
  return MakeError(absl::StatusCode::kUnauthenticated, kNotAuthenticated,
                   "the call has no certificate or token that is known");
}

// Changes when the file does, also when it is replaced within a second.
std::string StampOf(const std::string& path) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return "";
  return absl::StrCat(info.st_ino, ":", info.st_size, ":", info.st_mtim.tv_sec,
                      ".", info.st_mtim.tv_nsec);
}

std::string Sha256(absl::string_view text) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

std::vector<std::string> SansOf(const grpc::AuthContext& context) {
  std::vector<std::string> sans;
  if (!context.IsPeerAuthenticated()) return sans;
  for (const grpc::string_ref& san :
       context.FindPropertyValues("x509_subject_alternative_name")) {
    sans.emplace_back(san.data(), san.size());
  }
  return sans;
}

std::string Find(const grpc::AuthMetadataProcessor::InputMetadata& metadata,
                 const char* key) {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return "";
  return {found->second.data(), found->second.size()};
}

class CallCheck final : public grpc::AuthMetadataProcessor {
 public:
  CallCheck(Authenticator& authenticator,
            std::function<void(const absl::Status&)> refused)
      : authenticator_(authenticator), refused_(std::move(refused)) {}

  // A hash and a look into memory.
  bool IsBlocking() const override { return false; }

  grpc::Status Process(const InputMetadata& metadata,
                       grpc::AuthContext* context, OutputMetadata*,
                       OutputMetadata*) override {
    const absl::Status status =
        authenticator_.Check(Find(metadata, ":path"), SansOf(*context),
                             Find(metadata, "authorization"));
    if (!status.ok()) refused_(status);
    return ToGrpcStatus(status);
  }

 private:
  Authenticator& authenticator_;
  const std::function<void(const absl::Status&)> refused_;
};

}  // namespace

Authenticator::Authenticator(std::string path, absl::Duration refresh)
    : path_(std::move(path)), refresh_(refresh) {}

absl::StatusOr<std::unique_ptr<Authenticator>> Authenticator::Open(
    const std::string& path, absl::Duration refresh) {
  std::unique_ptr<Authenticator> result(new Authenticator(path, refresh));
  absl::MutexLock lock(&result->mu_);
  result->looked_at_ = absl::Now();
  CF_RETURN_IF_ERROR(result->Load());
  return result;
}

absl::Status Authenticator::Load() {
  stamp_ = StampOf(path_);
  std::ifstream stream(path_, std::ios::binary);
  std::stringstream text;
  if (stream.good()) text << stream.rdbuf();
  if (!stream.good() || !text.good()) {
    return absl::UnavailableError(absl::StrCat("cannot read ", path_));
  }
  absl::StatusOr<AuthFile> file = ParseAuthFile(text.str());
  if (!file.ok()) return Annotate(file.status(), path_);
  file_ = *std::move(file);
  return absl::OkStatus();
}

void Authenticator::Refresh() {
  const absl::Time now = absl::Now();
  if (now < looked_at_ + refresh_) return;
  looked_at_ = now;
  if (StampOf(path_) == stamp_) return;
  const absl::Status status = Load();
  if (status.ok()) {
    spdlog::info("event=auth_file_read principals={}", file_.principals.size());
  } else {
    spdlog::error("event=auth_file_refused detail=\"{}\"",
                  std::string(status.message()));
  }
}

absl::StatusOr<Caller> Authenticator::Identify(
    const std::vector<std::string>& sans, absl::string_view authorization) {
  Caller caller;
  absl::MutexLock lock(&mu_);
  Refresh();
  if (!authorization.empty()) {
    if (!absl::StartsWithIgnoreCase(authorization, kBearer)) return Nobody();
    const std::string hash = Sha256(authorization.substr(kBearer.size()));
    for (const auto& principal : file_.principals) {
      if (principal->token_sha256.size() == hash.size() &&
          CRYPTO_memcmp(principal->token_sha256.data(), hash.data(),
                        hash.size()) == 0) {
        caller.principal = principal;
      }
    }
  } else {
    for (const auto& principal : file_.principals) {
      for (const std::string& san : sans) {
        if (caller.principal == nullptr && !principal->san.empty() &&
            principal->san == san) {
          caller.principal = principal;
        }
      }
    }
  }
  if (caller.principal == nullptr) return Nobody();
  return caller;
}

absl::Status Authenticator::Check(absl::string_view path,
                                  const std::vector<std::string>& sans,
                                  absl::string_view authorization) {
  if (IsOpenToAll(path)) return absl::OkStatus();
  CF_ASSIGN_OR_RETURN(const Caller caller, Identify(sans, authorization));
  if ((caller.principal->roles & RolesThatMayCall(path)) != 0) {
    return absl::OkStatus();
  }
  return MakeError(
      absl::StatusCode::kPermissionDenied, kNotPermitted,
      absl::StrCat("no role of ", caller.name(), " may call this method"));
}

std::shared_ptr<grpc::AuthMetadataProcessor> MakeCallCheck(
    Authenticator& authenticator,
    std::function<void(const absl::Status&)> refused) {
  return std::make_shared<CallCheck>(authenticator, std::move(refused));
}

absl::StatusOr<Caller> CallerOf(Authenticator* authenticator,
                                const grpc::ServerContext& context) {
  if (authenticator == nullptr) return Caller();
  return authenticator->Identify(
      SansOf(*context.auth_context()),
      Find(context.client_metadata(), "authorization"));
}

}  // namespace cpfeed
