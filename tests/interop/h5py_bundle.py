"""Bundles as h5py sees them, and hostile bundles that h5py makes.

h5py_bundle.py BUNDLE_TOOL PLUGIN_FOLDER

The digests are computed here a second time, from dgx-bundle(5), "Digests". Exits 77 without h5py (a skipped test).
"""

import hashlib
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

TOOL, PLUGINS = sys.argv[1:]
os.environ["HDF5_PLUGIN_PATH"] = PLUGINS
try:
    import h5py
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import run_index  # noqa: E402

FOLDER = tempfile.mkdtemp(prefix="dgx-h5py-")
failures = 0


def path(name):
    return os.path.join(FOLDER, name)


def check(condition, what):
    global failures
    if not condition:
        failures += 1
        print("FAILED:", what)


def tool(*arguments):
    done = subprocess.run([TOOL, *arguments], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout.strip(), done.stderr.strip()


# --- digests, from the page ---


def sha(data):
    return hashlib.sha256(data).digest()


def root_of(leaves):
    if not leaves:
        return sha(b"")
    if len(leaves) == 1:
        return leaves[0]
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return sha(b"\1" + root_of(leaves[:split]) + root_of(leaves[split:]))


def tensor_digest(array):
    kind = {"<f4": 1, "<i8": 2, "|u1": 3}[array.dtype.str]
    data = array.tobytes()
    leaves = [sha(b"\0" + data[i : i + 1024]) for i in range(0, len(data), 1024)]
    dims = b"".join(struct.pack(">Q", size) for size in array.shape)
    return sha(bytes([2, kind, array.ndim]) + dims + root_of(leaves))


def nodes_of(array):
    leaves = [sha(b"\0" + array.tobytes()[i : i + 1024]) for i in range(0, array.nbytes, 1024)]
    return [root_of(leaves[i : i + 16]) for i in range(0, len(leaves), 16)]


def entries_root(tensors):
    leaves = []
    for name in sorted(tensors):
        leaves.append(sha(b"\0\3" + struct.pack(">H", len(name)) + name.encode() + tensor_digest(tensors[name])))
    return root_of(leaves)


def state_digest(tensors):
    return sha(b"\3" + struct.pack(">Q", len(tensors)) + entries_root(tensors)).hex()


def dataset_digest(tensors, recipe):
    return sha(b"\7" + entries_root(tensors) + sha(recipe)).hex()


def counting(dtype, shape):
    numbers = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape) % 251
    return (numbers * 0.25).astype(dtype) if dtype == "<f4" else numbers.astype(dtype)


def tensors_in(group):
    found = {}
    group.visititems(lambda name, item: found.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None)
    return {name: np.asarray(value) for name, value in found.items()}


# --- what h5py reads ---


