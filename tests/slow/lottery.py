"""Nobody can tell a forced verdict from another: lottery.py --bin FOLDER [--verdicts N] [--jobs J]

N acceptances of one proof, by dgx-verify, each for an offer with a key and a secret of its own, in a market that forces every second one: their sizes are equal, a classifier that was
trained on the bytes of half of them is right about the others as often as a coin, and dgx-verify takes no longer for the ones than for the others. Which are forced follows from
the secrets, computed here.
"""

import argparse
import base64
import concurrent.futures
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
sys.path.insert(0, str(HERE.parent / "interop"))
import needs  # noqa: E402

needs.modules("cryptography", "numpy")
import audits  # noqa: E402
from cryptography.hazmat.primitives import serialization  # noqa: E402
from cryptography.hazmat.primitives.asymmetric import ed25519  # noqa: E402
import numpy  # noqa: E402
from audits import lot, sealed, statements  # noqa: E402

RATE = 500000
KEPT = 64  # most inputs of the classifier
EXAMPLES = 25  # that the classifier sees for each of its inputs, at least: with fewer it learns noise, and misses even a bit that was planted
STEPS = 65536


def sha(*parts):
    return hashlib.sha256(b"".join(part if isinstance(part, bytes) else bytes.fromhex(part) for part in parts)).hexdigest()


