"""Trainings of several processes that mpirun starts: ranks.py --bin FOLDER --plugins FOLDER [--kills N] [--seed S]

digests   models of every kind have the state of one process, for 1 to 7 ranks of unequal parts and for --parts, and each of these runs is proved and verified by one
plans     ranks have the parts that a plan gives them, over an emulated network
pipelines ranks have the stages that a plan gives them: the same state, saved, resumed and proved, and what is sent is what was planned
kills     a rank is killed at a random moment, N times (default 3), and the run goes on with another number of ranks, in a pipeline, or without any
drill     a run with a fault, made by ranks, is the one that a single process makes, is refuted by one, and a dispute about it ends at that operation
lies      so is one in which a rank lies to the others, and a dispute about it ends at an operation
refusals  what cannot begin says why, with the rank that it is about, and leaves no run (rank_failures.py: ranks of which one is not as the others)
Exits 77 without mpirun, NumPy, h5py and Debian's python3-torch.
"""

import importlib.util
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import support

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import needs  # noqa: E402

needs.modules("numpy", "torch")
import placement  # noqa: E402

RANKS = (1, 2, 3, 4, 7)
# In containers, as root, with more ranks than CPUs.
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
               "OMPI_MCA_btl_vader_single_copy_mechanism": "none", "OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_orte_tmpdir_base": "/tmp"}
# For ranks that all refuse and end by themselves: mpirun does not wait a second before it ends what is left. Where there is something left to end, it crashes now and then without that wait.
REFUSED = {"OMPI_MCA_odls_base_sigkill_timeout": "0"}
MPIRUN = needs.program("mpirun")


def command(bench, ranks, *words):
    return [MPIRUN, "--oversubscribe", "-n", str(ranks), os.path.join(bench.bin, "dgx-train"), *words, "--threads", "1", "--json", "-q"]


def start(bench, ranks, *words, **variables):
    return subprocess.Popen(command(bench, ranks, *words, "--mpi"), cwd=bench.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env=os.environ | ENVIRONMENT | variables, start_new_session=True)


def train(bench, ranks, *words, code=0):
    """The result of a training on so many ranks, and what it said on standard error."""
    running = start(bench, ranks, *words, **(REFUSED if code else {}))
    out, err = running.communicate(timeout=200)
    bench.check(running.returncode == code, f"{ranks} ranks, {' '.join(words)}: exit {running.returncode}, expected {code}: {err}")
    return (json.loads(out) if out.strip() else None), err


# Tasks whose gradients are sums of workers'.
WORKERS = {
    "worker-mlp": ("mlp:64-12-5", "pairs", "mse", "sgd:lr=0.1", ["--workers", "6", "--accumulate", "2"], 12),
    "worker-gpt": ("gpt:layers=2,width=16,heads=2,vocab=128,dropout=0.1", "text", "cross-entropy", "adamw:lr=1e-2", ["--workers", "3", "--clip-norm", "1"], 6),
    "worker-switch": ("switch:layers=1,width=16,heads=2,vocab=128,experts=3,every=1", "text", "cross-entropy", "sgd:lr=0.1,momentum=0.9", ["--workers", "3"], 6),
    "worker-counting": (placement.Counting, "text", "cross-entropy", "adam:lr=1e-2", ["--input", "i64", "--workers", "6"], 6),
    "worker-sparse": ("mlp:64-12-5", "pairs", "mse", "dgc:lr=0.1,density=0.1,warmup=3,bits=8", ["--workers", "6"], 12),
    "worker-cut": ("gpt:layers=3,width=16,heads=2,vocab=128", "text", "cross-entropy", "adamw:lr=1e-2", ["--workers", "3", "--cut", "2:first=0"], 6),
    "worker-normed": (placement.Normed, "images", "cross-entropy", "adam:lr=1e-2", ["--workers", "3"], 9),
}


# Those of placement.py, with batches of which all numbers of ranks have samples.
WIDE = {name: (*case[:-1], max(case[-1], RANKS[-1])) for name, case in {**placement.BUILT_IN, **placement.SCRIPTED}.items()}