def test_reading():
    state = {
        "loss": counting("<f4", ()),
        "model/bias": counting("<f4", (10,)),
        "model/empty": counting("<f4", (0, 3)),
        "model/weight": counting("<f4", (70001, 5)),
        "step": counting("<i8", ()),
    }
    with h5py.File(path("plain.h5"), "r") as plain, h5py.File(path("state.h5"), "r") as packed:
        check(packed["state/model/weight"].chunks is not None, "a large entry of a state is compressed")
        for name, expected in state.items():
            item = plain["state"][name]
            check(item.chunks is None and item.id.get_create_plist().get_nfilters() == 0, f"plain {name} has no filter")
            check(item.shape == expected.shape and np.asarray(item[()]).tobytes() == expected.tobytes(), f"numbers of plain {name}")
        check(plain.attrs["digest"] == packed.attrs["digest"], "digest of the plain state")
    check(tool("read", "state", path("plain.h5"))[0] == 0, "a plain state is read")
    with h5py.File(path("state.h5"), "r") as file:
        read = tensors_in(file["state"])
        check(sorted(read) == sorted(state), "names of the state's entries")
        for name, expected in state.items():
            got = read[name]
            same = got.dtype == expected.dtype and got.shape == expected.shape and np.array_equal(got, expected)
            check(same, f"numbers of {name}")
            check(file["state"][name].attrs["digest"].decode() == tensor_digest(expected).hex(), f"digest of {name}")
        check(file.attrs["digest"].decode() == state_digest(state), "digest of the state")
        check(file.attrs["dgx"] == b"state" and file.attrs["version"] == 2, "kind and version")
        check(file["state/model/weight"].chunks is not None, "large tensors are chunked")
        check(file["state/model/bias"].chunks is None, "small tensors are not")
    with h5py.File(path("data.h5"), "r") as file:
        data = tensors_in(file)
        nodes = {name: data.pop(f"{name}.nodes") for name in ("x", "y")}
        for name, stored in nodes.items():
            check(stored.dtype == "u1" and [bytes(row) for row in stored] == nodes_of(data[name]), f"nodes of {name}")
        check(len(nodes["x"]) == 144, "nodes of 2,352,000 bytes: 143 whole groups and one of 9,088 bytes")
        check(np.array_equal(data["x"], counting("|u1", (3000, 28, 28))), "samples")
        check(np.array_equal(data["y"], counting("<i8", (3000,))), "labels")
        recipe = file.attrs["recipe"]
        check(recipe == b'{"ranges":{"x":[0,250],"y":[0,250]},"scale":"0x1p0","shift":"0x0p0"}', "recipe")
        check(file.attrs["digest"].decode() == dataset_digest(data, recipe), "digest of the dataset")
    with h5py.File(path("data.plain.h5"), "r") as plain, h5py.File(path("data.h5"), "r") as packed:
        check(plain.attrs["digest"] == packed.attrs["digest"], "digest of the plain dataset")
        check(all(item.chunks is None and item.id.get_create_plist().get_nfilters() == 0 for item in plain.values()), "a plain dataset has no filter")
        check(all(np.array_equal(plain[name][()], packed[name][()]) for name in packed), "numbers of the plain dataset")
    with h5py.File(path("sample.h5"), "r") as file:
        check(file["segments/0000000004/path"].shape == (2, 32), "path of a sample")
        check(tensors_in(file["segments/0000000004/state"]).keys() == state.keys(), "start state of a sample")
    with h5py.File(path("run/index.h5"), "r") as file:
        check(bytes(file["digests"][0]).hex() == state_digest(state), "digest in the run's index")
        check(file.attrs["digest"].decode() == run_index.digest_of(file), "digest of the run's index")


# --- what our reader must refuse: each is a good bundle with one thing changed ---


def replace(file, name, **options):
    """The dataset again, with other options; its digest attribute stays."""
    data, attributes = file[name][()], dict(file[name].attrs)
    del file[name]
    made = file.create_dataset(name, data=data, **options)
    for key, value in attributes.items():
        made.attrs[key] = value


def replace_by(file, name, data):
    del file[name]
    file[name] = data


def external_link(file):
    del file["state/model/bias"]
    file["state/model/bias"] = h5py.ExternalLink("other.h5", "/state/model/bias")


def soft_link(file):
    file["state/model/again"] = h5py.SoftLink("/state/model/bias")


def virtual(file):
    layout = h5py.VirtualLayout(shape=(10,), dtype="<f4")
    layout[:] = h5py.VirtualSource("other.h5", "x", shape=(10,))
    del file["state/model/bias"]
    file.create_virtual_dataset("state/model/bias", layout)


def external_storage(file):
    del file["state/model/bias"]
    file.create_dataset("state/model/bias", (10,), "<f4", external=[("/etc/passwd", 0, 40)])


def deflate(file):
    replace(file, "state/model/weight", chunks=(1000, 5), compression="gzip")


def plain_chunks(file):
    replace(file, "state/model/weight", chunks=(1000, 5))


def columns(file):
    replace(file, "state/model/weight", chunks=(70001, 1), shuffle=True, compression=32015)


def huge(file):
    del file["state/model/bias"]
    file.create_dataset("state/model/bias", (1 << 40,), "<f4")


def huge_chunks(file):
    del file["state/model/bias"]
    file.create_dataset("state/model/bias", (1 << 50,), "<f4", chunks=(1 << 20,), shuffle=True, compression=32015)


