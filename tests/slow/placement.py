"""Drawn trainings by ranks and in parts, each beside one process: placement.py --bin FOLDER --plugins FOLDER [--minutes M] [--seed S] [--kills N] [--model NAME]

A task is drawn (model, optimiser, batch, workers, seed) and trained by one process. Then the same run is made in other ways, each with the parts, ranks, threads, plan
and emulated network that were drawn, of a mixture with experts at home or not, and by stretches that change all of these: every way must end in that state. Before that, ranks of one training are killed N times.
A failure prints what was drawn.
"""

import json
import pathlib
import random
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "interop"))
import support  # noqa: E402

import ranks  # noqa: E402  (it skips where something is missing)

placement = ranks.placement
STEPS = 6
ENDS = (0, 1)  # trained, or diverged: some of what is drawn does
OPTIMIZERS = ("sgd:lr=0.1", "sgd:lr=0.1,momentum=0.9", "adam:lr=1e-2", "adamw:lr=1e-2")
# Models whose parts can be made one after another.
IN_TURN = {"regression", "clipped", "gpt", "switch", "cut", "cut-gpt", "convolutions", "counting"}


def draw_optimizer(chance, is_compressed):
    """An optimiser: of workers that may send few of their numbers, as likely as not, one that does."""
    if not is_compressed or chance.random() < 0.5:
        return chance.choice(OPTIMIZERS)
    return f"dgc:lr=0.1,density={chance.choice((0.02, 0.1, 0.5))},warmup={chance.choice((0, 3))}{chance.choice(('', ',bits=8'))}{chance.choice(('', ',clip=1'))}"


def draw_task(bench, chance, number, only):
    """A task's name, its model's, its data, and the most parts that a batch has."""
    cases = {**placement.BUILT_IN, **placement.SCRIPTED}
    model = only or chance.choice(sorted(cases))
    what, data, loss, _, more, batch = cases[model]
    if model == "switch":
        what = (f"switch:layers=2,width=16,heads=2,vocab=128,experts={chance.randint(2, 5)},every={chance.choice((1, 2))},capacity={chance.choice((0.1, 0.8, 1.25, 9))},"
                f"balance={chance.choice((0, 0.01))},dropout=0.1")
        more = []
    batch = chance.randint(2, 13) if model not in ("resnet20", "recurrence", "encoder") else chance.randint(2, 6)
    divisors = [k for k in range(2, batch + 1) if batch % k == 0]
    workers = chance.choice(divisors) if chance.random() < 0.4 and model not in ("recurrence", "encoder") else 1
    options = [*more, *(["--input", "i64"] if model == "counting" and "--input" not in more else []), *(["--workers", str(workers)] if workers > 1 else []),
               *(["--accumulate", "2"] if chance.random() < 0.2 else []), *(["--clip-norm", "1"] if chance.random() < 0.3 and "--clip-norm" not in more else [])]
    optimizer = draw_optimizer(chance, workers > 1 and not {"--accumulate", "--clip-norm"} & set(options))
    name = f"task{number}"
    placement.submit(bench, name, (what, data, loss, optimizer, options, batch), steps=STEPS, seed=chance.randrange(1 << 30))
    return name, model, f"{data}.h5", workers if workers > 1 else batch


