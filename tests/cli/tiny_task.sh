# What most cases need: keys, data of 40 samples in three classes, a task of 10 segments of 4 steps, and a finished run.
# usage: sh tiny_task.sh SAMPLE_PPM   (1000000: the policy draws every segment)
set -e
/usr/bin/python3 - "$1" <<'PY'
import json, sys
import numpy as np
i, j = np.arange(40)[:, None], np.arange(4)[None, :]
np.save("x.npy", (((i * 37 + j * 101 + i * j * 13) % 97) / 97).astype("<f4"))
np.save("y.npy", (np.arange(40) % 3).astype("<i8"))
json.dump({"sample_ppm": int(sys.argv[1])}, open("policy.json", "w"))
PY
for role in submitter solver verifier; do dgx-key new $role; done
dgx-pack npy --x x.npy --y y.npy -o data.h5
dgx-submit --data data.h5 --model mlp:4-8-3 --loss cross-entropy --optimizer sgd:lr=0.1,momentum=0.9 --batch 8 --steps 40 \
  --checkpoint-every 4 --seed 7 --policy policy.json --key submitter.pem -o task.json
dgx-train task.json --data data.h5 -o run
