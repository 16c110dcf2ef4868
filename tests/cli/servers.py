"""Data and start states on a server: servers.py --bin FOLDER

honest     the verdict is that of files, whatever is named by a URL; only what is needed is fetched; the cache saves it the next time
stumbling  one that fails once is asked again; a signal ends the wait for one that stalls, and the next call goes on
liars      a server that lies, stalls, ends early, changes its files or sends elsewhere is an error with the right code and words, at once or in the middle,
           and never gives a verdict
urls       which URLs are taken, and from whom; nothing that a file names is one; what is secret in one is never printed
tls        a certificate is checked
"""

import argparse
import concurrent.futures
import glob
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from file_server import Server  # noqa: E402

SAMPLES, WIDTH = 12000, 1000  # of which two segments need 64


class Failures(list):
    def check(self, holds, what):
        if not holds:
            self.append(what)
            print("FAILED:", what)


def npy(path, kind, shape, numbers):
    """An array as NumPy writes it, without NumPy."""
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    head += " " * (63 - (len(head) + 10) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + numbers)


class Scene:
    """A folder with a task, a proof and what they need; the files that a server has are below `site`."""

    def __init__(self, bin_folder, folder):
        self.bin, self.folder, self.site = bin_folder, folder, os.path.join(folder, "site")
        os.mkdir(self.site)
        npy(self.path("x.npy"), "|u1", (SAMPLES, WIDTH), random.Random(7).randbytes(SAMPLES * WIDTH))
        npy(self.path("y.npy"), "<i8", (SAMPLES,), struct.pack(f"<{SAMPLES}q", *(i % 3 for i in range(SAMPLES))))
        for role in ("submitter", "solver", "verifier"):
            self.run("dgx-key", "new", role)
        for name, more in (("plain.h5", ["--plain"]), ("data.h5", [])):
            self.run("dgx-pack", "npy", *more, "--x", "x.npy", "--y", "y.npy", "--scale", "0.004", "-o", f"site/{name}")
        self.run("dgx-submit", "--data", "site/data.h5", "--model", "mlp:1000-3", "--loss", "cross-entropy", "--optimizer", "sgd:lr=0.1", "--batch", "8",
                 "--steps", "16", "--checkpoint-every", "4", "--key", "submitter.pem", "-o", "task.json")
        self.run("dgx-train", "task.json", "--data", "site/data.h5", "-o", "run")
        self.run("dgx-prove", "task.json", "run", "--key", "solver.pem", "-o", "proof.json")
        self.run("dgx-verify", "beacon", "task.json", "--key", "verifier.pem", "-o", "commit.json")
        self.run("dgx-verify", "beacon", "commit.json", "--reveal", "proof.json", "--task", "task.json", "--unlogged", "--key", "verifier.pem", "-o", "beacon.json")
        self.run("dgx-prove", "open", "task.json", "proof.json", "--beacon", "beacon.json", "--run", "run", "-o", "site/sample.h5")
        shutil.copytree(self.path("run"), self.path("site/run"))
        self.verify("run", "site/data.h5")
        self.rows = self.slurp("v.rows.jsonl")

    def path(self, name):
        return os.path.join(self.folder, name)

    def slurp(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def run(self, program, *words, codes=(0,), **environment):
        command = [os.path.join(self.bin, program), *words]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=120, env=os.environ | environment)
        assert done.returncode in codes, f"{' '.join(command)}: exit {done.returncode}: {done.stderr}"
        return done

    def command(self, source, data, *more, output="v"):
        return ["task.json", "proof.json", "--from", source, "--data", data, *(more or ["--segments", "1,3"]), "--key", "verifier.pem", "-o", f"{output}.json",
                "--force"]

    def verify(self, source, data, *more, codes=(0,), output="v", timeout="30", **environment):
        for name in (f"{output}.json", f"{output}.rows.jsonl", f"{output}.json.part"):
            if os.path.exists(self.path(name)):
                os.remove(self.path(name))
        return self.run("dgx-verify", *self.command(source, data, *more, output=output), codes=codes, DGX_CACHE="", DGX_HTTP_TIMEOUT=timeout, **environment)


