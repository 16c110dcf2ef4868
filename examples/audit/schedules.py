"""The learning rate of a step: dgx-numerics(7), "Schedules". Numbers are binary64; a step takes them rounded to binary32."""

import math
import struct


def power(x, t):
    result = 1.0
    while t:
        result, t, x = result * x if t % 2 else result, t // 2, x * x if t > 1 else x
    return result


def fall(high, low, done, cos):
    angle = struct.unpack("<f", struct.pack("<f", math.pi * done))[0]
    return low + (high - low) * (0.5 * (1.0 + cos(angle)))


def rate_of(task, step, cos):
    rule, total, rate = task["schedule"], task["steps"], float.fromhex(task["optimizer"]["lr"])
    kind, warmup = rule["kind"], rule.get("warmup", 0)

    def number(key):
        return float.fromhex(rule[key])

    if step < warmup:
        return rate * ((step + 1) / warmup)
    if kind in ("constant", "plateau"):
        return rate
    if kind == "step":
        return rate * power(number("gamma"), (step - warmup) // rule["every"])
    if kind == "inverse-sqrt":
        return rate / math.sqrt(step / warmup)
    if kind == "one-cycle":
        turn = number("up") * total - 1.0
        if step <= turn:
            return fall(number("start"), rate, step / turn, cos)
        return fall(rate, number("end"), 1.0 if step >= total else (step - turn) / ((total - 1) - turn), cos)
    if kind == "wsd":
        start, length = total - rule["decay"], rule["decay"]
        if step < start:
            return rate
    else:
        start, length = warmup, total - warmup
    done = 1.0 if step >= total else rule.get("cycles", 1) * (step - start) % length / length
    if kind == "cosine":
        return fall(rate, number("min"), done, cos)
    left = 1.0 - done
    if kind == "polynomial":
        left = power(left, int(number("power"))) * (math.sqrt(left) if number("power") % 1 else 1.0)
    return number("min") + (rate - number("min")) * left


def schedule(task, name, step, cos):
    """The number of a `schedule` input. cos is the cosine of a binary32, correctly rounded."""
    name, _, number_of_group = name.partition(":")
    optimizer = task["optimizer"]
    group = task["groups"][int(number_of_group) - 1] if number_of_group else {}
    decay = float.fromhex(group.get("weight_decay", optimizer["weight_decay"]))
    rate = rate_of(task, step, cos)
    if number_of_group:
        rate *= float.fromhex(group["lr"])

    def number(key):
        return float.fromhex(optimizer[key])

    made = {"lr": lambda: rate, "-lr": lambda: -rate, "lr/(1-b1^t)": lambda: rate / (1.0 - power(number("beta1"), step + 1)),
            "1/sqrt(1-b2^t)": lambda: 1.0 / math.sqrt(1.0 - power(number("beta2"), step + 1)), "1-lr*wd": lambda: 1.0 - rate * decay,
            "-lr/(1+s*ld)": lambda: -(rate / (1.0 + step * number("lr_decay")))}[name]()
    return struct.unpack("<f", struct.pack("<f", made))[0]
