"""What a step's inputs are derived from: dgx-numerics(7), "Inputs derived from the task"."""

import math

import numpy as np

from . import numbers

WEIGHTS, ORDER, DROPOUT = 1, 2, 3
LOW = np.uint64(0xFFFFFFFF)
SHIFT = np.uint64(32)


def philox(counter, key):
    """Philox4x32-10 on arrays of 32-bit words, each held in a uint64."""
    c = [np.asarray(word, np.uint64) for word in counter]
    k0, k1 = key
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(p1 >> SHIFT) ^ c[1] ^ np.uint64(k0), p1 & LOW, (p0 >> SHIFT) ^ c[3] ^ np.uint64(k1), p0 & LOW]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c


def key_of(seed):
    return seed & 0xFFFFFFFF, seed >> 32


def uniform(seed, kind, ordinal, step, count):
    element = np.arange(count, dtype=np.uint64)
    words = philox([element & LOW, element >> SHIFT, np.full(count, step & 0xFFFFFFFF, np.uint64),
                    np.full(count, (kind << 24) + ordinal, np.uint64)], key_of(seed))
    return uniform_of(words)


def uniform_of(words):
    return (words[0] >> np.uint64(8)).astype(np.float32) * np.float32(2.0**-24)


def normal(seed, kind, ordinal, count):
    """Of step 0."""
    element = np.arange(count, dtype=np.uint64)
    words = philox([element & LOW, element >> SHIFT, np.zeros(count, np.uint64), np.full(count, (kind << 24) + ordinal, np.uint64)],
                   key_of(seed))
    return normal_of(words)


def normal_of(words):
    """Box and Muller in binary32."""
    u = ((words[0] >> np.uint64(8)) + np.uint64(1)).astype(np.float32) * np.float32(2.0**-24)
    v = (words[1] >> np.uint64(8)).astype(np.float32) * np.float32(2.0**-24)
    radius = np.sqrt(np.float32(-2) * numbers.apply("log", [u]))
    return radius * numbers.cosine(np.float32(float.fromhex("0x1.921fb6p+2")) * v)