def draw_plan(bench, chance, name, model, count, slices):
    """The options of a plan of so many ranks and, perhaps, of the network that it is for."""
    if chance.random() < 0.3:
        return []
    regions = chance.choice(("a", "ab"))[:count]
    machines = [{"name": f"m{n}", "region": regions[n % len(regions)], "operations_per_second": chance.randint(1, 10**9), "memory_bytes": 1 << 33} for n in range(count)]
    link = lambda: {"bits_per_second": chance.randint(10**8, 10**10), "microseconds": chance.choice((0, 50, 500))}
    pathlib.Path(bench.path("drawn.json")).write_text(json.dumps({"machines": machines, "links": [{"between": list(two), **link()} for two in ("aa", "ab", "bb") if set(two) <= set(regions)]}))
    emulated = ["--emulate", "drawn.json"] if chance.random() < 0.5 else []
    if count > 1 and chance.random() < 0.5:
        # A head makes what these gather, if anything.
        pipelines = chance.choice([d for d in range(1, count + 1) if count % d == 0 and d <= slices]) if model in IN_TURN else 1
        if count // pipelines > 4:  # than which small models have no more
            pipelines = count if model in IN_TURN else 1
        if count // pipelines > 4:
            return emulated
        parts = ["--parts", str(chance.randint(1, slices // pipelines) if model in IN_TURN else 1)]
        bench.run("dgx-plan", f"{name}.json", "--machines", "drawn.json", "--stages", str(count // pipelines), "--pipelines", str(pipelines), *parts, "-o", "drawn.plan.json", "--force")
        plan = json.loads(pathlib.Path(bench.path("drawn.plan.json")).read_text())
        spare = slices - pipelines * plan["pipeline"]["parts"]
        if pipelines > 1 and chance.random() < 0.5:  # any share is right
            cuts = [0, *sorted(chance.randint(0, spare) for _ in range(pipelines - 1)), spare]
            for number, rank in enumerate(plan["ranks"]):
                d = number // (count // pipelines)
                rank["slices"] = cuts[d + 1] - cuts[d] + plan["pipeline"]["parts"]
            pathlib.Path(bench.path("drawn.plan.json")).write_text(json.dumps(plan))
        return ["--placement", "drawn.plan.json", *emulated]
    experts = ["--experts"] if model == "switch" and chance.random() < 0.5 else []
    bench.run("dgx-plan", f"{name}.json", "--machines", "drawn.json", "--ranks", str(count), *experts, "-o", "drawn.plan.json", "--force")
    plan = json.loads(pathlib.Path(bench.path("drawn.plan.json")).read_text())
    if chance.random() < 0.7:  # any cut is right
        cuts = [0, *sorted(chance.sample(range(1, slices), count - 1)), slices]
        for rank, begin, end in zip(plan["ranks"], cuts, cuts[1:]):
            rank["slices"] = end - begin
        pathlib.Path(bench.path("drawn.plan.json")).write_text(json.dumps(plan))
    return ["--placement", "drawn.plan.json", *emulated]


def stretch(bench, chance, name, model, words, slices):
    """Trains on by a way that is drawn. Returns the result, and the way in words."""
    threads = ["--threads", str(chance.choice((1, 1, 2, 3)))]
    way = chance.random()
    if model in IN_TURN and way < 0.3:
        more = [*threads, "--parts", str(chance.randint(1, min(slices, 7)))]
        return bench.run("dgx-train", *words, *more, codes=ENDS), " ".join(more)
    if way < 0.4:
        return bench.run("dgx-train", *words, *threads, codes=ENDS), "one process " + " ".join(threads)
    count = chance.randint(1, min(slices, 7))
    more = draw_plan(bench, chance, name, model, count, slices)
    has_stages = "--placement" in more and "pipeline" in json.loads(pathlib.Path(bench.path("drawn.plan.json")).read_text())
    if model == "switch" and not has_stages and chance.random() < 0.7:
        more = [*more, "--experts"]
    running = ranks.start(bench, count, *words, *more)
    out, error = running.communicate(timeout=300)
    bench.check(running.returncode in ENDS, f"{count} ranks, {' '.join(more)}: exit {running.returncode}: {error}")
    return (json.loads(out.splitlines()[-1]) if out.strip() else None), f"{count} ranks {' '.join(more)} {error}"


def end_of(result):
    """What all ways must have alike: the last state, its step, and whether the training diverged there."""
    return result.get("state"), result.get("steps"), result.get("diverged")


def drawn(bench, minutes, seed, only):
    chance = random.Random(seed)
    end, tasks, ways = time.monotonic() + 60 * minutes, 0, 0
    while time.monotonic() < end:
        name, model, data, slices = draw_task(bench, chance, tasks, only)
        words = [f"{name}.json", "--data", data]
        whole = end_of(bench.run("dgx-train", *words, "-o", f"{name}.whole", codes=ENDS))
        for n in range(3):
            run, told = f"{name}.{n}", []
            for until in (*sorted(chance.sample(range(1, STEPS), chance.choice((0, 0, 1, 2)))), STEPS):
                found, way = stretch(bench, chance, name, model, [*words, "-o", run, "--until", str(until)], slices)
                told.append(f"to {until}: {way}")
            bench.check(found and end_of(found) == whole, f"seed {seed}, task {tasks}, {model}, {slices} slices: {'; '.join(told)}: {found}, expected {whole}")
            ways += 1
        tasks += 1
    print(f"{tasks} tasks, {ways} ways, seed {seed}: no difference")


def main():
    parser = support.parser()
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--model", choices=sorted({**placement.BUILT_IN, **placement.SCRIPTED}), help="of all tasks")
    options = support.parsed(parser)
    with support.Bench(options.bin) as bench:
        for name in ("submitter", "solver", "verifier"):
            bench.run("dgx-key", "new", name)
        placement.pack(bench)
        ranks.write_machines(bench, "machines.json", 300)
        ranks.write_machines(bench, "six.json", 100, (4000, 5000, 3000, 5000, 4000, 3500))
        ranks.kills(bench, options.kills, options.seed)
        drawn(bench, options.minutes, options.seed, options.model)


if __name__ == "__main__":
    main()
