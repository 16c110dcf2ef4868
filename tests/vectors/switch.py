"""Vectors for the routing of `switch`, derived from dgx-lowerings(7), SWITCH, with Python's standard library:
/usr/bin/python3 tests/vectors/switch.py > tests/vectors/switch.json
/usr/bin/python3 tests/vectors/switch.py check      exits 1 unless switch.json is as it would be made"""
import json
import math
import pathlib
import random
import sys

HERE = pathlib.Path(__file__).resolve().parent


def slots_of(tokens, capacity, experts):
    """C: the product and the quotient are binary64."""
    return min(tokens, math.ceil(tokens * capacity / experts))


def route(probabilities, capacity):
    """One sample: its tokens' probabilities, in integers, since only their order matters. Tokens are served one after another."""
    tokens, experts = len(probabilities), len(probabilities[0])
    room = slots_of(tokens, capacity, experts)
    served = [0] * experts
    chosen, places, slots = [], [], []
    owners = [tokens] * (experts * room)
    for token, row in enumerate(probabilities):
        expert = row.index(max(row))  # the first of equal ones
        chosen.append(expert)
        places.append(served[expert])
        slots.append(experts * room)
        if served[expert] < room:
            slots[-1] = expert * room + served[expert]
            owners[slots[-1]] = token
        served[expert] += 1
    return {"chosen": chosen, "places": places, "slots": slots, "tokens": owners, "counts": served, "probabilities": probabilities}


def drawn(seed, samples, tokens, experts, most):
    chance = random.Random(seed)
    return [[[chance.randint(0, most) for _ in range(experts)] for _ in range(tokens)] for _ in range(samples)]


def cases():
    yield "drawn", 4, 1.25, drawn(1, 3, 8, 4, 1000)
    yield "all tokens choose one expert", 3, 1.0, [[[0, 2, 1]] * 7, [[1, 0, 2]] * 7]
    yield "ties", 4, 1.25, [[[5, 5, 5, 5], [1, 7, 7, 0], [0, 3, 2, 3], [0, 0, 0, 9], [4, 4, 4, 4], [0, 0, 6, 6]], [[0] * 4] * 6]
    yield "drawn ties", 5, 1.0, drawn(2, 2, 11, 5, 2)
    yield "an expert gets nothing", 3, 1.25, [[[9, 0, 1], [0, 1, 9], [9, 8, 0], [0, 1, 2], [2, 1, 0]]]
    yield "capacity below 1", 2, 0.3, drawn(3, 2, 9, 2, 50)
    yield "one slot", 4, 1e-9, drawn(4, 1, 9, 4, 50)
    yield "nobody goes without", 3, 3.0, drawn(5, 2, 6, 3, 4)
    yield "more slots than tokens are not made", 2, 1024.0, drawn(6, 1, 4, 2, 4)
    yield "one expert", 1, 1.25, drawn(7, 2, 5, 1, 4)
    yield "one expert with few slots", 1, 0.5, drawn(8, 2, 5, 1, 4)
    yield "one token", 3, 1.25, drawn(9, 2, 1, 3, 9)
    yield "rounding", 7, 1.1, drawn(10, 1, 70, 7, 9)


# Capacities whose product in binary64 is not the decimal one, and those at the ends of their range.
SLOTS = [(70, 1.1, 77), (256, 1.25, 4), (256, 1.25, 3), (10, 0.7, 7), (1, 1e-300, 1024), (5, 1024.0, 1), (1 << 20, 0.999999, 1024), (100, 1.0, 33)]


def made():
    out = {"cases": [], "slots": [{"tokens": t, "capacity": repr(c), "experts": e, "slots": slots_of(t, c, e)} for t, c, e in SLOTS]}
    for name, experts, capacity, samples in cases():
        out["cases"].append({"name": name, "experts": experts, "capacity": repr(capacity), "slots": slots_of(len(samples[0]), capacity, experts),
                             "samples": [route(sample, capacity) for sample in samples]})
    return json.dumps(out, sort_keys=True, separators=(",", ":")) + "\n"


if __name__ == "__main__":
    text = made()
    if sys.argv[1:] == ["check"]:
        sys.exit(0 if (HERE / "switch.json").read_text() == text else "switch.json is not what switch.py makes")
    sys.stdout.write(text)