def most_parts(case):
    options, batch = case[-2:]
    return int(options[options.index("--workers") + 1]) if "--workers" in options else batch


def verified(bench, name, run, data, verdict="accepted"):
    """One process proves a run of the task, and one verifies it and comes to this verdict."""
    words = [f"{name}.json", f"{run}.proof.json", "--from", run, "--data", f"{data}.h5", "--all", "--key", "verifier.pem", "-o", f"{run}.verdict.json"]
    bench.run("dgx-prove", words[0], run, "--key", "solver.pem", "-o", words[1])
    found = bench.run("dgx-verify", *words, codes=(0, 1))
    bench.check(found["verdict"] == verdict, f"{run} is to be {verdict}: {found}")
    return found


def digests(bench, cases):
    """Every number of ranks and of parts gives one state, and one process proves and verifies each run."""
    for name, case in cases.items():
        words = [f"{name}.json", "--data", f"{case[1]}.h5"]
        whole = bench.run("dgx-train", *words, "-o", f"{name}.run")["state"]
        for ranks in [n for n in RANKS if n <= most_parts(case)]:
            found, _ = train(bench, ranks, *words, "-o", f"{name}.run{ranks}")
            verified(bench, name, f"{name}.run{ranks}", case[1])
            bench.check(found and found["state"] == whole, f"{name}: {ranks} ranks give {found}, one process {whole}")
            bench.check(found and len(found["ranks"]) == ranks, f"{name}: {ranks} rows are expected in {found}")
            saved = [row["saved"] for row in found["ranks"]] if found else []
            bench.check(all(saved) if name == "worker-sparse" and ranks > 1 else name == "worker-sparse" or not any(saved), f"{name}: coding has saved {saved} bytes")
        for parts in [n for n in (2, 3, 5) if n <= most_parts(case)] if name not in ("resnet20", "normed", "worker-normed") else ():
            found = bench.run("dgx-train", *words, "-o", f"{name}.parts{parts}", "--parts", str(parts))
            bench.check(found["state"] == whole, f"{name}: {parts} parts give {found['state']}, not {whole}")
            verified(bench, name, f"{name}.parts{parts}", case[1])


SIX = (4000, 5000, 3000, 5000, 4000, 3500)  # operations a second


def write_machines(bench, name, microseconds, rates=(1000, 5000, 2500)):
    """A file of unequal machines with a slow network."""
    machines = [{"name": name, "region": "here", "operations_per_second": rate, "memory_bytes": 4 << 30} for name, rate in zip("abcdef", rates)]
    links = [{"between": ["here", "here"], "bits_per_second": 400_000_000, "microseconds": microseconds}]
    pathlib.Path(bench.path(name)).write_text(json.dumps({"machines": machines, "links": links}))


def placements(bench):
    """Ranks of a plan, with parts as it says, over a network that is slower: the same state, and what a plan foretells of bytes is what is sent."""
    for name, data in (("clipped", "images"), ("normed", "images"), ("worker-gpt", "text")):
        words = [f"{name}.json", "--data", f"{data}.h5"]
        whole = bench.run("dgx-train", *words, "-o", f"{name}.placed.whole")
        planned = bench.run("dgx-plan", f"{name}.json", "--machines", "machines.json", "--ranks", "3", "-o", f"{name}.plan.json")
        found, _ = train(bench, 3, *words, "-o", f"{name}.placed", "--placement", f"{name}.plan.json", "--emulate", "machines.json")
        bench.check(found and found["state"] == whole["state"], f"{name} by a plan: {found}, expected {whole}")
        slices = [row["slices"] for row in planned["ranks"]]
        bench.check(sum(slices) == most_parts({**WIDE, **WORKERS}[name]), f"{name}: {planned}")
        bench.check(len(set(slices)) > 1 or name == "worker-gpt", f"{name}: unequal machines have {slices}")
        for planned_row, row in zip(planned["ranks"], found["ranks"] if found else ()):
            bench.check(planned_row["sent"] * found["steps"] == row["sent"], f"{name}: rank {row['rank']} sends {row['sent']} bytes, {planned_row['sent']} a step are planned")
    measured(bench)
    write_machines(bench, "far.json", 20_000)
    slow, _ = train(bench, 2, "clipped.json", "--data", "images.h5", "-o", "slow", "--emulate", "far.json")
    # A step has an order, a carry, a broadcast, a gather and a report at least, one after another; without the network all ten take a tenth of that.
    least = slow["steps"] * 5 * 0.02
    bench.check(slow["seconds"] > least, f"an emulated network takes {slow['seconds']} s, at least {least}")


