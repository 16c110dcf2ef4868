#!/bin/sh
# Audits a dispute, or what chance decided about a task, by hand:
#   examples/audit.sh DISPUTE.jsonl [RULING.json]
#   examples/audit.sh LEDGER.jsonl TASK-ID            where LEDGER.receipts.jsonl lies next to it; eight digits of the id are enough
#
# Needs openssl, sha256sum, base64 and python3 with its standard library, none of dgx's programs and no network. It prints each step of the
# reasoning. Of a dispute it ends with "the statement falls" (exit 1) or "the statement stands" (exit 0). Of a ledger with rounds it recomputes
# the rounds, who was drawn to verify and to audit, what was drawn to be replayed, which witness had to be false, and who said so; it ends with
# "everything ... follows" (exit 0) or names what does not (exit 1), which convicts the operator. What was paid it does not recompute, and of entries
# about other tasks, and receipts but the last, it looks at ids and times alone: dgx-settle check looks at everything.
# Exit 2, whatever the cause: a file is missing or damaged, a program is missing or fails, something is not what it should be, the market has no
# rounds, or the dispute is not over, or is about time, a demanded chunk or row, or a row of the reason "step" or "state", which need another look.
#
# The rules are those of dgx-dispute(7), dgx-protocol(7) and dgx-manifest(5); the arithmetic is that of dgx-numerics(7).
set -eu
verdict=2 work=
trap 'rm -rf "$work"; exit "$verdict"' EXIT
trap 'exit 2' HUP INT TERM
if [ $# -ne 1 ] && [ $# -ne 2 ]; then
  echo "usage: $0 DISPUTE.jsonl [RULING.json], or $0 LEDGER.jsonl TASK-ID" >&2
  exit 2
fi
for program in openssl sha256sum base64 python3; do
  command -v "$program" >/dev/null || { echo "$0: needs $program" >&2; exit 2; }
done
work=$(mktemp -d)
parts=$(dirname "$0")/audit

# 1. Who says what. Each line is an envelope: {"payload":base64,"payloadType":...,"signatures":[{"keyid","sig"}]}. What is signed is
# "DSSEv1 28 application/vnd.in-toto+json LENGTH PAYLOAD", and a statement's id is the SHA-256 of just that.
rounds=
if [ $# -eq 2 ] && [ ! -e "$2" ] && [ -e "${1%.jsonl}.receipts.jsonl" ]; then
  rounds=yes
  python3 -B "$parts/rounds.py" pick "$work" "$1" "$2"
else
  python3 -B "$parts/envelopes.py" "$work" "$@"
fi
ls "$work" | grep -q '\.b64$' || { echo "$1: holds no statement" >&2; exit 2; }
echo "1. Signatures (openssl) and ids (sha256sum of what is signed)"
for b64 in "$work"/*.b64; do
  at=${b64%.b64}
  base64 -d "$b64" >"$at.payload"
  { printf 'DSSEv1 28 application/vnd.in-toto+json %s ' "$(wc -c <"$at.payload" | tr -d ' ')"; cat "$at.payload"; } >"$at.signed"
  sha256sum <"$at.signed" | cut -c1-64 | tr -d '\n' >"$at.id"
  if ! openssl pkeyutl -verify -rawin -pubin -inkey "$at.pem" -in "$at.signed" -sigfile "$at.sig" >/dev/null 2>&1; then
    echo "  statement $(basename "$at"): openssl does not verify the signature" >&2
    exit 2
  fi
  echo "  $(basename "$at")  id $(cat "$at.id")  signed by key id $(cat "$at.keyid")"
done

# 2. What follows from it. Python exits with 1 when it fails; so the statement falls with 10.
if [ -n "$rounds" ]; then
  python3 -B "$parts/rounds.py" follow "$work"
else
  python3 -B "$parts/follow.py" "$work" "$#"
fi && verdict=0 || { [ $? -ne 10 ] || verdict=1; }
