#!/usr/bin/python3
"""Kernels in PTX as C++, so that what nvcc made of them runs where there is no GPU (words.h says what each instruction does).

usage: translate.py IN.ptx OUT.cc

An entry becomes a function of its own mangled name that takes addresses of its parameters; labels and branches stay what they are. An
instruction that words.h does not know is a compiler's error.
"""

import re
import sys

REGISTER = {"pred": "bool", "b16": "u16", "b32": "u32", "f32": "u32", "b64": "u64", "f64": "u64"}
SPECIAL = {"%tid.x": "threadIdx.x", "%ctaid.x": "blockIdx.x", "%ntid.x": "blockDim.x", "%nctaid.x": "gridDim.x"}
MEMORY = re.compile(r"^(ld|st)\.")
ORDERED = ("volatile", "nc", "uni")  # words that change nothing here


def size_of(kind):
    return int(re.search(r"\d+", kind)[0]) // 8


STATEMENT = re.compile(r"""\s*(?:
    (?P<label>\$?[\w$]+:) |
    (?P<head>(?:\.visible\s+|\.weak\s+)?\.(?:func|entry)\b[^{;]*[{;]) |
    (?P<brace>[{}]) |
    (?P<other>[^;]*;))""", re.X)


def statements_of(text):
    """(line number, statement). A brace where a statement could begin is a scope, any other belongs to a vector or a table."""
    text = re.sub(r"//.*", "", text)
    text = re.sub(r"^(\.(?:version|target|address_size).*)$", r"\1;", text, flags=re.M)  # they end with their line
    text = text.rstrip()
    at = number = 0
    while at < len(text):
        found = STATEMENT.match(text, at)
        if not found:
            sys.exit(f"line {number + 1}: cannot be read: {text[at:at + 80].strip()}")
        number += text.count("\n", at, found.end())
        at = found.end()
        yield number + 1, found[0].strip()