def measured(bench):
    """Machines that dgx-plan measures are planned with."""
    words = [MPIRUN, "--oversubscribe", "-n", "3", os.path.join(bench.bin, "dgx-plan"), "measure", "gpt.json", "--data", "text.h5", "--seconds", "0.2", "--threads", "1", "--json", "-q"]
    run = lambda *more: subprocess.run([*words, *more], cwd=bench.folder, capture_output=True, text=True, env=os.environ | ENVIRONMENT, timeout=100)
    done = run("-o", "measured.json")
    bench.check(done.returncode == 0, f"measure: exit {done.returncode}: {done.stderr}")
    told, written = json.loads(done.stdout), json.loads(pathlib.Path(bench.path("measured.json")).read_text())
    bench.check([machine["name"].rpartition(":")[2] for machine in written["machines"]] == ["0", "1", "2"], f"machines of one host: {written}")
    bench.check(all(machine["operations_per_second"] > 1e6 and machine["memory_bytes"] > 1e6 for machine in written["machines"]), f"measured: {written}")
    bench.check(len(written["links"]) == 3 and all(link["bits_per_second"] > 1e6 for link in written["links"]), f"measured: {written}")
    bench.check([row["operations_per_second"] for row in told["machines"]] == [machine["operations_per_second"] for machine in written["machines"]], f"told: {told}")
    planned = bench.run("dgx-plan", "gpt.json", "--machines", "measured.json", "--ranks", "3", "-o", "measured.plan.json")
    found, _ = train(bench, 3, "gpt.json", "--data", "text.h5", "-o", "measured", "--placement", "measured.plan.json")
    elsewhere = json.loads(pathlib.Path(bench.path("measured.plan.json")).read_text())
    elsewhere["ranks"][1]["machine"] = "elsewhere:1"
    pathlib.Path(bench.path("elsewhere.plan.json")).write_text(json.dumps(elsewhere))
    aloud = [word for word in command(bench, 3, "gpt.json", "--data", "text.h5", "-o", "elsewhere", "--placement", "elsewhere.plan.json", "--mpi") if word != "-q"]
    moved = subprocess.run(aloud, cwd=bench.folder, capture_output=True, text=True, env=os.environ | ENVIRONMENT, timeout=100)
    bench.check(moved.returncode == 0 and "rank 1 (" in moved.stderr and "runs on another machine than the plan's, 'elsewhere'" in moved.stderr, f"a rank elsewhere: {moved.stderr}")
    bench.check(json.loads(moved.stdout)["state"] == found["state"], f"a rank elsewhere: {moved.stdout}")
    whole = bench.run("dgx-train", "gpt.json", "--data", "text.h5", "-o", "measured.whole")
    bench.check(found and found["state"] == whole["state"] and len(planned["ranks"]) == 3, f"a measured plan: {found}, {planned}")
    again = run("-o", "measured.json")
    bench.check(again.returncode == 73 and "rank 0 (" in again.stderr and again.stderr.count('"error":') == 1, f"measured again: exit {again.returncode}: {again.stderr}")