class Scene:
    """A proved task with an opening of all of it, a round, and what makes offers."""

    def __init__(self, programs):
        self.env = os.environ | {"PATH": os.path.abspath(programs) + os.pathsep + os.environ["PATH"]}
        self.do("sh", "-c", f"sh {HERE.parent}/cli/tiny_task.sh 300000 && rm -rf run task.*")
        self.do("dgx-key", "new", "operator")
        pathlib.Path("policy.json").write_text(json.dumps(audits.POLICY | {"audit_ppm": 0, "forced_error_ppm": RATE}))
        self.do("dgx-settle", "init", "L.jsonl", "--key", "operator.pem", "--policy", "policy.json")
        self.do("dgx-submit", "--data", "data.h5", "--model", "mlp:4-8-3", "--loss", "cross-entropy", "--optimizer", "sgd:lr=0.1,momentum=0.9", "--batch", "8", "--steps", "40",
                "--checkpoint-every", "4", "--seed", "7", "--price", "1000000000", "--ledger", "L.jsonl", "--key", "submitter.pem", "-o", "task.json")
        self.do("dgx-train", "task.json", "--data", "data.h5", "-o", "run", "-q")
        self.do("dgx-prove", "task.json", "run", "--key", "solver.pem", "-o", "proof.json", "-q")
        self.task, _, body = statements.read("task.json")
        self.proof = statements.read("proof.json")[0]
        self.value = self.round(body["ledger"])
        self.held = {"task": self.task, "dataset": body["dataset"]["digest"], "initial": body["initial"]["digest"], "segment_milliseconds": 1, "bond": 200000}

    def do(self, *words):
        subprocess.run(words, check=True, env=self.env, stdout=subprocess.DEVNULL)

    def round(self, ledger):
        """Writes a round that nobody waited for, and returns its value."""
        last = sha(b"the end of a chain")
        value = sha(b"dgx-round", last)
        root = sha(b"a head")
        body = {"ledger": ledger, "slot": 1, "head": {"count": 1, "root": root}, "source": "delay", "steps": STEPS, "checkpoints": base64.b64encode(bytes.fromhex(last)).decode(),
                "value": value}
        pathlib.Path("round.json").write_text(sealed("round", body, [("head", root), ("value", value)], "operator.pem"))
        return value

    def is_forced(self, secret):
        return int(lot("forced", self.value, secret, self.proof)[:16], 16) < RATE * 2**64 // 10**6

    def offer(self, number, secret):
        """Writes an offer, by a key of its own: of one key all true witnesses of one proof are the same, so two verdicts of it would tell."""
        commitment = sha(b"dgx-beacon-commit", secret)
        key = ed25519.Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"key of " + secret.encode()).digest())
        text = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        with open(os.open(f"key{number}.pem", os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(text)
        pathlib.Path(f"offer{number}.json").write_text(sealed("beacon-commitment", self.held | {"commitment": commitment}, [("task", self.task), ("commitment", commitment)], f"key{number}.pem"))
        pathlib.Path(f"offer{number}.secret").write_text(secret + "\n")

    def verdict(self, number):
        """The verdict's payload, the seconds that it took, the size of its rows, and what was printed of it."""
        offer = f"offer{number}"
        begin = time.perf_counter()
        said = subprocess.run(["dgx-verify", "task.json", "proof.json", "--from", "run", "--data", "data.h5", "--round", "round.json", "--commit", f"{offer}.json", "--key", f"key{number}.pem",
                               "-o", f"v{number}.json", "--threads", "1"], check=True, env=self.env, capture_output=True)
        seconds = time.perf_counter() - begin
        payload = base64.b64decode(json.loads(pathlib.Path(f"v{number}.json").read_text())["payload"])
        rows = pathlib.Path(f"v{number}.rows.jsonl").stat().st_size
        for name in (f"v{number}.json", f"v{number}.rows.jsonl", f"{offer}.json", f"{offer}.secret", f"key{number}.pem"):
            os.remove(name)
        lines = [line.split(b":")[0] for line in said.stdout.splitlines()]  # the names of what is printed
        return payload, seconds, rows, lines


def secrets(scene, count):
    """So many secrets, every second of which forces an error, in an order that says nothing."""
    found = {True: [], False: []}
    number = 0
    while min(map(len, found.values())) < count // 2:
        secret = sha(b"secret", str(number).encode())
        if len(found[scene.is_forced(secret)]) < count // 2:
            found[scene.is_forced(secret)].append(secret)
        number += 1
    both = [(secret, forced) for forced, some in found.items() for secret in some]
    return [both[place] for place in numpy.random.default_rng(20).permutation(len(both))]


def features(payloads):
    """The bits of everything in the payloads that differs: base64 and hexadecimal digits are decoded."""
    rows = []
    for payload in payloads:
        body = json.loads(payload)["predicate"]
        words = [base64.b64decode(body["witnesses"]), bytes.fromhex(body["nonce"]), bytes.fromhex(body["rows"]["root"])]
        rows.append(numpy.concatenate([numpy.frombuffer(payload, numpy.uint8) / 128.0 - 1, numpy.unpackbits(numpy.frombuffer(b"".join(words), numpy.uint8)) * 2.0 - 1]))
    out = numpy.array(rows)
    return out[:, out.std(axis=0) > 0]


def right(inputs, labels):
    """The share of the second half about which a logistic regression, trained on the first and on the inputs that say most there, is right."""
    half = len(labels) // 2
    told = numpy.abs((inputs[:half] - inputs[:half].mean(axis=0)).T @ (labels[:half] - labels[:half].mean())) / (inputs[:half].std(axis=0) + 1e-9)
    inputs = inputs[:, numpy.argsort(told)[-min(KEPT, half // EXAMPLES):]]
    weights, bias = numpy.zeros(inputs.shape[1]), 0.0
    for _ in range(300):
        error = 1 / (1 + numpy.exp(-(inputs[:half] @ weights + bias))) - labels[:half]
        weights -= 0.2 * (inputs[:half].T @ error / half + 1e-3 * weights)
        bias -= 0.2 * error.mean()
    return float(((inputs[half:] @ weights + bias > 0) == labels[half:]).mean())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--verdicts", type=int, default=400)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--within", type=float, help="how far from a half the classifier may be; four times its own spread unless given")
    options = parser.parse_args()
    programs = os.path.abspath(options.bin)
    with tempfile.TemporaryDirectory(prefix="dgx-lottery-") as folder:
        os.chdir(folder)
        scene = Scene(programs)
        drawn = secrets(scene, options.verdicts)
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for number, (secret, _) in enumerate(drawn):
                scene.offer(number, secret)
            made = list(pool.map(scene.verdict, range(len(drawn))))
        os.chdir("/")
    labels = numpy.array([forced for _, forced in drawn], float)
    payloads = [payload for payload, _, _, _ in made]
    told = {"sizes": len({len(payload) for payload in payloads}), "rows": len({rows for _, _, rows, _ in made}), "lines": len({tuple(lines) for _, _, _, lines in made})}
    inputs = features(payloads)
    found = right(inputs, labels)
    spread = 0.5 / (len(labels) - len(labels) // 2) ** 0.5
    within = 4 * spread if options.within is None else options.within
    # A classifier that finds nothing finds what is planted: a bit of the label, in one of the inputs.
    planted = right(numpy.hstack([inputs, (labels * 2 - 1)[:, None] * 1.0]), labels)
    seconds = numpy.array([taken for _, taken, _, _ in made])
    means = [float(numpy.median(seconds[labels == forced])) for forced in (0, 1)]
    deviation = float(numpy.percentile(seconds, 75) - numpy.percentile(seconds, 25))
    print(f"{len(labels)} verdicts, half forced: {told['sizes']} size, {told['rows']} size of rows, {told['lines']} form of output; the classifier is right in {100 * found:.2f} % "
          f"(spread {100 * spread:.2f}, allowed {100 * within:.2f}), with a planted bit in {100 * planted:.1f} %; seconds {means[0]:.4f} and {means[1]:.4f}, middle half {deviation:.4f} wide")
    failed = [name for name, count in told.items() if count != 1]
    if abs(found - 0.5) > within:
        failed.append("classifier")
    if planted < 0.95:
        failed.append("planted bit")
    if abs(means[0] - means[1]) > deviation:
        failed.append("time")
    if failed:
        sys.exit(f"FAILED: {failed}")


if __name__ == "__main__":
    main()