def missing_chunks(file):
    attributes = dict(file["state/model/weight"].attrs)
    del file["state/model/weight"]
    made = file.create_dataset("state/model/weight", (70001, 5), "<f4", chunks=(35001, 5), shuffle=True, compression=32015)
    made.attrs["digest"] = attributes["digest"]


def chunk_bomb(file):
    """A frame that says it holds a gigabyte."""
    missing_chunks(file)
    frame = bytes.fromhex("28b52ffd") + b"\xa0" + struct.pack("<I", 1 << 30) + b"\x01\x00\x00"
    for row in (0, 35001):
        file["state/model/weight"].id.write_direct_chunk((row, 0), frame)


def skipped_filter(file):
    missing_chunks(file)
    for row in (0, 35001):
        file["state/model/weight"].id.write_direct_chunk((row, 0), b"\0" * 700020, 3)


def double_precision(file):
    replace(file, "state/model/bias", dtype="<f8")


def big_endian(file):
    replace(file, "state/model/bias", dtype=">f4")


def compound(file):
    del file["state/model/bias"]
    file.create_dataset("state/model/bias", data=np.zeros(3, dtype=[("a", "<f4"), ("b", "<i8")]))


def strings(file):
    del file["state/model/bias"]
    file["state/model/bias"] = ["a", "b"]


def null_space(file):
    del file["state/model/bias"]
    file["state/model/bias"] = h5py.Empty("<f4")


def rank_nine(file):
    del file["state/model/bias"]
    file.create_dataset("state/model/bias", data=np.zeros((1,) * 9, "<f4"))


def named_type(file):
    file["state/model/type"] = np.dtype("<f4")


def loop(file):
    file["state/model/loop"] = file["state"]


def strange_name(file):
    file["state/caf\u00e9"] = np.zeros(3, "<f4")


def many(file):
    for i in range(66000):
        file["state"].create_group(f"g{i}")


def more_children(file):
    file["notes"] = np.zeros(3, "<f4")


def more_attributes(file):
    file.attrs["notes"] = 3


def entry_attribute(file):
    file["state/model/bias"].attrs["notes"] = 3


def no_digest(file):
    del file["state/model/bias"].attrs["digest"]


def variable_string(file):
    digest = file.attrs["digest"].decode()
    del file.attrs["digest"]
    file.attrs["digest"] = digest


def array_attribute(file):
    del file.attrs["digest"]
    file.attrs["digest"] = np.array([b"0" * 64, b"1" * 64])


def long_attribute(file):
    del file.attrs["digest"]
    file.attrs["digest"] = np.bytes_(b"0" * 60000)


def other_version(file):
    file.attrs["version"] = np.int64(1)


def version_type(file):
    file.attrs["version"] = np.float32(1)


def flipped_number(file):
    file["state/model/bias"][3] = np.nextafter(file["state/model/bias"][3], np.float32(9))


HOSTILE = [
    (external_link, "is a soft or external link"),
    (soft_link, "is a soft or external link"),
    (virtual, "header with times"),
    (external_storage, "numbers in other files"),
    (deflate, "has 1 filters"),
    (plain_chunks, "has 0 filters"),
    (columns, "not whole rows"),
    (huge, "its shape needs"),
    (huge_chunks, "more chunks than the file has bytes"),
    (missing_chunks, "is missing"),
    (chunk_bomb, "is not a zstd frame of 700020 bytes"),
    (skipped_filter, "without its filters"),
    (double_precision, "is not f32, i64 or u8"),
    (big_endian, "is not f32, i64 or u8"),
    (compound, "is not f32, i64 or u8"),
    (strings, "is not f32, i64 or u8"),
    (null_space, "is not an array"),
    (rank_nine, "at most 8 dimensions"),
    (named_type, "header with times"),
    (loop, ""),
    (strange_name, "not printable ASCII"),
    (many, "more than 65536 objects"),
    (more_children, "holds notes, state"),
    (more_attributes, "has attributes"),
    (entry_attribute, "attributes other than"),
    (no_digest, "has no digest"),
    (variable_string, "is not a fixed string"),
    (array_attribute, "is not a scalar"),
    (long_attribute, "is not a fixed string"),
    (other_version, "has format version 1"),
    (version_type, "is not an i64"),
    (flipped_number, "recomputed"),
]