def pipelines(bench):
    """Ranks that are stages of a pipeline: the state of one process, and the bytes that the plan foretells; interrupted runs go on without a pipeline, and with one."""
    for name, stages, parts in (("clipped", 2, 3), ("clipped", 3, 1), ("gpt", 3, None), ("gpt", 2, 6), ("cut", 2, 4), ("cut-gpt", 2, 3), ("cut-gpt", 3, 2), ("normed", 2, None), ("resnet20", 3, None), ("counting", 2, 4)):
        words = [f"{name}.json", "--data", f"{WIDE[name][1]}.h5"]
        whole = bench.run("dgx-train", *words, "-o", f"{name}.piped.whole", "--force")
        plan = f"{name}.{stages}.{parts}.pipeline.json"
        planned = bench.run("dgx-plan", f"{name}.json", "--machines", "machines.json", "--stages", str(stages), *(["--parts", str(parts)] if parts else []), "-o", plan)
        emulated = ["--emulate", "machines.json"] if name == "clipped" else []
        found, _ = train(bench, stages, *words, "-o", f"{name}.piped{stages}.{parts}", "--placement", plan, *emulated)
        bench.check(found and found["state"] == whole["state"], f"{name} in {stages} stages: {found}, expected {whole}")
        bench.check(parts is None or planned["parts"] == parts, f"{name}: {planned}")
        for planned_row, row in zip(planned["ranks"], found["ranks"] if found else ()):
            bench.check(planned_row["from_line"] > 0 or row["rank"] == 0, f"{name}: {planned}")
        verified(bench, name, f"{name}.piped{stages}.{parts}", WIDE[name][1])


def ranks_of(parent):
    """The processes of dgx-train below mpirun."""
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            name, rest = stat.read_text().split(" (", 1)[1].rsplit(") ", 1)
        except OSError:  # it has just ended
            continue
        if name.startswith("dgx-") and int(rest.split()[1]) == parent:
            found.append(int(stat.parent.name))
    return found


def rows_of(bench, run):
    """Steps that the run's log tells of, which come with its checkpoints."""
    try:
        return pathlib.Path(bench.path(f"{run}/log.csv")).read_text().count("\n")
    except FileNotFoundError:
        return 0


def ends_killed(bench, running, ranks):
    """mpirun ends after one of its processes was killed, and says so; in fewer words where that had hardly begun."""
    _, err = running.communicate(timeout=100)
    is_told = "exited on signal 9 (Killed)" in err or "1 process returned\na non-zero exit code" in err
    bench.check(running.returncode == 128 + signal.SIGKILL and is_told, f"a killed rank of {ranks}: exit {running.returncode}: {err}")


def kills(bench, count, seed):
    """A training whose ranks are killed again and again, and stopped by a signal, ends as one that is not."""
    numbers = random.Random(seed)
    bench.run("dgx-submit", "--data", "images.h5", "--model", "mlp:64-512-5", "--loss", "cross-entropy", "--optimizer", "adam:lr=1e-3", "--batch", "12", "--steps", str(600 * (count + 2)),
              "--checkpoint-every", "40", "--seed", "1", "--key", "submitter.pem", "-o", "long.json")
    words = ["long.json", "--data", "images.h5"]
    whole = bench.run("dgx-train", *words, "-o", "long.run")["state"]
    for stages in (2, 3):
        bench.run("dgx-plan", "long.json", "--machines", "machines.json", "--stages", str(stages), "-o", f"long.{stages}.json")
    bench.run("dgx-plan", "long.json", "--machines", "six.json", "--stages", "2", "--pipelines", "2", "-o", "long.2x2.json")
    killed = 0
    for _ in range(count):
        ranks, placed, more = numbers.choice(RANKS[1:]), [], numbers.choice((0, 1, 60))
        if numbers.random() < 0.7:  # as pipelines
            ranks, plan = numbers.choice(((3, "long.3.json"), (4, "long.2x2.json")))
            placed = ["--placement", plan]
        before = rows_of(bench, "killed")
        running = start(bench, ranks, *words, "-o", "killed", *placed)
        # While it begins; between its first checkpoints; or later.
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and running.poll() is None and (not ranks_of(running.pid) or rows_of(bench, "killed") < before + more):
            time.sleep(0.002)
        time.sleep(numbers.uniform(0, 0.03))
        processes = ranks_of(running.pid)
        if processes and running.poll() is None:
            os.kill(numbers.choice(processes), signal.SIGKILL)
            killed += 1
        ends_killed(bench, running, ranks)
    bench.check(killed == count, f"killed {killed} times of {count}")
    found, _ = train(bench, 3, *words, "-o", "killed")
    bench.check(found and found["state"] == whole, f"killed {killed} times: {found}, expected {whole}")
    print(f"killed {killed} times, seed {seed}")
    # Asked to stop, as a scheduler asks every rank of a job or one: the state is saved, and one process goes on.
    for which, ranks, placed in ((0, 2, []), (1, 2, []), (0, 2, ["--placement", "long.2.json"]), (1, 2, ["--placement", "long.2.json"]), (3, 4, ["--placement", "long.2x2.json"])):
        run = f"stopped{which}{len(placed)}"
        running = start(bench, ranks, *words, "-o", run, *placed)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and running.poll() is None and rows_of(bench, run) < 2:  # the log's head, and a step
            time.sleep(0.01)
        processes = sorted(ranks_of(running.pid))
        if len(processes) == ranks:
            os.kill(processes[which], signal.SIGUSR1)
        _, err = running.communicate(timeout=100)
        bench.check(running.returncode == 75 and "the state is saved" in err, f"stopped by rank {which}: exit {running.returncode}: {err}")
        found = bench.run("dgx-train", *words, "-o", run)
        bench.check(found["state"] == whole and found["resumed_from"] > 0, f"after a stop of rank {which}: {found}")


