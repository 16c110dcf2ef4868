"""examples/audit.sh never takes an error for a verdict: audit.py --bin FOLDER

Damaged transcripts and rulings, transcripts of markets that force errors, missing programs, a full disk. It exits with 0 or 1 exactly where dgx-referee does on the same bytes, and with 2
otherwise. The transcripts are those of vectors/dispute.json.
"""

import argparse
import base64
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SCRIPT = os.path.join(os.path.dirname(TESTS), "examples", "audit.sh")
NEEDED = ("openssl", "sha256sum", "base64", "python3", "sh", "mktemp", "rm", "dirname", "basename", "wc", "tr", "cut", "cat")
FALLS, STANDS = "a: a state entry", "stands: a"
CUTS, FLIPS = 200, 24
failures = 0


def check(condition, what):
    global failures
    if not condition:
        failures += 1
        print("FAILED:", what)


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def transcripts():
    """Each transcript of the vectors by its name."""
    with open(os.path.join(TESTS, "vectors", "dispute.json")) as file:
        stored = json.load(file)

    def envelope(made):
        payload = base64.b64encode(canonical(made["statement"])).decode()
        entry = {"keyid": made["keyid"], "sig": made["sig"]}
        return canonical({"payload": payload, "payloadType": "application/vnd.in-toto+json", "signatures": [entry]})

    lines = [line.encode() if isinstance(line, str) else envelope(line) for line in stored["lines"]]
    return {case["name"]: b"".join(lines[line] + b"\n" for line in case["lines"]) for case in stored["cases"]}


def damaged(text, draw):
    """Ways to damage a transcript, by their names."""
    lines = text.splitlines(keepends=True)
    for count in range(len(lines)):
        yield f"the first {count} lines", b"".join(lines[:count])
    for at in sorted(draw.sample(range(1, len(text)), CUTS)):
        yield f"cut at byte {at}", text[:at]
    for at in sorted(draw.sample(range(len(text)), FLIPS)):
        yield f"byte {at} flipped", text[:at] + bytes([text[at] ^ 1]) + text[at + 1:]
    yield "CR LF", text.replace(b"\n", b"\r\n")
    yield "CR LF in the last line", text[:-1] + b"\r\n"
    yield "an empty line at the end", text + b"\n"
    yield "an empty line in the middle", b"".join(lines[:3]) + b"\n" + b"".join(lines[3:])
    yield "a byte order mark", b"\xef\xbb\xbf" + text
    yield "UTF-16", text.decode().encode("utf-16")
    yield "text", b"verifier-7\n"
    yield "bytes", bytes(range(256))
    yield "nesting", b"[" * 100000 + b"\n"
    yield "a number for an envelope", b"1\n" + text
    yield "a space in an envelope", text.replace(b'":"', b'": "', 1)
    yield "twice", text + text
    yield "the last line twice", text + lines[-1]
    yield "the task twice", lines[0] + text
    yield "the last two lines exchanged", b"".join(lines[:-2] + [lines[-1], lines[-2]])
    for index in range(len(lines)):
        yield f"without line {index + 1}", b"".join(lines[:index] + lines[index + 1:])


def audit(*words, **options):
    return subprocess.run(["sh", SCRIPT, *words], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=300,
                          **{"stdout": subprocess.PIPE, **options})


def expect(code, what, *words, says="", **options):
    done = audit(*words, **options)
    told = (done.stdout or "") + done.stderr
    check(done.returncode == code and says in told, f"{what}: exit {done.returncode}, not {code}\n{told[-500:]}")


def write(name, data):
    with open(name, "wb") as file:
        file.write(data)


def same_as_referee(programs, name, text):
    """Writes the transcript, and compares both; returns what the referee exits with."""
    write("game.jsonl", text)
    command = [os.path.join(programs, "dgx-referee"), "game.jsonl", "--key", "referee.pem", "-o", "ruling.json", "--force"]
    ruled = subprocess.run(command, capture_output=True, text=True, timeout=60)
    expect(ruled.returncode if ruled.returncode in (0, 1) else 2, f"{name} (dgx-referee: {ruled.stderr.strip()})", "game.jsonl")
    return ruled.returncode


def bad_rulings(other):
    """The ruling.json of game.jsonl, which falls, is fine, and that of another is not."""
    expect(1, "the ruling", "game.jsonl", "ruling.json", says="It says what follows from the transcript.")
    with open("ruling.json", "rb") as file:
        ruling = file.read()
    for name, text, says in (("torn", ruling[:-9], "no newline at its end"), ("CR LF", ruling[:-1] + b"\r\n", "ends in CR LF"), ("empty", b"", "not one envelope"),
                             ("two", ruling + ruling, "not one envelope"), ("of another dispute", other, "not a ruling on this dispute")):
        write("bad.json", text)
        expect(2, f"a ruling: {name}", "game.jsonl", "bad.json", says=says)
    expect(2, "a task for a ruling", "game.jsonl", "task.json", says="not a ruling on this dispute")
    expect(2, "no ruling", "game.jsonl", "nowhere.json", says="nowhere.json")


def bad_machines():
    """What audit.sh calls is missing, or fails, or has no room."""
    for missing in ("openssl", "sha256sum", "base64", "python3"):
        folder = tempfile.mkdtemp(dir=".")
        for name in NEEDED:
            if name != missing:
                os.symlink(shutil.which(name), os.path.join(folder, name))
        expect(2, f"without {missing}", "game.jsonl", env={"PATH": os.path.abspath(folder)}, says=f"needs {missing}")
        os.symlink(shutil.which("false"), os.path.join(folder, missing))
        expect(2, f"{missing} that fails", "game.jsonl", env={"PATH": os.path.abspath(folder)})
    expect(2, "no temporary folder", "game.jsonl", env={**os.environ, "TMPDIR": "/nowhere"})
    with open("/dev/full", "w") as full:
        expect(2, "a full disk", "game.jsonl", stdout=full)
    expect(2, "no file", "nowhere.jsonl", says="nowhere.jsonl: No such file")
    expect(2, "a folder", ".", says="Is a directory")
    expect(2, "no words", says="usage")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True, help="folder of the built programs")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    programs, draw, known = os.path.abspath(options.bin), random.Random(options.seed), transcripts()
    with tempfile.TemporaryDirectory(prefix="dgx-audit-") as scratch:
        os.chdir(scratch)
        subprocess.run([os.path.join(programs, "dgx-key"), "new", "referee"], check=True, capture_output=True)
        os.mkdir("scratch")
        os.environ["TMPDIR"] = os.path.abspath("scratch")
        check(same_as_referee(programs, "stands", known[STANDS]) == 0, "a transcript that stands")
        with open("ruling.json", "rb") as file:
            other = file.read()
        falls = known[FALLS]
        write("task.json", falls.splitlines(keepends=True)[0])
        for name in sorted(known):
            if "forced" in name and "demanded" not in name:
                same_as_referee(programs, name, known[name])
        count = sum(same_as_referee(programs, name, text) is not None for name, text in damaged(falls, draw))
        check(same_as_referee(programs, "whole", falls) == 1, "a transcript that falls")
        bad_rulings(other)
        bad_machines()
        check(os.listdir("scratch") == [], "audit.sh leaves its folder behind")
    print(f"{count} damaged transcripts, seed {options.seed}")
    sys.exit(failures > 0)


main()
