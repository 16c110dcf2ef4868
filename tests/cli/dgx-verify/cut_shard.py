"""Prints a shard with its first N rows only: cut_shard.py SHARD.json N."""

import json
import sys

shard = json.load(open(sys.argv[1]))
shard["rows"] = shard["rows"][:int(sys.argv[2])]
print(json.dumps(shard, sort_keys=True, separators=(",", ":")))