def dispute(bench, name, of, data, segment):
    """The ruling about a segment of a proof of a faulty run, played to its end by both sides."""
    words = [f"{name}.json", "game.jsonl", "--from", of, "--data", f"{data}.h5"]
    bench.run("dgx-bisect", "open", words[0], f"{of}.proof.json", "--segment", str(segment), *words[2:], "--key", "verifier.pem", "-o", "game.jsonl", "--force")
    sides = [("solver", ["--drill"]), ("verifier", [])]
    for move in range(100):
        if bench.run("dgx-bisect", "show", "game.jsonl")["over"]:
            break
        key, more = sides[move % 2]
        bench.run("dgx-bisect", "move", *words, "--key", f"{key}.pem", "--notes", f"{of}.{key}.notes", *more, codes=(0, 1))
    return bench.run("dgx-referee", "game.jsonl", "--key", "verifier.pem", "-o", "ruling.json", "--force", codes=(1,))


def convicted(bench, name, run, data, place, line, bit=None):
    """One process refutes the run, and a dispute about the first segment that differs ends at the last scalar operation of that element (place: step, value, element),
    of which a number is claimed that differs from the right one in this bit, or in any."""
    found = verified(bench, name, run, data, "refuted")
    differs = [segment["index"] for segment in found["segments"] if not segment["agrees"]]
    ruling = dispute(bench, name, run, data, differs[0])
    at, scalar = ruling["at"], ruling["scalar"]
    bench.check((at["step"], at["value"], at["element"]) == place, f"{run}: convicted at {at}, expected {place}")
    operation = "add" if line["k"] == "dot" else line["do"][-1].split()[0]  # of a dot, the sum of blocks
    bits = int(scalar["claimed_hex"], 16) ^ int(scalar["result_hex"], 16)
    bench.check(scalar["operation"] == operation and (bits != 0 if bit is None else bits == 1 << bit), f"{run}: convicted of {scalar}, expected {operation}")


def drill(bench):
    fault = "step=3,op=40,element=0,bit=20"
    words = ["clipped.json", "--data", "images.h5", "--drill", fault]
    one = bench.run("dgx-train", *words, "-o", "faulty")
    found, _ = train(bench, 3, *words, "-o", "faulty3")
    bench.check(found and found["state"] == one["state"], f"a drill: {found}, expected {one}")
    convicted(bench, "clipped", "faulty3", "images", (3, 40, 0), lines_of(bench, "clipped").lines[40], 20)


def lines_of(bench, name, slices=None):
    """The task's step program, classed from the page."""
    found = importlib.util.spec_from_file_location("classes_page", pathlib.Path(__file__).resolve().parents[1] / "vectors/placement.py")
    page = importlib.util.module_from_spec(found)
    found.loader.exec_module(page)
    return page.Step([json.loads(line) for line in pathlib.Path(bench.path(f"{name}.program.jsonl")).read_text().splitlines()], slices)