def edited(change):
    shutil.copy(path("state.h5"), path("edited.h5"))
    with h5py.File(path("edited.h5"), "r+", libver="v110") as file:
        change(file)
    return tool("read", "state", path("edited.h5"))


def test_hostile():
    # Not everything that h5py touches is refused.
    code, _, error = edited(lambda file: replace(file, "state/model/bias"))
    check(code == 0, f"an entry written again by h5py is still good: {error}")
    code, _, error = edited(lambda file: replace(file, "state/model/weight", chunks=(16, 5), shuffle=True, compression=32015))
    check(code == 0, f"4,376 chunks, whose index has pages, are still good: {error}")
    for change, message in HOSTILE:
        code, _, error = edited(change)
        check(code == 65 and message in error, f"{change.__name__}: exit {code}, {error}")
        check(path("edited.h5") in error, f"{change.__name__}: the file is not named")
    with h5py.File(path("old.h5"), "w", libver="earliest") as file:
        file["x"] = 1
    code, _, error = tool("read", "state", path("old.h5"))
    check(code == 65 and "superblock" in error, f"an old superblock: exit {code}, {error}")


def test_kinds():
    for kind, name in [("state", "state.h5"), ("dataset", "data.h5"), ("dataset", "data.plain.h5"), ("sample", "sample.h5"), ("trace", "trace.h5"), ("run", "run")]:
        code, _, error = tool("read", kind, path(name))
        check(code == 0, f"{name}: {error}")
    code, _, error = tool("read", "dataset", path("state.h5"))
    check(code == 65, "a state is not a dataset")
    for key, value in [("recipe", b'{"ranges":{"x":[0,250],"y":[0,250]},"scale":"0x1p+0","shift":"0x0p0"}'),
                       ("recipe", b'{"ranges":{"x":[0,250]},"scale":"0x1p0","shift":"0x0p0"}'),
                       ("recipe", b'{"ranges":{"x":[0,250],"y":[0,250],"z":[0,1]},"scale":"0x1p0","shift":"0x0p0"}'),
                       ("recipe", b'{"ranges":{"x":[0,250],"y":[0,250]},"scale":"0x0p0","shift":"0x0p0"}'),
                       ("recipe", b'{}'), ("digest", b"0" * 64)]:
        shutil.copy(path("data.h5"), path("edited.h5"))
        with h5py.File(path("edited.h5"), "r+", libver="v110") as file:
            file.attrs[key] = np.bytes_(value)
        code, _, error = tool("read", "dataset", path("edited.h5"))
        check(code == 65, f"{key} {value}: exit {code}, {error}")
    zeros = np.zeros((144, 32), "u1")
    for what, change in [("no nodes", lambda file: file.__delitem__("x.nodes")),
                         ("other nodes", lambda file: file["x.nodes"].__setitem__(Ellipsis, zeros)),
                         ("one node more", lambda file: replace_by(file, "x.nodes", np.zeros((145, 32), "u1"))),
                         ("wide nodes", lambda file: replace_by(file, "x.nodes", np.zeros((144, 33), "u1"))),
                         ("nodes of no field", lambda file: file.create_dataset("z.nodes", data=zeros[:1]))]:
        shutil.copy(path("data.plain.h5"), path("edited.h5"))
        with h5py.File(path("edited.h5"), "r+", libver="v110") as file:
            change(file)
        for way in ("read", "open"):
            code, _, error = tool(way, "dataset", path("edited.h5"))
            check(code == 65 and "nodes" in error, f"{what}: {way}: exit {code}, {error}")
    for name in ("data.h5", "data.plain.h5"):
        code, _, error = tool("open", "dataset", path(name))
        check(code == 0, f"{name} is opened: {error}")


# --- files of others, for dgx-pack ---


def test_sources():
    # HDF5's oldest format and its newest; from the file's first byte, and behind a block of the user's.
    for options in ({"libver": "earliest"}, {"libver": "latest"}, {"libver": "earliest", "userblock_size": 1024}):
        check_sources(options)


