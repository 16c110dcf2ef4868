"""Vectors for rounds, drawn verifiers, audits and forced errors, derived from dgx-protocol(7), ROUNDS to FORCED ERRORS, by hashlib and whole numbers alone; it uses no code of
dgx. It compares rounds.json with what it derives; --accept writes it: /usr/bin/python3 tests/vectors/rounds.py --accept"""
import hashlib
import json
import pathlib
import random
import sys


def sha(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def u64(number):
    return number.to_bytes(8, "big")


def word(text):
    return sha(text.encode())


def interval(steps):
    return max(2**20, -(-steps // 1024))


def delay(ledger, slot, count, root, steps):
    """The start, the checkpoints and the value of a chain."""
    start = at = sha(b"dgx-delay", ledger, u64(slot), u64(count), root)
    checkpoints = []
    for step in range(1, steps + 1):
        at = hashlib.sha256(at).digest()
        if step % interval(steps) == 0 or step == steps:
            checkpoints.append(at)
    return start, checkpoints, sha(b"dgx-round", at)


def pulse(slot, slot_ms):
    wanted = (slot + 2) * slot_ms
    return 1 + max(0, -(-(wanted - 1692803367000) // 3000))


def lot(tag, round_value, *ids):
    return sha(b"dgx-", tag.encode(), round_value, *ids)


def drawn(round_value, proof, offers):
    """Up to three of the offers, (key id, bond), one after another: index, ticket, where the stretch begins, sum of bonds."""
    left, out = sorted(offers), []
    while left and len(out) < 3:
        total = sum(bond for _, bond in left)
        ticket = int.from_bytes(lot("verifier", round_value, proof, u64(len(out)))[:16], "big") % total
        begin = 0
        for key, bond in left:
            if ticket < begin + bond:
                break
            begin += bond
        out.append({"offer": offers.index((key, bond)), "ticket": ticket, "from": begin, "sum": total})
        left.remove((key, bond))
    return out


def delays():
    for slot, count, steps in ((0, 1, 2**16), (28_300_000, 12, 2**16 + 1), (7, 3, 2**20 + 5)):
        start, checkpoints, value = delay(word("ledger"), slot, count, word("root"), steps)
        yield {"slot": slot, "count": count, "steps": steps, "start": start.hex(), "checkpoints": [one.hex() for one in checkpoints], "value": value.hex()}


def draws():
    rng = random.Random(20)
    for number in range(40):
        size = rng.choice((1, 2, 3, 4, 10, 64))
        bonds = [rng.choice((1, 501, 2**53 // size, rng.randrange(1, 10**6))) for _ in range(size)]
        offers = [(word(f"key {number} {i}"), bond) for i, bond in enumerate(bonds)]
        found = drawn(word(f"round {number}"), word(f"proof {number}"), offers)
        yield {"round": f"round {number}", "proof": f"proof {number}", "keys": f"key {number} ", "bonds": bonds, "drawn": found}


def audits():
    """Whether a verdict is audited, and by which of the offers, (key id, bond)."""
    rng = random.Random(21)
    for number in range(60):
        size = rng.choice((1, 2, 3, 63))
        bonds = [rng.choice((1, 501, 2**53 // size, rng.randrange(1, 10**6))) for _ in range(size)]
        offers = sorted((word(f"key {number} {i}"), bond, i) for i, bond in enumerate(bonds))
        value, verdict = word(f"round {number}"), word(f"verdict {number}")
        chance = int.from_bytes(lot("audit", value, verdict)[:8], "big")
        least = next(ppm for ppm in range(10**6 + 1) if chance < ppm * 2**64 // 10**6)  # the least audit_ppm with which it is
        total = sum(bonds)
        ticket, begin = int.from_bytes(lot("auditor", value, verdict)[:16], "big") % total, 0
        for _, bond, index in offers:
            if ticket < begin + bond:
                break
            begin += bond
        yield {"round": f"round {number}", "verdict": f"verdict {number}", "keys": f"key {number} ", "bonds": bonds, "least_ppm": least, "offer": index,
               "ticket": ticket, "from": begin, "sum": total}


def forced():
    """Whether an error is forced in an acceptance of all segments of a proof, in which one, and the false witness."""
    for number in range(60):
        segments = (1, 2, 3, 10, 365, 1000)[number % 6]
        found = lot("forced", word(f"round {number}"), word(f"secret {number}"), word(f"proof {number}"))
        chance = int.from_bytes(found[:8], "big")
        least = next(ppm for ppm in range(10**6 + 1) if chance < ppm * 2**64 // 10**6)
        witness = sha(b"dgx-witness", word("key"), word(f"state {number}"))
        yield {"round": f"round {number}", "secret": f"secret {number}", "proof": f"proof {number}", "segments": segments, "least_ppm": least,
               "segment": int.from_bytes(found[8:16], "big") % segments, "witness": witness.hex(), "false": sha(b"dgx-false-witness", witness).hex()}


def main():
    vectors = {
        "delays": list(delays()),
        "intervals": [[steps, interval(steps), -(-steps // interval(steps))]
                      for steps in (2**16, 2**20, 2**20 + 1, 2**30 - 1, 2**30, 2**30 + 1, 2**33, 2**40 - 1, 2**40)],
        "pulses": [[slot, slot_ms, pulse(slot, slot_ms)] for slot, slot_ms in
                   ((28_300_000, 60_000), (0, 60_000), (28_213_388, 60_000), (28_213_389, 60_000), (1_692_803_365, 1_000), (1_692_803_366, 1_000), (20_000, 86_400_000))],
        "draws": list(draws()),
        "audits": list(audits()),
        "forced": list(forced()),
    }
    rows = ",\n".join(f'"{name}":[\n' + ",\n".join(json.dumps(one, separators=(",", ":")) for one in found) + "\n]" for name, found in vectors.items())
    path = pathlib.Path(__file__).resolve().parent / "rounds.json"
    if "--accept" in sys.argv:
        path.write_text("{" + rows + "}\n", encoding="utf-8")
    elif path.read_text(encoding="utf-8") != "{" + rows + "}\n":
        sys.exit("rounds.json is not what this script writes")


if __name__ == "__main__":
    main()
