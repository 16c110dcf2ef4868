"""What a step and a task cost: dgx-program(5), "Cost", and dgx-money(7), "Estimate"."""

import math


def blocks(count, size):
    return -(-count // size)


def fold_operations(line):
    """Of one element, besides its steps."""
    positions = math.prod(line["f"])
    if line["k"] == "dot":
        return positions + blocks(positions, 256) + blocks(positions, 4096)
    if line["k"] == "sum":
        total, count = 0, positions
        while True:
            total += count + 31 * blocks(count, 2048)
            if count <= 2048:
                return total
            count = blocks(count, 2048)
    return positions * {"max": 2 if line["t"] == "f32" else 1, "argmax": 2, "chain": 0}[line["k"]]


def line_operations(line):
    if line["k"] == "input":
        return 0
    each = math.prod(line.get("f", [])) * (len(line.get("do", [])) + len(line.get("when", [])))
    if line["k"] == "map":
        return math.prod(line["s"]) * each
    return math.prod(line["s"]) * (each + fold_operations(line))


def step_operations(program):
    return sum(line_operations(line) for line in program)


def committed_steps(task):
    """Where the segments begin and end: dgx-protocol(7), "Segments"."""
    whole, rest = divmod(task["steps"], task["checkpoint_every"])
    count = max(1, whole + 1 if rest >= 2 else whole)
    return [n * task["checkpoint_every"] for n in range(count)] + [task["steps"]]


def estimate(task, step_operations):
    policy, steps = task["policy"], committed_steps(task)
    count, longest = len(steps) - 1, max(end - start for start, end in zip(steps, steps[1:]))
    drawn = min(count, max(1, -(-count * policy["sample_ppm"] // 10**6)))
    made = {"step_operations": step_operations, "train": task["steps"] * step_operations,
            "prove": 8 * task["caps"]["bytes"] * (count + 1),
            "verify": drawn * longest * step_operations}
    made["reward"] = task["price"] * (made["train"] + made["prove"]) // 10**9
    made["fee"] = policy["verifier_fee"] + task["price"] * made["verify"] // 10**9
    made["tax"] = made["reward"] * policy["jackpot_tax_ppm"] // 10**6
    made["treasury"] = made["reward"] * policy["treasury_ppm"] // 10**6
    made["margin"] = (made["reward"] + made["fee"]) * policy["margin_ppm"] // 10**6
    made["escrow"] = made["reward"] + made["fee"] + made["tax"] + made["treasury"] + made["margin"]
    return made