def check_honest(scene, server, failures):
    size = len(scene.slurp("site/plain.h5"))
    for source, data in (("run", "plain.h5"), (server.url("run/"), "plain.h5"), (server.url("run/"), "data.h5"), ("run", "data.h5")):
        server.reset()
        scene.verify(source, server.url(data))
        failures.check(scene.slurp("v.rows.jsonl") == scene.rows, f"{source} {data}: the rows are those of files")
        if data == "plain.h5" and source == "run":
            print(f"{size} bytes plain, 8 steps of 8 rows: {server.bytes} bytes fetched by {server.requests} requests")
            failures.check(server.bytes < size // 2, f"{server.bytes} bytes of {size} are fetched")
        failures.check(all(headers["User-Agent"].startswith("dgx/") and "Cookie" not in headers for headers in server.sent_headers), "headers")
    scene.verify(server.url("sample.h5"), server.url("plain.h5"), "--beacon", "beacon.json")
    server.reset()
    scene.run("dgx-verify", "task.json", "proof.json", "--from", "site/sample.h5", "--data", server.url("plain.h5"), "--beacon", "beacon.json", "--plan")
    failures.check(0 < server.bytes <= 2 * 65536, f"a plan reads the head of the data, not {server.bytes} bytes")
    # The cache: of a compressed field only structure and nodes are fetched again.
    fetched = []
    for _ in range(2):
        server.reset()
        scene.verify("run", server.url("data.h5"), "--segments", "1,3", "--cache", "cache")
        failures.check(scene.slurp("v.rows.jsonl") == scene.rows, "cached: the rows are those of files")
        fetched.append(server.bytes)
    print(f"{len(scene.slurp('site/data.h5'))} bytes compressed: {fetched[0]} bytes fetched, then {fetched[1]}")
    failures.check(any(os.path.getsize(name) == SAMPLES * WIDTH for name in glob.glob(scene.path("cache/*"))), "the cache has the field")
    for part in "01":
        scene.verify(server.url("run/"), server.url("plain.h5"), "--all", "--shard", f"{part}/2")
        os.rename(scene.path("v.json"), scene.path(f"s{part}.json"))
    scene.run("dgx-verify", "merge", "task.json", "proof.json", "s0.json", "s1.json", "--key", "verifier.pem", "-o", "merged.json")
    with open(scene.path("list"), "w") as file:
        file.write("task.json\tproof.json\n")
    done = scene.run("dgx-verify", "batch", "list", "--from", server.url("run/"), "--data", server.url("plain.h5"), "--all", "--key", "verifier.pem", "-o", "verdicts")
    failures.check("accepted" in done.stdout, "batch: " + done.stdout)


# Mode, exit code, words; what else the server is told. Each is tried from the first request on and from a later one.
LIARS = (
    ("whole", 74, "gives no parts of files", {}),
    ("endless", 74, "gives no parts of files", {}),
    ("stall", 74, "the server stalls", {}),
    ("silent", 74, "the server stalls", {}),
    ("drip", 74, "the server stalls", {}),
    ("early", 74, "ended the answer after", {}),
    ("reset", 74, "ended the answer after", {}),
    ("more", 74, "more than it was asked for", {}),
    ("less", 74, "another part of the file", {}),
    ("unknown", 74, "another part of the file", {}),
    ("junk", 74, "", {}),
    ("gone", 66, "does not exist on the server", {}),
    ("forbidden", 74, "does not give it out (status 403)", {}),
    ("busy", 74, "status 503", {}),
    ("empty", 65, "nothing from byte", {}),
    ("circle", 74, "in circles", {}),
    ("moved", 74, "sends to http://localhost, which nobody named", {"to": "http://localhost/x"}),
    ("moved", 74, "sends elsewhere: a URL has a user", {"to": "https://me:secret@127.0.0.1/"}),
    ("moved", 74, "sends elsewhere: is not a URL", {"to": "file:///etc/passwd"}),
)
# From the second request on only: the first one states what later ones are compared with.
CHANGES = (
    ("length", 65, "changed on the server while it was read: it had", {}),
    ("tag", 65, "its entity tag is another", {}),
    ("elsewhere", 74, "another part of the file", {}),
)


def expect(scene, failures, number, name, code, words, source, data, **more):
    """One call on a server of its own: `{}` in the paths is where it is."""
    output = f"liar-{number}"
    with Server(scene.site) as server:
        server.reset(name, **more)
        begun = time.monotonic()
        done = scene.verify(source.format(server.origin), data.format(server.origin), codes=range(256), output=output, timeout="1" if name in ("stall", "silent", "drip") else "30")
        what = f"{name} {more} {source} {data}: exit {done.returncode}, {done.stderr}"
        failures.check(done.returncode == code and words in done.stderr, what)
        failures.check("secret" not in done.stderr + done.stdout, "a secret is printed: " + what)
        failures.check(not os.path.exists(scene.path(f"{output}.json")), "a verdict: " + what)
        failures.check(time.monotonic() - begun < 60, f"{time.monotonic() - begun:.0f} s: {what}")
        failures.check(server.bytes < 40_000_000, f"{server.bytes} bytes: {what}")


def check_liars(scene, failures):
    size = len(scene.slurp("site/plain.h5"))
    plain, half = "{}/plain.h5", (300_000, size - 300_000)
    calls = [(*case[:3], "run", plain, case[3] | after) for case in LIARS for after in ({}, {"after": 4})]
    calls += [(*case[:3], "run", data, case[3] | {"after": 1}) for case in CHANGES for data in (plain, "{}/data.h5")]
    for case in (("early", 74, "ended"), ("gone", 66, "does not exist"), ("stall", 74, "stalls")):
        calls += [(*case, "{}/run/", "site/plain.h5", after) for after in ({}, {"after": 2})]
    # Another file's bytes under the right name, and wrong bits: by the digest, of field and row where it is a row.
    calls += [("liar", 65, "plain.h5: ", "run", plain, {"after": 1}), ("bits", 65, "plain.h5: ", "run", plain, {"where": (0, 65536)}),
              ("bits", 65, ": row ", "run", plain, {"where": half}), ("bits", 65, ": row ", "run", "{}/data.h5", {"where": half}),
              ("bits", 65, "run/", "{}/run/", "site/plain.h5", {"where": (0, size)}), ("bits", 65, "sample.h5: ", "{}/sample.h5", "site/plain.h5", {"where": (0, size)})]
    with Server(scene.site) as server:
        server.reset("bits", where=half)
        scene.verify("run", server.url("data.h5"), "--segments", "1,3", "--cache", "poisoned", codes=(65,))
        failures.check(glob.glob(scene.path("poisoned/*")) == [], "a liar's chunks are not in the cache")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for call in [pool.submit(expect, scene, failures, number, *words, **more) for number, (*words, more) in enumerate(calls)]:
            call.result()
    print(f"{len(calls)} liars")


def check_stumbling(scene, server, failures):
    # One that stumbles once is asked again.
    for name in ("early", "reset", "busy"):
        for after in (1, 5):
            server.reset(name, after=after, once=True)
            scene.verify("run", server.url("plain.h5"))
            failures.check(scene.slurp("v.rows.jsonl") == scene.rows, f"{name} once: the rows are those of files")
    # Without entity tags, and by a redirect on the same server.
    server.reset(tag="")
    scene.verify("run", server.url("plain.h5"))
    server.reset(tag='W/"weak"')
    scene.verify("run", server.url("plain.h5"))
    server.reset("moved", to="/here/plain.h5", once=True)
    scene.verify("run", server.url("plain.h5"))
    failures.check(set(server.paths[1:]) == {"/here/plain.h5"}, "a redirect is followed once")
    check_interruption(scene, server, failures)
    # A store that is gone in the middle.
    gone = Server(scene.site)
    gone.reset("silent", after=3)
    url = gone.url("plain.h5")
    process = subprocess.Popen([os.path.join(scene.bin, "dgx-verify"), *scene.command("run", url)], cwd=scene.folder, stderr=subprocess.PIPE, text=True,
                               env=os.environ | {"DGX_HTTP_TIMEOUT": "60"})
    while gone.requests < 4:
        time.sleep(0.02)
    gone.close()
    failures.check(process.wait(30) == 74, f"a server that vanishes: {process.stderr.read()}")


def check_interruption(scene, server, failures):
    server.reset("stall", after=3)
    process = subprocess.Popen([os.path.join(scene.bin, "dgx-verify"), *scene.command("run", server.url("plain.h5"))], cwd=scene.folder,
                               stderr=subprocess.PIPE, text=True, env=os.environ | {"DGX_HTTP_TIMEOUT": "60"})
    while server.requests < 4:
        time.sleep(0.02)
    begun = time.monotonic()
    process.send_signal(signal.SIGTERM)
    code = process.wait(30)
    failures.check(code == 75 and time.monotonic() - begun < 10, f"a signal while a server stalls: exit {code}, {process.stderr.read()}")
    server.reset()
    scene.run("dgx-verify", *scene.command("run", server.url("plain.h5")))  # goes on
    failures.check(scene.slurp("v.rows.jsonl") == scene.rows, "after a signal the rows are those of files")


def check_urls(scene, server, failures):
    def refused(words, *command, code=2, **environment):
        server.reset()
        done = scene.run("dgx-verify", *command, codes=(code,), **environment)
        text = done.stdout + done.stderr
        failures.check(words in text, f"{command}: {text}")
        failures.check("secret" not in text, f"a secret is printed: {text}")
        failures.check(server.requests == 0, f"{command}: the server was asked")

    port = server.origin.rsplit(":", 1)[1]
    for url, words in ((f"http://me:secret@127.0.0.1:{port}/plain.h5", "a user or a password"), (f"http://127.0.0.1:{port}/plain.h5?secret", "a query"),
                       (f"http://127.0.0.1:{port}/run/../plain.h5", "plain names"), ("http://127.1/plain.h5", "from this machine itself"),
                       ("http://192.0.2.1/plain.h5", "from this machine itself"), ("https://", "host")):
        refused(words, *scene.command("run", url))
        refused(words, *scene.command(url, "site/plain.h5"))
    refused("--insecure has no effect", *scene.command("run", "site/plain.h5"), "--insecure")
    refused("libdgx_http.so", *scene.command("run", server.url("plain.h5")), code=70, DGX_HTTP_MODULE="/nonexistent/libdgx_http.so")
    refused("DGX_HTTP_TIMEOUT", *scene.command("run", server.url("plain.h5")), DGX_HTTP_TIMEOUT="0")
    # Files that name URLs: lists, and statements, which name no paths.
    for line in (f"task.json\tproof.json\trun\t{server.url('plain.h5')}", f"task.json\tproof.json\t{server.url('run/')}\tsite/plain.h5",
                 json.dumps({"task": "task.json", "proof": "proof.json", "from": "run", "data": server.url("plain.h5")}), f"{server.url('task.json')}\tproof.json",
                 json.dumps({"task": "task.json", "proof": "proof.json", "from": "run", "data": "site/plain.h5", "beacon": server.url("b.json")})):
        with open(scene.path("list"), "w") as file:
            file.write(line + "\n")
        refused("names a URL", "batch", "list", "--from", "run", "--data", "site/plain.h5", "--key", "verifier.pem", "-o", "listed", "--all")
    # Options that take files alone.
    server.reset()
    for command in (["dgx-train", "task.json", "--data", server.url("plain.h5"), "-o", "other"], ["dgx-inspect", server.url("plain.h5")],
                    ["dgx-verify", server.url("task.json"), "proof.json", "--from", "run", "--data", "site/plain.h5", "--all", "--key", "verifier.pem", "-o", "w.json"]):
        done = scene.run(*command, codes=(2, 66))
        failures.check(server.requests == 0, f"{command}: the server was asked")


def check_tls(scene, failures):
    """An authority, a certificate of it for the address, and one for another name."""
    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=scene.folder, capture_output=True, check=True)

    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=authority")
    for name, subject in (("good", "IP:127.0.0.1"), ("bad", "DNS:data.example")):
        with open(scene.path(f"{name}.ext"), "w") as file:
            file.write(f"subjectAltName={subject}\n")
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-days", "2", "-extfile", f"{name}.ext", "-out", f"{name}.crt")
        with open(scene.path(f"{name}.pem.both"), "wb") as file:
            file.write(scene.slurp(f"{name}.key") + scene.slurp(f"{name}.crt"))
    authority = scene.path("ca.pem")
    with Server(scene.site, scene.path("good.pem.both")) as server:
        scene.verify(server.url("run/"), server.url("plain.h5"), DGX_CERTIFICATES=authority)
        failures.check(scene.slurp("v.rows.jsonl") == scene.rows, "https: the rows are those of files")
        done = scene.verify("run", server.url("plain.h5"), codes=(74,))
        failures.check("certificate" in done.stderr and server.requests > 0, f"an unknown authority: {done.stderr}")
        # --insecure is about plain http, not about certificates; and a redirect leads to no plain http.
        done = scene.verify("run", server.url("plain.h5"), "--all", "--insecure", codes=(74,))
        failures.check("certificate" in done.stderr, f"an unknown authority, --insecure: {done.stderr}")
        server.reset("moved", to=server.url("plain.h5").replace("https", "http"))
        done = scene.verify("run", server.url("plain.h5"), codes=(74,), DGX_CERTIFICATES=authority)
        failures.check("which nobody named" in done.stderr, f"a redirect to plain http: {done.stderr}")
    with Server(scene.site, scene.path("bad.pem.both")) as server:
        done = scene.verify("run", server.url("plain.h5"), codes=(74,), DGX_CERTIFICATES=authority)
        failures.check("certificate" in done.stderr or "SSL" in done.stderr, f"a certificate of another name: {done.stderr}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True, type=os.path.abspath)
    options = parser.parse_args()
    failures = Failures()
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTPS_PROXY", "ALL_PROXY"):
        os.environ.pop(name, None)
    with tempfile.TemporaryDirectory(prefix="dgx-servers-") as folder:
        os.environ["TMPDIR"] = folder
        scene = Scene(options.bin, folder)
        with Server(scene.site) as server:
            for part in (check_honest, check_stumbling, check_urls):
                begun = time.monotonic()
                part(scene, server, failures)
                print(f"{part.__name__}: {time.monotonic() - begun:.1f} s")
        check_liars(scene, failures)
        check_tls(scene, failures)
    print("FAILED" if failures else "every server was taken for what it is")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
