"""The form of evidence, in claims and faults: dgx-dispute(7), "Evidence". What has another form is no move; whether it proves anything is another question."""

from .evidence import Unproven, decoded, digest, digest_list, fields, is_integer, need


def integer(value):
    need(is_integer(value), "not an integer")


def text(value):
    need(isinstance(value, str), "not a string")


def shape(value):
    need(isinstance(value, list), "not a list")
    for size in value:
        integer(size)


def path(value):
    need(len(digest_list(value)) <= 64, "a path of more than 64 digests")


ENTRY = {"count": integer, "digest": digest, "index": integer, "name": text, "path": path}
LINE = {"index": integer, "path": path, "text": text}
LEAF = {"bytes": decoded, "leaf": integer, "path": path, "shape": shape, "t": text}
OPERANDS = [{**LEAF, "table": path, "value": integer}, {"root": digest, "shape": shape, "t": text, "table": path, "value": integer},
            {"shape": shape, "t": text, "value": integer}]


def of(form):
    def check(value):
        fields(value, form)
        for key, each in form.items():
            each(value[key])

    return check


def operands(value):
    need(isinstance(value, list), "not a list")
    for opening in value:
        need(isinstance(opening, dict), "not an object")
        form = next((form for form in OPERANDS if set(form) == set(opening)), None)
        need(form is not None, "no opening")
        of(form)(opening)


FIELDS = {"kind": text, "claim": text, "digest": digest, "index": integer, "step": integer, "root": digest, "shape": shape, "t": text, "path": path,
          "entry": of(ENTRY), "before": of(ENTRY), "after": of(ENTRY), "line": of(LINE), "tensor": of(LEAF), "operands": operands,
          "data": of({"entry": of(ENTRY), "scales": digest, "tensor": of(LEAF)})}


def is_right(say):
    """Whether a claim's or a fault's evidence has the form that its fields are to have."""
    try:
        for key, value in say.items():
            FIELDS[key](value)
        return True
    except Unproven:
        return False
