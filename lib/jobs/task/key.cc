#include "dgx/jobs/key.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>

#include "dgx/core/text.h"
#include "dgx/crypto/key_file.h"
#include "dgx/crypto/passphrase.h"
#include "dgx/manifest/envelope.h"
#include "dgx/manifest/statement.h"
#include "dgx/manifest/trust.h"

namespace dgx::jobs {
namespace {

Result<crypto::SecretBytes> read_text(const std::string& path) {
  DGX_TRY(std::string text, read_file(path, crypto::kMaxKeyFileBytes));
  crypto::SecretBytes out{std::string_view(text)};
  crypto::erase(text);
  return out;
}

std::optional<std::string_view> view_of(const std::optional<crypto::SecretBytes>& passphrase) {
  return passphrase ? std::optional(passphrase->text()) : std::nullopt;
}

/// The passphrases typed so far, by the key's file: a program that reads a key twice asks once.
std::map<std::string, crypto::SecretBytes>& typed_passphrases() {
  static std::map<std::string, crypto::SecretBytes> typed;
  return typed;
}

/// Opens the key in `text`, the content of `file`.
Result<crypto::SecretKey> open_secret(const KeyFile& file, std::string_view text) {
  constexpr int kTries = 3;
  std::optional<crypto::SecretBytes> given;
  if (file.passphrase_file) {
    DGX_TRY(given, crypto::read_passphrase(*file.passphrase_file));
  }
  auto key = crypto::parse_secret_key(text, view_of(given));
  const auto refused = [&] { return !key.ok() && key.error().code == ErrorCode::kUnauthorised; };
  const bool asks = refused() && !given && crypto::is_encrypted_key(text);
  auto& typed = typed_passphrases();
  if (const auto known = typed.find(file.path); asks && known != typed.end())
    key = crypto::parse_secret_key(text, known->second.text());
  if (asks && refused() && !crypto::has_terminal()) {
    return unauthorised(fmt::format("{}: {}", file.path, key.error().message),
                        "--passphrase-file FILE gives it; on a terminal, it is asked for");
  }
  for (int tries = 0; asks && refused() && tries < kTries; ++tries) {
    const std::string prompt =
        fmt::format("{}passphrase of {}: ", tries > 0 ? "wrong; " : "", printable(file.path));
    DGX_TRY(auto answer, crypto::ask_passphrase(prompt));
    key = crypto::parse_secret_key(text, answer.text());
    if (key.ok()) typed.insert_or_assign(file.path, std::move(answer));
  }
  if (!key.ok()) return within(file.path, std::move(key).error());
  return key;
}

/// The passphrase for a key that will be written to `path`; nullopt for none. `option` is the one that names
/// a file with it.
Result<std::optional<crypto::SecretBytes>> new_passphrase(const NewPassphrase& source,
                                                          const std::string& path, std::string_view option) {
  using Maybe = std::optional<crypto::SecretBytes>;
  if (source.file) {
    DGX_TRY(auto read, crypto::read_passphrase(*source.file));
    return Maybe(std::move(read));
  }
  if (!source.ask) return Maybe();
  if (!crypto::has_terminal())
    return usage_error("there is no terminal to ask for a passphrase",
                       fmt::format("{} FILE gives it", option));
  DGX_TRY(auto first, crypto::ask_passphrase(fmt::format("new passphrase of {}: ", printable(path))));
  if (first.get().empty()) return usage_error("the passphrase is empty");
  DGX_TRY(const auto second, crypto::ask_passphrase("the same again: "));
  if (first.text() != second.text()) return usage_error("the two passphrases differ");
  return Maybe(std::move(first));
}

/// The file to replace where no output is given: a link stays one.
Result<std::string> own_place(const std::string& path, bool is_openssh) {
  if (path == "-")
    return usage_error("a key on standard input has no file to replace", "name another with -o");
  if (is_openssh) {
    return usage_error(path + ": is an OpenSSH key, and ssh would not read what replaces it",
                       "-o KEY.pem writes it to another file");
  }
  std::error_code error;
  const auto place = std::filesystem::canonical(path, error);
  if (error) return Error{ErrorCode::kIo, fmt::format("{}: {}", path, error.message()), {}};
  return place.string();
}

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
  DGX_TRY(const crypto::SecretBytes text, read_text(file.path));
  return open_secret(file, text.text());
}

Result<EitherKey> read_either_key(const KeyFile& file) {
  DGX_TRY(const crypto::SecretBytes text, read_text(file.path));
  if (crypto::is_public_key(text.text())) {
    const auto key = crypto::parse_public_key(text.text());
    if (!key.ok()) return within(file.path, key.error());
    return EitherKey{*key, std::nullopt};
  }
  DGX_TRY(auto key, open_secret(file, text.text()));
  const crypto::PublicKey public_key = key.public_key();
  return EitherKey{public_key, std::move(key)};
}

Result<std::map<std::string, std::string>> names_of_trust(const std::string& trust, Progress& warned) {
  DGX_TRY(const manifest::Trust people, manifest::Trust::load(trust));
  for (const std::string& file : people.passed_over()) warned.warning(file + ", which dgx does not take");
  std::map<std::string, std::string> out;
  for (const auto& [key_id, name] : people.names()) out.emplace(key_id.hex(), name);
  return out;
}

namespace {

Error unfit(const std::string& path, std::string_view why) {
  return {ErrorCode::kCannotCreate, path + ": " + std::string(why),
          "choose another name, or remove both files"};
}

/// Checks that the private key in `path` belongs to `pair` and is encrypted if it should be. Of an encrypted
/// one nothing more can be told without a file with its passphrase.
Status check_existing(const std::string& path, const crypto::PublicKey& pair, const NewPassphrase& wanted) {
  DGX_TRY(const crypto::SecretBytes text, read_text(path));
  const bool is_encrypted = crypto::is_encrypted_key(text.text());
  if (!is_encrypted && (wanted.file || wanted.ask))
    return unfit(path, "is there already, and is not encrypted");
  if (is_encrypted && !wanted.file) return {};
  DGX_TRY(const crypto::SecretKey key, open_secret({path, wanted.file}, text.text()));
  if (key.public_key() != pair) return unfit(path, "is not the private key of the public key next to it");
  return {};
}

}  // namespace

Result<NewKeyResult> new_key(const NewKey& options, Clobber clobber) {
  NewKeyResult out{{}, options.name + ".pem", options.name + ".pub.pem"};
  if (options.skip_existing && exists(out.public_path)) {
    if (!exists(out.secret_path)) return unfit(out.public_path, "is there, but its private key is not");
    DGX_TRY(const crypto::PublicKey pair, crypto::read_public_key(out.public_path));
    DGX_CHECK(check_existing(out.secret_path, pair, options.passphrase));
    out.key_id = crypto::key_id(pair);
    out.existed = true;
    return out;
  }
  if (clobber == Clobber::kRefuse && exists(out.public_path)) {
    return exists_already(out.public_path);
  }
  const bool begun = clobber == Clobber::kRefuse && exists(out.secret_path);
  if (begun && (options.passphrase.file || options.passphrase.ask)) {
    DGX_TRY(const crypto::SecretBytes text, read_text(out.secret_path));
    if (!crypto::is_encrypted_key(text.text()))
      return unfit(out.secret_path, "is there already, and is not encrypted");
  }
  // Claimed first, so that no private key is made or replaced whose public key has no place.
  DGX_TRY(Output public_file, Output::claim(out.public_path, clobber));
  auto key = begun ? read_key({out.secret_path, options.passphrase.file}) : crypto::SecretKey::generate();
  if (begun && !key.ok() && key.error().code == ErrorCode::kMalformed) return exists_already(out.secret_path);
  if (!key.ok()) return std::move(key).error();
  if (!begun) {
    DGX_TRY(const auto passphrase, new_passphrase(options.passphrase, out.secret_path, "--passphrase-file"));
    DGX_CHECK(crypto::write_secret_key(out.secret_path, *key, view_of(passphrase), clobber));
  }
  DGX_CHECK(public_file.write(crypto::public_key_pem(key->public_key())));
  out.key_id = crypto::key_id(key->public_key());
  return out;
}

Result<ChangePassphraseResult> change_passphrase(const ChangePassphrase& options, Clobber clobber) {
  if (options.output && clobber == Clobber::kRefuse && exists(*options.output))
    return exists_already(*options.output);
  if (options.passphrase.file && is_same_file(*options.passphrase.file, options.key.path))
    return usage_error(options.key.path + " is the key itself, whose first line everybody knows",
                       "name a file with a passphrase");
  DGX_TRY(const crypto::SecretBytes text, read_text(options.key.path));
  const bool is_openssh = crypto::is_openssh_private_key(text.text());
  DGX_TRY(const std::string place,
          options.output ? Result<std::string>(*options.output) : own_place(options.key.path, is_openssh));
  DGX_TRY(const crypto::SecretKey key, open_secret(options.key, text.text()));
  const std::string name = options.output.value_or(options.key.path);
  DGX_TRY(const auto passphrase, new_passphrase(options.passphrase, name, "--new-passphrase-file"));
  const Clobber choice = options.output ? clobber : Clobber::kReplace;
  DGX_CHECK(crypto::write_secret_key(place, key, view_of(passphrase), choice));
  return ChangePassphraseResult{crypto::key_id(key.public_key()), name, passphrase.has_value()};
}

Result<Digest> id_of_key(const KeyFile& file) {
  DGX_TRY(const EitherKey key, read_either_key(file));
  return crypto::key_id(key.public_key);
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
