"""The form of what a move says: dgx-dispute(7), "Evidence". What has another form is no move; whether it proves anything is another question."""

import math

from .evidence import TYPES, Unproven, decoded, digest, digest_list, fields, is_integer, need

MOST = 16384  # bytes that a claim brings


def integer(value):
    need(is_integer(value), "not an integer")


def kind(value):
    need(isinstance(value, str) and value in TYPES, "not a type")


def printable(most):
    def check(value):
        need(isinstance(value, str) and 1 <= len(value) <= most and all(" " <= letter <= "~" for letter in value), "not printable ASCII")

    return check


def text(value):
    need(isinstance(value, str) and len(value.encode()) <= 3072, "not a line's text")


def any_shape(value):
    """A dimension may be 0."""
    need(isinstance(value, list) and len(value) <= 8, "not a shape")
    for size in value:
        integer(size)
    need(all(math.prod(value[:n]) <= 2**53 for n in range(len(value) + 1)), "a shape of too many elements")


def shape(value):
    any_shape(value)
    need(all(value), "a shape without elements")


def path(value):
    need(len(digest_list(value)) <= 64, "a path of more than 64 digests")


def nodes(value):
    need(len(digest_list(value)) <= 256, "a list of more than 256 digests")


def bytes_of(most):
    def check(value):
        need(len(decoded(value)) <= most, f"more than {most} bytes")

    return check


def row(value):
    """Looked at where it is shown."""


ENTRY = {"count": integer, "digest": digest, "index": integer, "name": printable(512), "path": path}
LINE = {"index": integer, "path": path, "text": text}
LEAF = {"bytes": bytes_of(1024), "leaf": integer, "path": path, "shape": shape, "t": kind}
OPERANDS = [{**LEAF, "table": path, "value": integer}, {"root": digest, "shape": shape, "t": kind, "table": path, "value": integer},
            {"shape": shape, "t": kind, "value": integer}]


def of(form):
    def check(value):
        fields(value, form)
        for key, each in form.items():
            each(value[key])

    return check


def operands(value):
    need(isinstance(value, list) and len(value) <= 96, "not a list of operands")
    for opening in value:
        need(isinstance(opening, dict), "not an object")
        form = next((form for form in OPERANDS if set(form) == set(opening)), None)
        need(form is not None, "no opening")
        of(form)(opening)


FIELDS = {"kind": printable(16), "claim": printable(1), "digest": digest, "digests": nodes, "nodes": nodes, "root": digest, "path": path, "row": row,
          "bytes": bytes_of(1024), "numbers": bytes_of(16640), "index": integer, "step": integer, "count": integer, "shape": shape, "t": kind,
          "entry": of(ENTRY), "before": of(ENTRY), "after": of(ENTRY), "line": of(LINE), "tensor": of(LEAF), "operands": operands,
          "data": of({"entry": of(ENTRY), "scales": digest, "tensor": of(LEAF)})}
OTHERS = {"fault": {"shape": any_shape}, "entry": {"name": printable(256)}, "chunk": {"location": printable(1024)}}


def is_right(say):
    """Whether what is said has the form that its fields are to have, and no more evidence than a claim may bring."""
    known = {**FIELDS, **OTHERS.get(say["kind"], {})}
    try:
        for key, value in say.items():
            known[key](value)
    except Unproven:
        return False
    return say["kind"] != "claim" or sum(size(key, value) for key, value in say.items()) <= MOST


def size(key, value):
    """Bytes of evidence: texts, names and bytes, and 32 for each digest; of an operand, if it proves something."""
    if isinstance(value, list) and key == "operands":
        return sum(size("", each) for each in value if "table" in each)
    if isinstance(value, dict):
        return sum(size(name, each) for name, each in value.items())
    if key in ("bytes", "path", "table"):
        return len(decoded(value))
    return 32 if key in ("digest", "root", "scales") else len(value.encode()) if key in ("name", "text") else 0
