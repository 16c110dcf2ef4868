"""The verdict of a liar, from true.json and its one row: lie.py CHANGE prints the payload to sign; the changed row goes to verdict.rows.jsonl."""

import base64
import hashlib
import json
import subprocess
import sys

payload = json.loads(base64.b64decode(json.load(open("true.json"))["payload"]))
predicate = payload["predicate"]
row = json.loads(open("true.rows.jsonl").read())
exec(sys.argv[1])
line = json.dumps(row, sort_keys=True, separators=(",", ":"))
root = hashlib.sha256(b"\0" + line.encode()).hexdigest()
with open("verdict.rows.jsonl", "w") as file:
    file.write(line + "\n")
predicate["rows"]["root"] = root
predicate["outcome"] = "accepted" if row["agrees"] else "refuted"
predicate.pop("first_disagreement", None)
if not row["agrees"]:
    predicate["first_disagreement"] = row
predicate["signer"] = subprocess.run("grep -v -- ----- liar.pub.pem | base64 -d | tail -c 32 | od -An -v -tx1 | tr -d ' \\n'", shell=True, capture_output=True,
                                     text=True).stdout
for subject in payload["subject"]:
    if subject["name"] == "rows":
        subject["digest"]["sha256"] = root
sys.stdout.write(json.dumps(payload, sort_keys=True, separators=(",", ":")))
