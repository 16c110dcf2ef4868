"""A flipped bit of a trace or of a run's index is noticed, or lies where it says nothing: flips.py --bin FOLDER (refusals.py)

Every flip is judged by its place: h5py tells where a file's numbers are, what lies before them is HDF5's own, with checksums, and zeros that belong
to nothing fill the rest. Exits 77 without h5py.
"""

import random
import shutil

from refusals import BIN, DONE, MALFORMED, MISSING, call, check, finishes, flipped, read, run_tests, tasks, write

tasks.needs.modules("h5py")
import h5py  # noqa: E402

FLIPS = 60  # of each place


def places_of(path):
    """{name: [first, end)} of its datasets, none of which is in chunks; of "metadata", and [ranges] of "nothing"."""
    with h5py.File(path, "r") as file:
        places = {name: (item.id.get_offset(), item.id.get_offset() + item.id.get_storage_size()) for name, item in file.items()}
        shapes = {name: item.shape for name, item in file.items()}
    content = read(path)
    ranges = sorted(places.values())
    gaps = [(end, start) for (_, end), (start, _) in zip(ranges, ranges[1:]) if end < start]
    metadata = len(content[:ranges[0][0]].rstrip(b"\0"))
    nothing = [(metadata, ranges[0][0]), *gaps, (ranges[-1][1], len(content))]
    # A gap may hold metadata: it is nothing if it is zeros.
    holes = [(first, end) for first, end in nothing if first < end and not content[first:end].strip(b"\0")]
    return content, places, shapes, (0, metadata), holes


def flips(numbers, content, first, end):
    """Places and contents with one bit flipped in [first, end)."""
    for _ in range(min(FLIPS, 8 * (end - first))):
        bit = numbers.randrange(8 * first, 8 * end)
        yield bit // 8, bit % 8, flipped(content, bit)


def test_traces():
    """dgx-bisect diff of a run and a trace of it: a flipped state is the first difference, at its step."""
    tasks.run(BIN, "dgx-bisect", "trace", "small.json", "--from", "whole", "--segment", "3", "--data", "small.h5", "-o", "good.h5")
    content, places, shapes, metadata, holes = places_of("good.h5")
    check(list(places) == ["states"] and sum(end - first for first, end in holes) > 0, f"places of a trace: {places}, {holes}")

    def diff(bad):
        write("bad.h5", bad)
        done = call("dgx-bisect", "diff", "small.json", "whole", "bad.h5", "--data", "small.h5")
        return done.returncode, done.stdout, done.stderr

    numbers, intact = random.Random(4), diff(content)
    check(intact[0] == DONE, f"an intact trace: {intact}")
    for at, bit, bad in flips(numbers, content, *metadata):
        check(diff(bad)[0] == MALFORMED, f"a trace's metadata, byte {at}, bit {bit}: exit {diff(bad)[0]}")
    for first, end in holes:
        for at, bit, bad in flips(numbers, content, first, end):
            check(diff(bad) == intact, f"a trace, where nothing is, byte {at}, bit {bit}: {diff(bad)}")
    start, (rows, width) = places["states"][0], shapes["states"]
    for row in range(rows):
        for at, bit, bad in list(flips(numbers, content, start + row * width, start + (row + 1) * width))[:8]:
            code, told, _ = diff(bad)
            # Row 0 is the state that the segment begins with, which the run has; row r the one after its step r - 1.
            wanted = code == MALFORMED if row == 0 else code == 1 and f"\nstep:               {30 + row - 1}\n" in told
            check(wanted, f"a trace's state {row}, byte {at}, bit {bit}: exit {code}, {told}")


class Run:
    """A finished run, read as dgx-inspect --check and dgx-prove do."""

    def __init__(self):
        self.index = "copy/index.h5"
        self.intact = self.states()

    def states(self):
        """Exit code of dgx-prove, and the states to which it commits."""
        done = call("dgx-prove", "small.json", "copy", "--key", "stranger.pem", "-o", "flip.json", "--force")
        return done.returncode, read("flip.states") if done.returncode == DONE else None

    def refused(self, bad):
        """By which of the two."""
        write(self.index, bad)
        return [name for name, code in (("inspect", call("dgx-inspect", "copy", "--check").returncode), ("prove", self.states()[0])) if code in (MALFORMED, MISSING)]

    def unmoved(self, bad):
        """The proof is the intact run's."""
        write(self.index, bad)
        return self.states() == self.intact


def test_indexes():
    shutil.copytree("whole", "copy")
    run = Run()
    content, places, shapes, metadata, holes = places_of(run.index)
    check(set(places) == {"digests", "kept", "loss_ends", "losses", "steps"} and run.intact[0] == DONE, f"places of an index: {places}")
    numbers = random.Random(5)
    for at, bit, bad in flips(numbers, content, *metadata):
        check(run.refused(bad) == ["inspect", "prove"], f"an index's metadata, byte {at}, bit {bit}: refused by {run.refused(bad)}")
    for first, end in holes:
        for at, bit, bad in flips(numbers, content, first, end):
            check(run.unmoved(bad), f"an index, where nothing is, byte {at}, bit {bit}")
    for name, place in places.items():
        for at, bit, bad in flips(numbers, content, *place):
            check(run.refused(bad) == ["inspect", "prove"], f"an index's {name}, byte {at}, bit {bit}: refused by {run.refused(bad)}")


def test_setting():
    finishes("whole", "alone")


run_tests(test_setting, test_traces, test_indexes)