def lies(bench):
    """One of three ranks lies in a carry, a broadcast or a gather: one process makes the same run with the fault that it notes, refutes it, and a dispute ends at the fold's operation."""
    for name, data, slices in (("worker-sparse", "pairs", 6), ("clipped", "images", None), ("normed", "images", None)):
        step = lines_of(bench, name, slices)
        carried = [v for v, c in enumerate(step.of) if c == "C" and len(step.lines[v]["s"]) == 2][-1]
        gathered = next(value for value, reader in step.gathers() if reader in step.body) if name == "normed" else step.gathers()[0][0]
        middle = step.lines[gathered]["s"][0] // 2 * (step.lines[gathered]["s"] + [1])[1]
        for lie, value, element in ((f"rank=1,carry={carried}", carried, 3), (f"rank=2,broadcast={carried}", carried, 3), (f"rank=1,gather={gathered}", gathered, middle)):
            if "gather" in lie and name == "worker-sparse":
                continue
            words, run = [f"{name}.json", "--data", f"{data}.h5"], f"{name}.{lie.replace('=', '').replace(',', '')}"
            found, err = train(bench, 3, *words, "-o", run, "--drill", f"step=1,{lie},element={element},bit=22")
            noted = bench.run("dgx-inspect", run)["drill"]
            one = bench.run("dgx-train", *words, "-o", f"{run}.one", "--drill", noted)
            bench.check(found and found["state"] == one["state"], f"{name}, {lie}: {found}, by {noted} {one}; {err}")
            bench.check("rank" not in noted and ("position" in noted) == ("carry" in lie), f"{lie} is noted as {noted}")
            # A carry is added to before the element is there.
            convicted(bench, name, run, data, (1, value, element), step.lines[value], None if "carry" in lie else 22)
    # Goes on with that drill, by those ranks or by the fault that was noted, and no other.
    again = [*words, "-o", run, "--drill"]
    found, _ = train(bench, 3, *again, f"step=1,{lie},element={element},bit=22")
    bench.check(found and found["state"] == one["state"] and bench.run("dgx-train", *again, noted)["state"] == one["state"], f"gone on: {found}")
    train(bench, 3, *again, f"step=1,{lie},element={element},bit=21", code=65)
    refused(bench, 3, [*words, "--drill", f"step=1,rank=2,carry={carried},element=0,bit=1"], 2, "rank 0 (", "drill: rank 2 is the last, which carries nothing on")
    refused(bench, 2, [*words, "--drill", f"step=1,rank=2,carry={carried},element=0,bit=1"], 2, "rank 0 (", "drill: there is no rank 2, there are 2")
    refused(bench, 2, ["clipped.json", "--data", "images.h5", "--placement", "clipped.2.3.pipeline.json", "--drill", "step=1,rank=0,carry=40,element=0,bit=1"], 2, "rank 0 (",
            "drill: only ranks that share each batch can lie, not the stages of a pipeline")


def refused(bench, ranks, words, code, *expected):
    _, err = train(bench, ranks, *words, "-o", "never", code=code)
    for text in expected:
        bench.check(text in err, f"{ranks} ranks, {' '.join(words)}: {text!r} is not in {err!r}")
    bench.check(err.count('"error":') == 1, f"one rank says why: {err}")
    bench.check(not os.path.exists(bench.path("never")), "a refused call left a run")


