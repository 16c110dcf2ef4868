"""What scripts rely on, of the built programs: scripts.py --bin FOLDER

With --json numbers are numbers, their bits are beside them where bits count, and what has no value is null or absent.
"""

import base64
import json
import pathlib
import struct

from refusals import call, check, run_tests, train


def no_constant(word):
    raise ValueError(f"{word} is no JSON")


def said(*words, codes=(0,)):
    """The last object of what a program prints with --json."""
    done = call(*words, "--json")
    check(done.returncode in codes, f"{words}: exit {done.returncode}: {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1], parse_constant=no_constant)


def is_binary32(value, in_hex):
    """Whether the number is what its hex says, and a binary32."""
    return isinstance(value, float) and value == float.fromhex(in_hex) and struct.unpack("<f", struct.pack("<f", value))[0] == value


def numbers():
    trained = said(*train("run"))
    check(is_binary32(trained["loss"], trained["loss_hex"]), f"dgx-train: loss {trained['loss']}, {trained['loss_hex']}")
    check(isinstance(trained["seconds"], float), f"dgx-train: seconds {trained['seconds']!r}")
    proved = said("dgx-prove", "small.json", "run", "--key", "stranger.pem", "-o", "proof.json")
    signed = json.loads(base64.b64decode(json.loads(pathlib.Path("proof.json").read_text())["payload"]))["predicate"]["loss"]["value"]
    check((proved["loss"], proved["loss_hex"]) == (trained["loss"], signed), f"dgx-prove: loss {proved['loss']}, {proved['loss_hex']}; signed {signed}")
    quoted = said("dgx-inspect", "proof.json")["predicate"]["loss"]["value"]
    check(quoted == signed, f"dgx-inspect: the proof's loss is quoted as {quoted!r}")
    rows = said("dgx-inspect", "run")["checkpoints"]
    check(rows[0]["loss"] is None and rows[-1]["loss"] == trained["loss"], f"dgx-inspect run: losses {rows[0]['loss']!r}, {rows[-1]['loss']!r}")
    verified = said("dgx-verify", "small.json", "proof.json", "--from", "run", "--data", "small.h5", "--segments", "3", "--key", "stranger.pem", "-o",
                    "verdict.json")
    check(abs(verified["miss_probability"]["one_segment"] - (1 - 1 / len(rows[1:]))) < 1e-6, f"dgx-verify: {verified['miss_probability']}")
    check(said("dgx-key", "--version")["json"] == 2, "--version: which version of JSON")


if __name__ == "__main__":
    run_tests(numbers)
