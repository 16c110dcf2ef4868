"""Makes the stored tasks and digests again: accept.py --bin FOLDER --accept. Needs libtorch and Fashion-MNIST.

Review the result with git diff: a changed digest is a changed numeric contract, and so a new version of it.
"""

import argparse
import json
import os
import tempfile

import tasks


def submit(bin_folder, folder, name, data):
    key = os.path.join(folder, f"{name}-key")
    tasks.run(bin_folder, "dgx-key", "new", key)
    return tasks.run(bin_folder, "dgx-submit", "--data", data, *tasks.SUBMIT[name], "--key", f"{key}.pem", "--force", "-o",
                     tasks.stored(name))[1]


def states(bin_folder, folder, name, data, steps):
    """State digests after these steps, and after the last."""
    found, run = {}, os.path.join(folder, f"{name}.run")
    for step in steps:
        found[str(step)] = tasks.train(bin_folder, tasks.stored(name), data, run, "--threads", "1", "--until", str(step))[1]["state"]
    last = tasks.train(bin_folder, tasks.stored(name), data, run, "--threads", "1")[1]
    found[str(last["steps"])] = last["state"]
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--accept", action="store_true", required=True, help="replace what is stored")
    options = parser.parse_args()
    tasks.needs.fashion_mnist("train-images")
    with tempfile.TemporaryDirectory(prefix="dgx-accept-") as folder:
        found = {}
        for name, pack, steps in (("quickstart", tasks.pack_quickstart, (20, 60)), ("small", tasks.pack_small, (20,))):
            data = pack(options.bin, folder)
            task = submit(options.bin, folder, name, data)
            found[name] = {"program": task["program"], "initial": task["initial_state"], "states": states(options.bin, folder, name, data, steps)}
    with open(tasks.DIGESTS, "w") as file:
        json.dump(found, file, indent=1, sort_keys=True)
        file.write("\n")


main()