def check_sources(options):
    halves = np.array([1, 2**-24, 65504, -0.1], "<f2")
    with h5py.File(path("other.h5"), "w", **options) as file:
        file["u8"] = np.arange(12, dtype="u1").reshape(3, 4)
        file.create_dataset("deep/gzip", data=np.arange(5000, dtype="<f4"), chunks=(1000,), compression="gzip", shuffle=True, fletcher32=True)
        file["big"] = np.array([1, -2], dtype=">i2")
        file["u32"] = np.array([2**32 - 1], dtype="<u4")
        file["f8"] = np.zeros(3)
        file["u64"] = np.zeros(3, "<u8")
        file["f2"] = halves
        file["big f2"] = halves.astype(">f2")
        # bfloat16 as HDF5 would describe it: also a float of two bytes.
        brain = h5py.h5t.IEEE_F16LE.copy()
        brain.set_fields(15, 7, 8, 0, 7)
        brain.set_ebias(127)
        h5py.h5d.create(file.id, b"brain", brain, h5py.h5s.create_simple((4,))).write(h5py.h5s.ALL, h5py.h5s.ALL, halves, mtype=brain)
        file["soft"] = h5py.SoftLink("/u8")
        file["outside"] = h5py.ExternalLink("state.h5", "/state/loss")
        file.create_dataset("grid", data=counting("<i8", (7, 11, 5)).astype(">i4"), chunks=(3, 4, 2), shuffle=True, compression="gzip")
        file.create_dataset("summed", data=counting("<f4", (7, 11)), chunks=(7, 11), fletcher32=True)
        file.create_dataset("odd", data=counting("|u1", (9, 3)), chunks=(5, 1), fletcher32=True, shuffle=True)
        file.create_dataset("zstd", data=counting("<i8", (100,)).astype("<u2"), chunks=(33,), shuffle=True, compression=32015)
        file["scalar"] = np.float32(2.5)
        file.create_dataset("none", (0, 3), "<f4")
        file.create_dataset("no chunks", (0, 3), "<f4", chunks=(1, 3), maxshape=(None, 3))
        file.create_dataset("unwritten", (1000, 1000), "<f4")
        file.create_dataset("lzf", data=np.zeros(1000, "<f4"), compression="lzf")
    accepted = {
        "u8": ("u8 [3,4]", np.arange(12, dtype="u1").reshape(3, 4)),
        "/deep/gzip": ("f32 [5000]", np.arange(5000, dtype="<f4")),
        "big": ("i64 [2]", np.array([1, -2], "<i8")),
        "u32": ("i64 [1]", np.array([2**32 - 1], "<i8")),
        "f2": ("f32 [4]", halves.astype("<f4")),
        "big f2": ("f32 [4]", halves.astype("<f4")),
        "grid": ("i64 [7,11,5]", counting("<i8", (7, 11, 5))),
        "summed": ("f32 [7,11]", counting("<f4", (7, 11))),
        "odd": ("u8 [9,3]", counting("|u1", (9, 3))),
        "zstd": ("i64 [100]", counting("<i8", (100,))),
        "scalar": ("f32 []", np.float32(2.5)),
        "none": ("f32 [0,3]", np.zeros((0, 3), "<f4")),
        "no chunks": ("f32 [0,3]", np.zeros((0, 3), "<f4")),
    }
    for name, (shape, array) in accepted.items():
        code, output, error = tool("hdf5", path("other.h5"), name)
        check(code == 0 and output == f"{shape} {tensor_digest(np.asarray(array)).hex()}", f"{options}: {name}: {output}{error}")
    refused = {"f8": 65, "u64": 65, "brain": 65, "soft": 65, "outside": 65, "unwritten": 65, "lzf": 65, "deep": 65, "u8/x": 65, "not there": 66, "a//b": 66, "//u8": 2}
    for name, expected in refused.items():
        code, output, error = tool("hdf5", path("other.h5"), name)
        check(code == expected, f"{name}: exit {code}, expected {expected}: {output}{error}")


try:
    check(tool("write", FOLDER)[0] == 0, "bundles are written")
    for test in (test_reading, test_kinds, test_hostile, test_sources):
        test()
finally:
    shutil.rmtree(FOLDER)
sys.exit(1 if failures else 0)
