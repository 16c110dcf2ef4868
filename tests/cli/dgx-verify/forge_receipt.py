"""The receipt in receipts.jsonl as somebody else might have signed it: forge_receipt.py KEY [LEDGER]."""

import base64
import json
import subprocess
import sys

key, *ledger = sys.argv[1:]
payload = json.loads(base64.b64decode(json.load(open("receipts.jsonl"))["payload"]))
payload["predicate"]["signer"] = subprocess.run(f"grep -v -- ----- {key}.pub.pem | base64 -d | tail -c 32 | od -An -v -tx1 | tr -d ' \\n'", shell=True,
                                                capture_output=True, text=True).stdout
if ledger:
    payload["predicate"]["ledger"] = ledger[0]
with open("forged", "w") as file:
    json.dump(payload, file, sort_keys=True, separators=(",", ":"))
subprocess.run(["dgx-key", "sign", "forged", "--statement", "--key", f"{key}.pem"])