class Translator:
    def __init__(self):
        self.shared, self.shared_bytes = {}, 0
        self.names = {}  # of parameters in the function at hand
        self.out = []
        self.depth = 0

    def variable(self, statement):
        """A declaration of memory: .shared and .global ones outside live as long as the module."""
        constant = re.match(r"(?:\.visible )?\.const \.align (\d+) \.(\w+)\s+([\w$]+)(?:\[(\d+)\])?(?:\s*=.*)?;", statement)
        if constant:  # the host sets it, by its name
            return f'extern "C" u8 {constant[3]}[{size_of(constant[2]) * int(constant[4] or 1)}];'
        number = re.match(r"\.global \.align (\d+) \.(\w\d+) ([\w$]+)(?: = (\S+))?;", statement)
        if number:  # a constant of one number
            align, kind, name, value = number.groups()
            return f"alignas({align}) static const u{size_of(kind) * 8} {name}[1] = {{{self.operand(value or '0')}}};"
        found = re.match(r"\.(\w+) .*?\.align (\d+) \.b8\s+([\w$]+)\[(\d+)\](?:\s*=\s*(\{.*\}))?;", statement)
        space, align, name, count, values = found.groups()
        if space == "shared":
            self.shared_bytes = -(-self.shared_bytes // 16) * 16
            self.shared[name] = self.shared_bytes
            self.shared_bytes += int(count)
            return ""
        where = "static const " if space == "global" else ""
        return f"alignas({align}) {where}u8 {name}[{count}]{' = ' + values if values else ''};"

    def header(self, statement):
        """The head of a function, up to its brace, or a declaration."""
        is_entry = ".entry" in statement
        found = re.match(r".*?\.(?:entry|func)\s+(\([^()]*\))?\s*([\w$]+)\s*(?:\((.*?)\))?", statement, re.S)
        name, parameters = found[2], found[3] or ""
        self.names = {word: f"parameters[{n}]" for n, word in enumerate(re.findall(r"([\w$]+)(?:\[\d+\])?\s*(?:,|$)", parameters.strip()))}
        self.names["func_retval0"] = "result"
        if is_entry:
            label = f"entry_{name}"
            return f'extern "C" void {label}(const u8* const* parameters) __asm__("{name}");\nextern "C" void {label}(const u8* const* parameters)'
        return f"static void {name}([[maybe_unused]] u8* result, [[maybe_unused]] const u8* const* parameters)"

    def registers(self, statement):
        kind, names = re.match(r"\.reg \.(\w+)\s+(.*);", statement).groups()
        out = []
        for name in names.split(","):
            found = re.match(r"\s*(%?)([\w]+)(?:<(\d+)>)?\s*$", name)
            base, count = found[2], found[3]
            out += [base] if count is None else [f"{base}{n}" for n in range(1, int(count))]
        return f"{REGISTER[kind]} {', '.join(out)};" if out else ""

    def operand(self, word):
        word = word.strip()
        if word in SPECIAL:
            return SPECIAL[word]
        if word.startswith("%"):
            return word[1:]
        if re.match(r"^0f[0-9a-fA-F]{8}$", word):
            return f"0x{word[2:]}U"
        if re.match(r"^0d[0-9a-fA-F]{16}$", word):
            return f"0x{word[2:]}ULL"
        if re.match(r"^-?\d+$", word):
            return f"static_cast<u64>({word}LL)" if int(word) != -(1 << 63) else "0x8000000000000000ULL"
        if word in self.shared:
            return f"{self.shared[word]}U"
        return f"address_of({self.names.get(word, word)})"

    def address(self, word):
        base, _, offset = word.strip()[1:-1].partition("+")
        return f"{self.operand(base)} + {offset}" if offset.strip() not in ("", "0") else self.operand(base)

    def memory(self, name, words):
        """A load or store, of one number or a vector."""
        _, *kinds = name.split(".")
        kinds = [kind for kind in kinds if kind not in ORDERED]
        vector = next((int(kind[1:]) for kind in kinds if re.match(r"^v\d$", kind)), 1)
        space = kinds[0] if kinds[0] in ("param", "global", "local", "shared") else "generic"
        kind = kinds[-1]
        is_load = name.startswith("ld")
        numbers, place = (words[0], words[1]) if is_load else (words[1], words[0])
        numbers = [n.strip() for n in numbers.strip("{} ").split(",")]
        where = self.address(place)
        where = f"shared_address({where})" if space == "shared" else where
        size = size_of(kind)
        out = [f"check_alignment({where}, {size * vector});"]
        for n, number in enumerate(numbers):
            at = f"{where} + {n * size}"
            out.append(f"{self.operand(number)} = ld_{kind}({at});" if is_load else f"st_{kind}({at}, {self.operand(number)});")
        return " ".join(out)

    def move(self, kind, words):
        """To, from or between registers; a vector's lowest part comes first."""
        to, source = words
        parts = lambda word: [w.strip() for w in word.strip("{} ").split(",")]  # noqa: E731
        if to.startswith("{"):
            bits = size_of(kind) * 8 // len(parts(to))
            return " ".join(f"{self.operand(w)} = {self.operand(source)} >> {n * bits};" for n, w in enumerate(parts(to)) if w != "_")
        if source.startswith("{"):
            bits = size_of(kind) * 8 // len(parts(source))
            joined = " | ".join(f"static_cast<u64>(static_cast<u{bits}>({self.operand(w)})) << {n * bits}" for n, w in enumerate(parts(source)))
            return f"{self.operand(to)} = {joined};"
        return f"{self.operand(to)} = {self.operand(source)};"

    def call(self, statement):
        found = re.match(r"call(?:\.uni)?\s*(?:\((\w+)\)\s*,)?\s*([\w$]+)\s*(?:,\s*\((.*)\))?\s*;", statement, re.S)
        result, name, arguments = found[1] or "nullptr", found[2], found[3] or ""
        return f"{{ const u8* const all[] = {{{arguments}}}; {name}({result}, all); }}"

    def instruction(self, statement, number):
        guard = re.match(r"^@(!?)%(\w+)\s+", statement)
        if guard:
            return f"if ({guard[1]}{guard[2]}) {{ {self.instruction(statement[guard.end():], number)} }}"
        name, _, rest = statement.rstrip(";").strip().partition(" ")
        name, _, tail = name.partition("\t")
        rest = f"{tail} {rest}".strip()
        words = [w.strip() for w in re.findall(r"\s*(\{[^}]*\}|\[[^\]]*\]|[^,]+)", rest)]
        if name in ("bra", "bra.uni"):
            return f"goto {words[0].replace('$', '')};"
        if name == "ret":
            return "return;"
        if name == "bar.sync":
            return f'::dgx::kernels::cuda::emulated::barrier("PTX", {number});'
        if name.startswith("call"):
            return self.call(statement)
        if MEMORY.match(name):
            return self.memory(name, words)
        if name.startswith("mov."):
            return self.move(name.split(".")[1], words)
        if name.startswith("cp.async."):
            plain = re.sub(r"\.(ca|cg|shared|global)", "", name).replace(".", "_")
            return f"{plain}({', '.join(self.address(w) if w.startswith('[') else self.operand(w) for w in words)});"
        if name.startswith("shfl.sync."):  # the register, and whether the other thread was in range: it always is
            words[0], _, held = words[0].partition("|")
            held = f" {self.operand(held)} = true;" if held else ""
            to, *given = [self.operand(w) for w in words]
            return f"{to} = {name.replace('.', '_')}({', '.join(given)});{held}"
        to, *given = [self.operand(w) for w in words]
        return f"{to} = {name.replace('.', '_')}({', '.join(given)});"

    def statement(self, statement, number):
        if re.match(r"^\.(version|target|address_size|pragma|file|loc)\b", statement):
            return ""
        if re.match(r"^(\.visible |\.weak )?\.(func|entry)\b", statement):
            head = self.header(statement)
            return head + (" {" if statement.endswith("{") else ";")
        if statement.startswith(".reg"):
            return self.registers(statement)
        if re.match(r"^\.(visible |extern )?\.?param", statement):
            kind, name, count = re.match(r"\.param (?:\.align \d+ )?\.(\w+)\s+(\w+)(?:\[(\d+)\])?;", statement).groups()
            return f"alignas(16) u8 {name}[{size_of(kind) * int(count or 1)}];"
        if re.match(r"^(\.visible )?\.(shared|global|const|local)\b", statement):
            return self.variable(statement)
        if statement in "{}":
            return statement
        if statement.endswith(":"):
            return f"{statement.replace('$', '')};"
        return self.instruction(statement, number)

    def run(self, text):
        for number, statement in statements_of(text):
            self.out.append(self.statement(statement, number))
        return f'// Made by translate.py.\n#include "words.h"\n\nstatic_assert({self.shared_bytes} <= kSharedBytes);\n' + "\n".join(filter(None, self.out)) + "\n"


if __name__ == "__main__":
    with open(sys.argv[1]) as source:
        translated = Translator().run(source.read())
    with open(sys.argv[2], "w") as out:
        out.write(translated)