def samples_at(seed, samples, positions):
    """The samples that these positions take: six Feistel rounds, walked until inside."""
    positions = np.asarray(positions, np.uint64)
    epoch, x = np.divmod(positions, np.uint64(samples))
    half = np.uint64(((samples - 1).bit_length() + 1) // 2)
    mask = (np.uint64(1) << half) - np.uint64(1)
    outside = np.ones(len(x), bool)
    while outside.any():
        left, right = x[outside] >> half, x[outside] & mask
        for round_number in range(6):
            word = philox([right, epoch[outside], np.uint64(round_number), np.uint64(ORDER << 24)], key_of(seed))[0]
            left, right = right, left ^ (word & mask)
        x[outside] = left << half | right
        outside = x >= np.uint64(samples)
    return [int(sample) for sample in x]


def batch_indices(seed, samples, batch, step):
    return samples_at(seed, samples, range(step * batch, (step + 1) * batch))


def start_of(kind, name, shapes):
    """("uniform", bound), ("normal", deviation) or ("number", value) of one model entry."""
    weight = shapes[name.rpartition(".")[0] + ".weight"]["s"]
    last = name.rpartition(".")[2]
    fan_in = np.float32(math.prod(weight[1:]))
    if kind == "switch" and name.endswith(".router.weight"):
        return "normal", np.float32(0.002)
    if kind in ("gpt", "switch"):
        if last == "bias" or len(weight) == 1:
            return "number", 0 if last == "bias" else 1
        deviation = np.float32(0.02)
        if name.endswith(".c_proj.weight"):
            blocks = sum(other.endswith(".attn.c_proj.weight") for other in shapes if other.startswith("model/"))
            deviation = deviation / np.sqrt(np.float32(2 * blocks))
        return "normal", deviation
    if kind == "resnet20" and len(weight) == 1:
        return "number", 1 if last in ("weight", "running_var") else 0
    if kind == "resnet20" and len(weight) == 4:
        return "normal", np.sqrt(np.float32(2) / fan_in)
    return "uniform", np.float32(1) / np.sqrt(fan_in)


def initial_state(program, seed, model="mlp"):
    """Of a built-in model; `model` is the task's."""
    state = {}
    shapes = {line["src"][len("state "):]: line for line in program if line.get("src", "").startswith("state ")}
    for name, line in shapes.items():
        state[name] = np.zeros(line["s"], {"f32": "<f4", "i64": "<i8", "u8": "|u1"}[line["t"]])
    models = sorted((name for name in shapes if name.startswith("model/")), key=str.encode)
    for ordinal, name in enumerate(models):
        how, number = start_of(model.partition(":")[0], name, shapes)
        if how == "number":
            state[name][...] = number
        elif how == "normal":
            state[name][...] = (normal(seed, WEIGHTS, ordinal, state[name].size) * number).reshape(state[name].shape)
        else:
            values = uniform(seed, WEIGHTS, ordinal, 0, state[name].size)
            state[name][...] = ((np.float32(2) * values - np.float32(1)) * number).reshape(state[name].shape)
    for name in shapes:
        parameter = name.replace("optimizer/ema/", "model/", 1)
        if parameter != name and parameter in shapes:
            state[name] = state[parameter].copy()
    return state


def power(x, t):
    result = 1.0
    while t > 0:
        if t % 2:
            result *= x
        t //= 2
        if t:
            x *= x
    return result


def learning_rate(task, step):
    """Of an update, numbered from 0."""
    optimizer, schedule = task["optimizer"], task["schedule"]
    rate, steps = float.fromhex(optimizer["lr"]), task["steps"] // task.get("accumulate", 1)
    if schedule["kind"] == "one-cycle":
        return one_cycle(rate, schedule, steps, step)
    warmup = schedule["warmup"]
    if step < warmup:
        return rate * ((step + 1) / warmup)
    if schedule["kind"] in ("constant", "plateau"):
        return rate
    if schedule["kind"] == "inverse-sqrt":
        return rate / math.sqrt(step / warmup)
    if schedule["kind"] == "wsd":
        return stable_then_linear(rate, schedule, steps, step)
    if schedule["kind"] == "step":
        return rate * power(float.fromhex(schedule["gamma"]), (step - warmup) // schedule["every"])
    lowest, past, length = float.fromhex(schedule["min"]), step - warmup, steps - warmup
    if schedule["kind"] == "cosine":
        past = schedule.get("cycles", 1) * past % length
    progress = 1.0 if step >= steps else past / length
    if schedule["kind"] == "cosine":
        return fall(rate, lowest, progress)
    left = 1.0 - progress
    if schedule["kind"] == "polynomial":
        exponent = float.fromhex(schedule["power"])
        left = power(left, math.floor(exponent)) * (math.sqrt(left) if exponent % 1 else 1.0)
    return lowest + (rate - lowest) * left


def fall(high, low, progress):
    """Half a cosine wave from one rate to another."""
    return low + (high - low) * (0.5 * (1.0 + float(numbers.cosine(np.float32(math.pi * progress)))))


def stable_then_linear(rate, schedule, steps, step):
    lowest, start = float.fromhex(schedule["min"]), steps - schedule["decay"]
    if step < start:
        return rate
    return lowest + (rate - lowest) * (1.0 - (1.0 if step >= steps else (step - start) / schedule["decay"]))


def one_cycle(rate, schedule, steps, step):
    start, end, up = (float.fromhex(schedule[field]) for field in ("start", "end", "up"))
    turn = up * steps - 1.0
    if step <= turn:
        return fall(start, rate, step / turn)
    return fall(rate, end, 1.0 if step >= steps else (step - turn) / ((steps - 1) - turn))


def scalar(task, name, step):
    """One number of the `schedule` input."""
    step //= task.get("accumulate", 1)
    rate, optimizer, t = learning_rate(task, step), task["optimizer"], step + 1
    name, _, number_of_group = name.partition(":")
    group = task["groups"][int(number_of_group) - 1] if number_of_group else {}
    rate *= float.fromhex(group.get("lr", "0x1p0"))

    def number(field):
        return float.fromhex(group.get(field, optimizer[field]))

    if name == "-lr/(1+s*ld)":
        return np.float32(-(rate / (1.0 + step * number("lr_decay"))))
    if name in ("lr", "-lr"):
        return np.float32(rate if name == "lr" else -rate)
    if name == "lr/(1-b1^t)":
        return np.float32(rate / (1.0 - power(number("beta1"), t)))
    if name == "1/sqrt(1-b2^t)":
        return np.float32(1.0 / math.sqrt(1.0 - power(number("beta2"), t)))
    assert name == "1-lr*wd", name
    return np.float32(1.0 - rate * number("weight_decay"))
