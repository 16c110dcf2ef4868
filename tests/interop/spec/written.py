"""Tasks written from the pages, without dgx-submit: any step program becomes a signed task that dgx-train takes."""

import base64
import hashlib

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from . import cost, digests, inputs, statements

# Any key will do: nobody need trust it.
KEY = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"a key of the interop tests").digest())
POLICY = {"audit_ppm": 0, "beacon_slot_ms": 60000, "beacon_source": 0, "beacon_steps": 1 << 33, "challenger_bond": 10000,
          "challenger_bond_ppm": 0, "forced_error_ppm": 0, "jackpot": 0, "jackpot_tax_ppm": 20000, "margin_ppm": 100000,
          "miss_ppm": 0, "miss_share_ppm": 100000, "sample_ppm": 50000, "solver_bond": 10000, "solver_bond_ppm": 200000, "split_jackpot_ppm": 250000, "split_submitter_ppm": 500000,
          "split_verifier_ppm": 250000, "store_bytes": 1 << 36, "treasury_ppm": 0, "unsafe_bonds": 0, "segment_operations": 4500000000000,
          "verifier_bond": 10000, "verifier_bond_ppm": 100000, "verifier_fee": 100, "window_challenge_ms": 86400000,
          "window_delivery_ms": 86400000, "window_move_ms": 3600000, "window_proof_ms": 604800000, "window_reveal_ms": 86400000}


def signed(kind, predicate, subjects, key=KEY):
    """An envelope with the statement."""
    public = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()
    statement = {"_type": "https://in-toto.io/Statement/v1", "predicate": {**predicate, "signer": public},
                 "predicateType": f"urn:x-dgx:{kind}:v2",
                 "subject": [{"digest": {"sha256": digest}, "name": name} for name, digest in subjects]}
    body = statements.canonical(statement)
    signature = key.sign(statements.pre_authentication(body))
    return statements.canonical({"payload": base64.b64encode(body).decode(), "payloadType": statements.PAYLOAD_TYPE,
                                 "signatures": [{"keyid": statements.key_id(public), "sig": base64.b64encode(signature).decode()}]})


def text_of(program):
    return b"".join(statements.canonical(line) + b"\n" for line in program)


def task_of(program, evaluation, data, recipe, options, initial=None):
    """The predicate; `options` has batch, steps, checkpoint_every, seed, optimizer, schedule, loss. `initial`: a state of the task's own."""
    from_seed = {} if initial else inputs.initial_state(program, int(options["seed"]))
    fields = {name: {"dtype": {"<f4": "f32", "<i8": "i64", "|u1": "u8"}[array.dtype.str], "shape": list(array.shape[1:])}
              for name, array in data.items()}
    others = {name: fields.pop(name) for name in list(fields) if name not in ("x", "y")}
    if others:
        fields["fields"] = others
    task = {"program": {"lines": len(program), "root": digests.lines(text_of(program))},
            "evaluation": {"lines": len(evaluation), "root": digests.lines(text_of(evaluation))},
            "initial": {"digest": digests.state(initial or from_seed), "source": "file" if initial else "seed"},
            "dataset": {"digest": digests.dataset(data, recipe), "samples": len(data["x"]), **fields},
            "model": "mlp:3-5", "numerics": "exact-1", "policy": POLICY, "price": 1000,
            "caps": {"milliseconds": 3600000, "steps": options["steps"], **cost.state_sizes(program)}, **options}
    task["estimate"] = cost.estimate(task, cost.step_operations(program))
    return task


def write_task(path, program, evaluation, task):
    subjects = [(name, task[name]["root"]) for name in ("program", "evaluation")]
    subjects += [(name, task[name]["digest"]) for name in ("initial", "dataset")]
    for ending, lines in (("program", program), ("eval", evaluation)):
        with open(path.removesuffix(".json") + f".{ending}.jsonl", "wb") as file:
            file.write(text_of(lines))
    with open(path, "wb") as file:
        file.write(signed("task", task, subjects) + b"\n")
