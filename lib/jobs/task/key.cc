#include "dgx/jobs/key.h"

#include "dgx/crypto/key_file.h"
#include "dgx/crypto/random.h"
#include "dgx/manifest/envelope.h"
#include "dgx/manifest/statement.h"
#include "dgx/manifest/trust.h"

namespace dgx::jobs {
namespace {

constexpr std::size_t kMaxKeyFileBytes = 16 * 1024;

/// A passphrase, whose bytes are erased when it is destroyed.
class Passphrase {
 public:
  [[nodiscard]] static Result<Passphrase> read(const std::optional<std::string>& path) {
    Passphrase out;
    if (!path) return out;
    DGX_TRY(std::string text, read_file(*path, kMaxKeyFileBytes));
    out.text_.emplace(text.substr(0, text.find_first_of("\r\n")));
    erase(text);
    if (out.text_->empty()) return usage_error(*path + ": the first line, the passphrase, is empty");
    return out;
  }
  Passphrase(Passphrase&& other) noexcept : text_(std::exchange(other.text_, std::nullopt)) {}
  Passphrase& operator=(Passphrase&&) = delete;
  ~Passphrase() {
    if (text_) erase(*text_);
  }
  [[nodiscard]] std::optional<std::string_view> view() const { return text_; }

 private:
  Passphrase() = default;
  static void erase(std::string& text) {
    crypto::erase({reinterpret_cast<std::uint8_t*>(text.data()), text.size()});
  }
  std::optional<std::string> text_;
};

Result<std::string> read_payload(const std::string& path) {
  DGX_TRY(std::string text, read_file(path, manifest::kMaxPayloadBytes + 1));
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

Error exists_already(const std::string& path) {
  return {ErrorCode::kCannotCreate, path + ": already exists", "use --force to replace it"};
}

}  // namespace

Result<crypto::SecretKey> read_key(const KeyFile& file) {
  DGX_TRY(const Passphrase passphrase, Passphrase::read(file.passphrase_file));
  return crypto::read_secret_key(file.path, passphrase.view());
}

Result<std::map<std::string, std::string>> names_of_trust(const std::string& trust) {
  DGX_TRY(const manifest::Trust people, manifest::Trust::load(trust));
  std::map<std::string, std::string> out;
  for (const auto& [key_id, name] : people.names()) out.emplace(key_id.hex(), name);
  return out;
}

Result<NewKeyResult> new_key(const NewKey& options, Clobber clobber) {
  NewKeyResult out{{}, options.name + ".pem", options.name + ".pub.pem"};
  DGX_TRY(const Passphrase passphrase, Passphrase::read(options.passphrase_file));
  if (clobber == Clobber::kRefuse && exists(out.public_path)) {
    return exists_already(out.public_path);
  }
  const bool begun = clobber == Clobber::kRefuse && exists(out.secret_path);
  auto key =
      begun ? crypto::read_secret_key(out.secret_path, passphrase.view()) : crypto::SecretKey::generate();
  if (begun && !key.ok() && key.error().code != ErrorCode::kUnauthorised)
    return exists_already(out.secret_path);
  if (!key.ok()) return std::move(key).error();
  if (!begun) DGX_CHECK(crypto::write_secret_key(out.secret_path, *key, passphrase.view(), clobber));
  DGX_CHECK(crypto::write_public_key(out.public_path, key->public_key(), clobber));
  out.key_id = crypto::key_id(key->public_key());
  return out;
}

Result<Digest> id_of_key(const KeyFile& file) {
  DGX_TRY(const std::string pem, read_file(file.path, kMaxKeyFileBytes));
  const bool is_public = pem.find("-----BEGIN PUBLIC KEY-----") != std::string::npos;
  if (is_public) {
    const Result<crypto::PublicKey> key = crypto::parse_public_key(pem);
    if (!key.ok()) return within(file.path, key.error());
    return crypto::key_id(*key);
  }
  DGX_TRY(const Passphrase passphrase, Passphrase::read(file.passphrase_file));
  const Result<crypto::SecretKey> key = crypto::parse_secret_key(pem, passphrase.view());
  if (!key.ok()) return within(file.path, key.error());
  return crypto::key_id(key->public_key());
}

Result<std::string> sign_file(const std::string& path, const KeyFile& key, Signing what) {
  DGX_TRY(const std::string payload, read_payload(path));
  if (what == Signing::kJson && manifest::claims_to_be_statement(payload)) {
    return usage_error(path + ": is a dgx statement, which binds whoever signs it",
                       "use --statement if you know what it says");
  }
  DGX_TRY(const crypto::SecretKey secret, read_key(key));
  const bool is_statement = what == Signing::kStatement;
  Result<std::string> envelope =
      manifest::sign(payload, secret, is_statement ? manifest::kPayloadType : manifest::kPlainPayloadType);
  if (!envelope.ok()) return within(path, std::move(envelope).error());
  if (is_statement) {
    const auto opened = manifest::open_any(*envelope);
    if (!opened.ok()) return within(path, opened.error());
  }
  return *envelope + "\n";
}

Result<std::string> open_file(const std::string& path, const std::string& public_key_path) {
  DGX_TRY(const std::string text, read_file(path, manifest::kMaxEnvelopeBytes));
  DGX_TRY(const crypto::PublicKey key, crypto::read_public_key(public_key_path));
  Result<manifest::Envelope> envelope = manifest::open(text, key);
  if (!envelope.ok()) return within(path, std::move(envelope).error());
  return envelope->payload;
}

}  // namespace dgx::jobs
