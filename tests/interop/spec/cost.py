"""What a step, a task and a proof that diverged cost: dgx-program(5), "Cost", and dgx-money(7), "Estimate"."""

import math

BYTES = {"f32": 4, "i64": 8, "u8": 1}


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


def state_bytes(program):
    return sum(math.prod(line["s"]) * BYTES[line["t"]] for line in program if "next" in line)


def state_sizes(program):
    """Of a task's caps: the bytes of a state, and of its entries that no step changes, if there are any."""
    constant = state_bytes([line for line in program if line.get("next") == line["v"]])
    return {"bytes": state_bytes(program), **({"constant_bytes": constant} if constant else {})}


def step_operations(program):
    return sum(line_operations(line) for line in program)


def committed_steps(task, diverged=None):
    """The steps of the committed states, of a run that diverged at that step if one is given: dgx-protocol(7), "Segments"."""
    if diverged is not None:
        return [*range(0, diverged, task["checkpoint_every"]), diverged]
    whole, rest = divmod(task["steps"], task["checkpoint_every"])
    count = max(1, whole + 1 if rest >= 2 else whole)
    return [n * task["checkpoint_every"] for n in range(count)] + [task["steps"]]


def steps_of_proof(task, proof):
    return committed_steps(task, proof["steps"] if proof["diverged"] else None)


def confident_count(segments, miss, share):
    """The least q with C(segments - bad, q) / C(segments, q) <= miss / 10^6: dgx-protocol(7), "Draw"."""
    bad = max(1, segments * share // 10**6)
    return next(q for q in range(1, segments + 1) if math.comb(segments - bad, q) * 10**6 <= miss * math.comb(segments, q))


def drawn_count(task, segments):
    """Of a proof's segments."""
    policy, whole = task["policy"], len(committed_steps(task)) - 1
    confident = confident_count(whole, policy["miss_ppm"], policy["miss_share_ppm"]) if policy["miss_ppm"] else 0
    return min(segments, max(1, -(-segments * policy["sample_ppm"] // 10**6), confident))


def work(task, step_operations, trained, committed, checked):
    """Work and pay for `trained` steps, states at the steps `committed`, and a draw of their segments, with `checked` steps beside it."""
    policy, count = task["policy"], len(committed) - 1
    longest = max((end - start for start, end in zip(committed, committed[1:])), default=0)
    constant = task["caps"].get("constant_bytes", 0)
    hashed = constant + (task["caps"]["bytes"] - constant) * (count + 1)
    made = {"step_operations": step_operations, "train": trained * step_operations, "prove": 8 * hashed,
            "verify": (drawn_count(task, count) * longest + checked) * step_operations}
    made["reward"] = task["price"] * (made["train"] + made["prove"]) // 10**9
    made["fee"] = policy["verifier_fee"] + task["price"] * made["verify"] // 10**9
    made["tax"] = made["reward"] * policy["jackpot_tax_ppm"] // 10**6
    made["treasury"] = made["reward"] * policy["treasury_ppm"] // 10**6
    return made


def estimate(task, step_operations):
    made = work(task, step_operations, task["steps"], committed_steps(task), 0)
    made["margin"] = (made["reward"] + made["fee"]) * task["policy"]["margin_ppm"] // 10**6
    made["escrow"] = made["reward"] + made["fee"] + made["tax"] + made["treasury"] + made["margin"]
    return made


def split(task, step_operations, parts):
    """Estimates of consecutive parts of a task, the sums of their numbers, and by how much these are more than the whole's: dgx-submit(1)."""
    steps = committed_steps(task)
    count, out, first = len(steps) - 1, [], 0
    for part in range(parts):
        end = first + count // parts + (part < count % parts)
        alone = task | {"steps": steps[end] - steps[first]}
        out.append(estimate(alone, step_operations) | {"steps": alone["steps"], "segments": end - first, "sampled": drawn_count(alone, end - first)})
        del out[-1]["step_operations"]
        first = end
    total = {key: sum(part[key] for part in out) for key in out[0]}
    whole = estimate(task, step_operations) | {"steps": task["steps"], "segments": count, "sampled": drawn_count(task, count)}
    return out, total, {key: total[key] - whole[key] for key in total}


def worth(task, proof):
    """Reward, fee, tax and treasury of a proof: the task's, or of what was done until it diverged."""
    of_task, parts = task["estimate"], ("reward", "fee", "tax", "treasury")
    if not proof["diverged"]:
        return {part: of_task[part] for part in parts}
    made = work(task, of_task["step_operations"], proof["steps"] + 1, steps_of_proof(task, proof), 1)
    made["fee"] = min(made["fee"], of_task["fee"])
    return {part: made[part] for part in parts}
