"""The beginning of a shard as its maker writes it (dgx-verify(1), WORK KEYS): cut_shard.py SHARD.json ROWS KEY [FIELD=VALUE ...]."""

import hashlib
import json
import sys

path, rows, key, *changes = sys.argv[1:]
shard = json.loads(open(path).readline())
shard |= {"role": "part", "rows": shard["rows"][:int(rows)]} | {name: json.loads(value) for name, value in (change.split("=") for change in changes)}
line = json.dumps(shard, sort_keys=True, separators=(",", ":"))
print(line)
print(hashlib.blake2b(line.encode(), key=open(key, "rb").read(), digest_size=32).hexdigest())
