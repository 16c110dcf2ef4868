"""What a folder may hold after a crash at any moment of a program, worked out from the journal of its calls (shim.cc).

The model is that of tests/support/faulty_file_system.h: a file's bytes are durable once it was synced, a name once its folder was; of all later
changes any may be lost, of a file's the last ones.
"""

import os
import random
import shutil

# What of the unsynced survives: everything, as when a process is killed; nothing; names without bytes; drawn.
OUTCOMES = ("killed", "nothing", "names", "drawn")
O_CREAT, O_TRUNC, O_APPEND = os.O_CREAT, os.O_TRUNC, os.O_APPEND


def read_tree(folder):
    """Files' bytes, and None for folders, by path relative to `folder`; folders before what is in them."""
    out = {}
    for root, folders, files in os.walk(folder):
        inside = os.path.relpath(root, folder)
        for name in sorted(folders):
            out[os.path.normpath(os.path.join(inside, name))] = None
        for name in files:
            with open(os.path.join(root, name), "rb") as file:
                out[os.path.normpath(os.path.join(inside, name))] = file.read()
    return out


def write_tree(tree, folder):
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    for path, content in sorted(tree.items()):
        target = os.path.join(folder, path)
        if not os.path.isdir(os.path.dirname(target)):
            continue  # its folder's name was lost
        if content is None:
            os.mkdir(target)
            continue
        with open(target, "wb") as file:
            file.write(content)
        os.chmod(target, 0o600 if path.endswith(".pem") else 0o644)


class Node:
    def __init__(self, content):
        self.durable, self.pending, self.size = content, [], len(content)

    def content(self, kept, cut=None, zeros=False):
        """After the first `kept` changes; of the last one only `cut` bytes are there, or zeros for the rest."""
        out = bytearray(self.durable)
        for number, (at, data) in enumerate(self.pending[:kept]):
            if data is None:
                out = out[:at] + bytes(max(0, at - len(out)))
                continue
            there = len(data) if cut is None or number + 1 < kept else min(cut, len(data))
            end = at + (len(data) if zeros else there)
            out += bytes(max(0, end - len(out)))
            out[at:at + there] = data[:there]
        return bytes(out)


class Disk:
    def __init__(self, tree, folder):
        self.folder = folder
        self.nodes = [Node(content) for content in tree.values() if content is not None]
        numbers = iter(range(len(self.nodes)))
        self.durable = {path: None if content is None else next(numbers) for path, content in tree.items()}
        self.names, self.pending, self.open = dict(self.durable), [], {}

    def path(self, path):
        return os.path.normpath(os.path.relpath(os.path.join(self.folder, path), self.folder))

    def name(self, comes, node, goes):
        self.pending.append((comes, node, goes))
        self.apply(self.names, self.pending[-1])

    @staticmethod
    def apply(names, change):
        comes, node, goes = change
        names.pop(goes, None)
        if comes:
            names[comes] = node

    def step(self, line):
        word, *rest = line.split(" ")
        getattr(self, "do_" + word)(*rest)

    def do_failed(self):
        pass

    def do_open(self, file, flags, path):
        path, flags = self.path(path), int(flags)
        if path != "." and path not in self.names:
            self.nodes.append(Node(b""))
            self.name(path, len(self.nodes) - 1, None)
        number = None if path == "." else self.names[path]
        if number is not None and flags & O_TRUNC and self.nodes[number].size:
            self.nodes[number].pending.append((0, None))
            self.nodes[number].size = 0
        self.open[file] = [number, path, bool(flags & O_APPEND), 0]

    def do_close(self, file):
        self.open.pop(file)

    def do_write(self, file, at, digits):
        opened, data = self.open[file], bytes.fromhex(digits)
        node = self.nodes[opened[0]]
        at = int(at)
        if at < 0:
            at = node.size if opened[2] else opened[3]
            opened[3] = at + len(data)
        node.pending.append((at, data))
        node.size = max(node.size, at + len(data))

    def do_ftruncate(self, file, size):
        node = self.nodes[self.open[file][0]]
        node.pending.append((int(size), None))
        node.size = int(size)

    def do_fsync(self, file, _=""):
        number, path, *_ = self.open[file]
        if number is not None:
            node = self.nodes[number]
            node.durable, node.pending = node.content(len(node.pending)), []
            return
        here = [c for c in self.pending if (os.path.dirname(c[0] or c[2]) or ".") == path]
        for change in here:
            self.apply(self.durable, change)
        self.pending = [c for c in self.pending if c not in here]

    def do_rename(self, old, new):
        old, new = self.path(old), self.path(new)
        self.name(new, self.names[old], old)

    def do_link(self, old, new):
        self.name(self.path(new), self.names[self.path(old)], None)

    def do_unlink(self, path, _=""):
        self.name(None, None, self.path(path))

    def do_mkdir(self, path, _=""):
        self.name(self.path(path), None, None)

    def after(self, outcome, seed):
        """The tree that is found."""
        draw = random.Random(seed)
        if outcome == "killed":
            names = self.names
        else:
            names = dict(self.durable)
            for change in self.pending:
                if outcome == "names" or (outcome == "drawn" and draw.random() < 0.5):
                    self.apply(names, change)
        return {path: None if number is None else self.bytes_of(self.nodes[number], outcome, draw) for path, number in names.items()}

    @staticmethod
    def bytes_of(node, outcome, draw):
        if outcome == "killed":
            return node.content(len(node.pending))
        if outcome != "drawn" or not node.pending:
            return node.durable
        return node.content(draw.randint(0, len(node.pending)), draw.randint(0, 4096), draw.random() < 0.5)
