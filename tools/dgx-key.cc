// dgx-key: Ed25519 identities and signed envelopes. dgx-key(1).
#include "dgx/cli/tool.h"
#include "dgx/jobs/key.h"

namespace {

using namespace dgx;

struct New {
  jobs::NewKey options;

  void declare(cli::Command& command) {
    command.positional("NAME", options.name, "name of the key files: NAME.pem (mode 0600) and NAME.pub.pem");
    command.flag("--passphrase", options.passphrase.ask,
                 "encrypt the private key with a passphrase that is asked for on the terminal");
    command.option("--passphrase-file", "FILE", options.passphrase.file,
                   "encrypt the private key with the first line of FILE as its passphrase");
    command.at_most_one({"--passphrase", "--passphrase-file"});
    command.skip_existing(options.skip_existing);
  }
  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(const jobs::NewKeyResult made, jobs::new_key(options, out.clobber()));
    if (made.existed) out.note_skipped(made.secret_path);
    out.field("key_id", made.key_id);
    out.field("private_key", made.secret_path);
    out.field("public_key", made.public_path);
    return cli::Verdict::kDone;
  }
};

struct Id {
  jobs::KeyFile file;

  void declare(cli::Command& command) {
    command.positional("FILE", file.path, "a private or public key").may_be_key(file.path);
    command.option("--passphrase-file", "FILE", file.passphrase_file,
                   "file whose first line is the key's passphrase");
  }
  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(const Digest key_id, jobs::id_of_key(file));
    out.field("key_id", key_id);
    return cli::Verdict::kDone;
  }
};

struct Passphrase {
  jobs::ChangePassphrase options;
  bool remove = false;

  void declare(cli::Command& command) {
    command.positional("KEY.pem", options.key.path, "the private key, also one of ssh-keygen or openssl")
        .may_be_key(options.key.path);
    command.option("--passphrase-file", "FILE", options.key.passphrase_file,
                   "file whose first line is the present passphrase");
    command.option("--new-passphrase-file", "FILE", options.passphrase.file,
                   "file whose first line is the new passphrase, instead of asking for it");
    command.flag("--remove", remove, "leave the key without a passphrase");
    command.at_most_one({"--new-passphrase-file", "--remove"});
    command.option("--output,-o", "NEW.pem", options.output, "write the key to this file, and leave KEY.pem");
    command.writes({"--output"});
  }
  Result<cli::Verdict> run(cli::Out& out) const {
    jobs::ChangePassphrase all = options;
    all.passphrase.ask = !remove && !all.passphrase.file;
    DGX_TRY(const jobs::ChangePassphraseResult changed, jobs::change_passphrase(all, out.clobber()));
    out.field("key_id", changed.key_id);
    out.field("private_key", changed.path);
    out.field("encrypted", changed.encrypted);
    return cli::Verdict::kDone;
  }
};

struct Sign {
  std::string path;
  std::string envelope_path = "-";
  jobs::KeyFile key;
  bool is_statement = false;

  void declare(cli::Command& command) {
    command.positional("FILE", path, "canonical JSON; - is standard input");
    command.flag("--statement", is_statement, "sign a dgx statement, which binds whoever signs it");
    command.key(key.path, key.passphrase_file);
    command.output(envelope_path, "ENVELOPE.json", cli::Need::kOptional);
  }
  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(Output output, out.claim(envelope_path));
    DGX_TRY(const std::string envelope,
            jobs::sign_file(path, key, is_statement ? jobs::Signing::kStatement : jobs::Signing::kJson));
    DGX_CHECK(out.output(output, envelope));
    return cli::Verdict::kDone;
  }
};

struct Open {
  std::string path;
  std::string public_key_path;
  std::string payload_path = "-";

  void declare(cli::Command& command) {
    command.positional("FILE", path, "an envelope; - is standard input");
    command.required("--pub", "KEY.pub.pem", public_key_path, "public key of the expected signer");
    command.output(payload_path, "PAYLOAD.json", cli::Need::kOptional);
  }
  Result<cli::Verdict> run(cli::Out& out) const {
    DGX_TRY(Output output, out.claim(payload_path));
    DGX_TRY(const std::string payload, jobs::open_file(path, public_key_path));
    DGX_CHECK(out.output(output, payload + "\n"));
    return cli::Verdict::kDone;
  }
};

}  // namespace

int main(int argc, char** argv) {
  cli::Tool tool("dgx-key", "make Ed25519 identities, sign and open envelopes");
  tool.add<New>("new", "make a key pair and print its id");
  tool.add<Id>("id", "print the id of a private or public key");
  tool.add<Passphrase>("passphrase", "change, add or remove the passphrase of a private key");
  tool.add<Sign>("sign", "put canonical JSON into a signed envelope");
  tool.add<Open>("open", "verify an envelope and print its payload");
  return tool.run(argc, argv);
}
