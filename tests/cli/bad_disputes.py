"""What dgx-bisect move does on a full disk and with damaged notes: bad_disputes.py --bin FOLDER (refusals.py)."""

import json
import os
import shutil
import tempfile

from refusals import BIN, IO, MALFORMED, UNAUTHORISED, call, check, disk_of, flipped, read, refused, run_tests, train, write, tasks


def files_in(folder):
    return sorted(os.path.join(inside, name) for inside, _, names in os.walk(folder) for name in names)


def is_moves(path):
    return os.path.basename(path).startswith("moves-")


def drilled_dispute(notes):
    """Opens one about a run with a fault as dispute.jsonl; what a side's move is called with."""
    for name in ("cheat", "verifier"):
        tasks.run(BIN, "dgx-key", "new", name)
    tasks.run(BIN, *train("crooked", "--drill", "step=41,op=30,element=1,bit=20"))
    tasks.run(BIN, "dgx-prove", "small.json", "crooked", "--key", "cheat.pem", "-o", "crooked.json")
    tasks.run(BIN, "dgx-bisect", "open", "small.json", "crooked.json", "--segment", "4", "--from", "crooked", "--data", "small.h5", "--key",
              "verifier.pem", "-o", "dispute.jsonl")
    return lambda side: ["dgx-bisect", "move", "small.json", "dispute.jsonl", "--from", "crooked", "--data", "small.h5", "--key", f"{side}.pem",
                         "--notes", notes, "--threads", "1", *(["--drill"] if side == "cheat" else [])]


def played(move, before):
    """The transcript when it is over; before each move before() is called with what will be."""
    for turn in range(20):
        words = move(("cheat", "verifier")[turn % 2])
        if json.loads(call("dgx-bisect", "show", "dispute.jsonl", "--json").stdout)["over"]:
            break
        before(words)
        done = call(*words)
        check(done.returncode in (0, 1), f"turn {turn + 1}: exit {done.returncode}: {done.stderr}")
    check(turn > 3, f"the dispute ends after {turn} moves")
    return read("dispute.jsonl")


def test_disputes():
    """A full disk loses no move and leaves no torn line; damaged notes cost a replay or an error, and never a game."""
    with tempfile.TemporaryDirectory() as notes:
        move = drilled_dispute(notes)
        opened = read("dispute.jsonl")
        expected = played(move, lambda words: None)
        check({"moves", "segment", "state", "step", "value"} == {os.path.basename(path).split("-")[0].split(".")[0] for path in files_in(notes)},
              f"the notes are {files_in(notes)}")

        def damage(words):
            for index, path in enumerate(files_in(notes)):
                content = read(path) or b"x"
                ways = (content[:len(content) // 2], b"", content + b"x", flipped(content, len(content) * 4))
                write(path, ways[index % (2 if is_moves(path) else 4)])

        # Moves that were signed are no cache: what cannot be read might be a move that must not be made again otherwise.
        write("dispute.jsonl", opened)
        for path in filter(is_moves, files_in(notes)):
            write(path, flipped(read(path), len(read(path)) * 4))
        refused((MALFORMED, UNAUTHORISED), "moves-", *move("cheat"))
        for path in filter(is_moves, files_in(notes)):
            write(path, flipped(read(path), len(read(path)) * 4))
        check(played(move, damage) == expected, "with damaged notes the game is another")
        write("dispute.jsonl", opened)
        shutil.rmtree(notes)
        os.mkdir(notes)
        # Ten bytes beyond the transcript: no room for a line of it, nor for the larger notes.
        check(played(move, lambda words: refused(IO, "", *words, **disk_of(len(read("dispute.jsonl")) + 10, False))) == expected,
              "after a full disk the game is another")


run_tests(test_disputes)