def refusals(bench):
    data = ["--data", "images.h5"]
    refused(bench, 8, ["convolutions.json", *data], 2, "rank 0 (", "a batch of 7 samples cannot be cut into 8 parts")
    refused(bench, 4, ["worker-gpt.json", "--data", "text.h5"], 2, "rank 0 (", "a batch of 3 workers cannot be cut into 4 parts")
    refused(bench, 2, ["convolutions.json", "--data", "absent.h5"], 66, "absent.h5: does not exist")
    placed = ["--placement", "clipped.plan.json"]
    refused(bench, 2, ["clipped.json", *data, *placed], 2, "rank 0 (", "the plan is for 3 ranks, these are 2")
    refused(bench, 3, ["convolutions.json", *data, *placed], 2, "rank 0 (", "the plan is for the task")
    refused(bench, 3, ["clipped.json", *data, "--placement", "clipped.2.3.pipeline.json"], 2, "rank 0 (", "the plan is for 2 ranks, these are 3")
    for name, old, new, expected in (("clipped.2.3", '"cuts":[', '"cuts":[1,', "plan.ranks: are 2, for 3 stages"), ("clipped.2.3", '"parts":3', '"parts":11', "pipeline: parts: is 11, must be 1 to 10"),
                                     ("clipped.3.1", '"cuts":[', '"cuts":[1],"cats":[', "pipeline"), ("normed.2.None", '"parts":1', '"parts":2', "of all samples before a part can go on")):
        text = pathlib.Path(bench.path(f"{name}.pipeline.json")).read_text()
        bench.check(old in text, f"{name}: {text}")
        pathlib.Path(bench.path("edited.json")).write_text(text.replace(old, new))
        task, stages, _ = name.split(".")
        refused(bench, int(stages), [f"{task}.json", *data, "--placement", "edited.json"], 2 if task == "normed" else 65, "rank 0 (", expected)
    text = json.loads(pathlib.Path(bench.path("clipped.2.3.pipeline.json")).read_text())
    text["pipeline"]["cuts"] = [1]
    pathlib.Path(bench.path("edited.json")).write_text(json.dumps(text))
    refused(bench, 2, ["clipped.json", *data, "--placement", "edited.json"], 2, "rank 0 (", "a pipeline cannot be cut at line 1 of the program")
    refused(bench, 2, ["clipped.json", *data, "--placement", "absent.json"], 66, "rank 0 (", "absent.json")
    refused(bench, 2, ["clipped.json", *data, "--placement", "images.h5"], 65, "rank 0 (", "images.h5")
    refused(bench, 4, ["clipped.json", *data, "--emulate", "machines.json"], 2, "rank 0 (", "machines.json: has 3 machines, for 4 ranks")
    # Without mpirun's help, and without MPI.
    program = os.path.join(bench.bin, "dgx-train")
    alone = "started as one of 3 processes, of which MPI knows this one alone"
    for words, more, code, expected in ((["env", "PMI_SIZE=3", "PMI_RANK=0"], ["--mpi"], 2, alone), (["env", "SLURM_STEP_NUM_TASKS=3"], ["--mpi"], 2, alone), ([MPIRUN, "--oversubscribe", "-n", "2"], [], 2, "add --mpi"), ([], ["--mpi", "--device", "cuda"], 2, "--mpi is for the CPU"),
                                        ([], ["--mpi", "--parts", "2"], 2, "--parts"), (["env", "DGX_MPI_MODULE=/nonexistent"], ["--mpi"], 70, "--mpi: cannot open its module")):
        done = subprocess.run([*words, program, "convolutions.json", *data, "-o", "never", *more], cwd=bench.folder, capture_output=True, text=True,
                              env=os.environ | ENVIRONMENT, timeout=100)
        bench.check(done.returncode == code and expected in done.stderr, f"{words} {more}: exit {done.returncode}: {done.stderr}")
        bench.check(not os.path.exists(bench.path("never")), f"{words} {more}: a refused call left a run")


def main():
    parser = support.parser()
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = support.parsed(parser)
    with support.Bench(options.bin) as bench:
        for name in ("submitter", "solver", "verifier"):
            bench.run("dgx-key", "new", name)
        placement.pack(bench)
        cases = {**WIDE, **WORKERS}
        for name, case in cases.items():
            placement.submit(bench, name, case)
        write_machines(bench, "machines.json", 300)
        write_machines(bench, "six.json", 100, SIX)
        digests(bench, cases)
        placements(bench)
        pipelines(bench)
        drill(bench)
        lies(bench)
        refusals(bench)
        kills(bench, options.kills, options.seed)
        needs.counted(7, 0)


if __name__ == "__main__":
    main()
