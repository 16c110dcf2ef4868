"""Key files of other programs, prompts on a terminal, and changes of passphrase that are killed. keys.py --bin FOLDER [--part tools]

A passphrase is asked for on the terminal, without being shown, and the terminal is as before however that ends. A change of passphrase leaves the old key or the new
one at every moment. --part tools: openssl and ssh-keygen read what dgx-key writes, and dgx-key what they write.
"""

import argparse
import fcntl
import os
import pathlib
import pty
import random
import re
import select
import signal
import subprocess
import sys
import tempfile
import termios
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import needs  # noqa: E402


class Keys:
    def __init__(self, bin_folder, folder):
        self.program, self.folder = os.path.join(os.path.abspath(bin_folder), "dgx-key"), folder
        self.put("old", "old horse\n")
        self.put("new", "new horse\n")

    def path(self, name):
        return os.path.join(self.folder, name)

    def put(self, name, text):
        pathlib.Path(self.path(name)).write_text(text)

    def run(self, *words, code=0):
        """dgx-key without a terminal; what it prints."""
        done = subprocess.run([self.program, *words], cwd=self.folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, start_new_session=True, timeout=100)
        assert done.returncode == code, f"{' '.join(words)}: exit {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def id(self, name, *words):
        return re.search("[0-9a-f]{64}", self.run("id", name, *words)).group()

    def typed(self, words, talk, code=0):
        """dgx-key whose only terminal is /dev/tty, where each prompt of `talk` is answered: by text, or by a signal. All that it prints, there and elsewhere."""
        ours, theirs = pty.openpty()
        before, shown = termios.tcgetattr(theirs), ""
        process = subprocess.Popen([self.program, *words], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   start_new_session=True, preexec_fn=lambda: self.begin(theirs))
        for prompt, answer in talk:
            while prompt not in shown:
                shown += self.read(ours, process, prompt)
            # libcrypto's prompt forgets a signal that comes after it has silenced the terminal and before it reads, until the next key.
            while termios.tcgetattr(theirs)[3] & termios.ECHO or not self.is_asleep(process):
                assert process.poll() is None, f"it ended at {prompt!r}: {process.stdout.read()}"
                time.sleep(0.001)
            shown = shown.partition(prompt)[2]
            if isinstance(answer, str):
                os.write(ours, answer.encode())
                assert not answer.strip() or answer.strip() not in shown, f"it is shown: {shown!r}"
            else:
                process.send_signal(answer)
        out, _ = process.communicate(timeout=100)
        shown += self.rest(ours)
        assert process.returncode == code, f"{' '.join(words)}: exit {process.returncode}: {shown}{out}"
        assert termios.tcgetattr(theirs) == before, "the terminal is not as it was"
        os.close(ours)
        os.close(theirs)
        return shown + out

    @staticmethod
    def begin(terminal):
        """In the child: the terminal becomes its own, and what a caller of this test ignores, as nohup does, is not ignored."""
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
        for each in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP):
            signal.signal(each, signal.SIG_DFL)

    @staticmethod
    def read(descriptor, process, prompt):
        ready, _, _ = select.select([descriptor], [], [], 30)
        assert ready, f"no {prompt!r} comes: {process.poll()}"
        return os.read(descriptor, 65536).decode()

    @staticmethod
    def is_asleep(process):
        try:
            return pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"
        except FileNotFoundError:
            return False

    @staticmethod
    def rest(descriptor):
        out = ""
        while select.select([descriptor], [], [], 0)[0]:
            out += os.read(descriptor, 65536).decode()
        return out


class Prompts(Keys):
    ASKED, NEW, AGAIN, WRONG = "passphrase of k.pem: ", "new passphrase of k.pem: ", "the same again: ", "wrong; passphrase of k.pem: "

    def locked(self):
        """k.pem, under the passphrase `old horse`; its id."""
        for name in ("k.pem", "k.pub.pem"):
            pathlib.Path(self.path(name)).unlink(missing_ok=True)
        self.run("new", "k", "--passphrase-file", "old")
        return self.id("k.pub.pem")

    def test_passphrase_is_asked_for(self):
        wanted = self.locked()
        shown = self.typed(["id", "k.pem"], [(self.ASKED, "old horse\n")])
        assert wanted in shown and "old horse" not in shown, shown

    def test_three_tries(self):
        wanted = self.locked()
        shown = self.typed(["id", "k.pem"], [(self.ASKED, "x\n"), (self.WRONG, "\n"), (self.WRONG, "old horse\n")])
        assert wanted in shown, shown
        shown = self.typed(["id", "k.pem"], [(self.ASKED, "x\n"), (self.WRONG, "y\n"), (self.WRONG, "z\n")], code=77)
        assert shown.endswith("dgx-key: error: k.pem: wrong passphrase\n"), shown

    def test_no_prompt_where_a_file_gives_it(self):
        wanted = self.locked()
        assert wanted in self.typed(["id", "k.pem", "--passphrase-file", "old"], [])
        assert "wrong passphrase" in self.typed(["id", "k.pem", "--passphrase-file", "new"], [], code=77)
        assert wanted in self.typed(["id", "k.pub.pem"], [])

    def test_no_terminal(self):
        self.locked()
        assert "--passphrase-file" in self.run("id", "k.pem", code=77)
        assert "--passphrase-file" in self.run("new", "j", "--passphrase", code=2)
        assert "--new-passphrase-file" in self.run("passphrase", "k.pem", "--passphrase-file", "old", code=2)
        assert not os.path.exists(self.path("j.pem")), "a key without its passphrase"

    def test_new_key(self):
        """Asked twice; two that differ, an empty one, and an interruption leave nothing."""
        for talk, code in (([(self.NEW, "a horse\n"), (self.AGAIN, "another\n")], 2), ([(self.NEW, "\n")], 2), ([(self.NEW, "\x03")], 75),
                           ([(self.NEW, "a horse\n"), (self.AGAIN, "\x03")], 75), ([(self.NEW, "\x04")], 2)):
            pathlib.Path(self.path("k.pem")).unlink(missing_ok=True)
            pathlib.Path(self.path("k.pub.pem")).unlink(missing_ok=True)
            self.typed(["new", "k", "--passphrase"], talk, code)
            assert sorted(os.listdir(self.folder)) == ["new", "old"], os.listdir(self.folder)
        self.typed(["new", "k", "--passphrase"], [(self.NEW, "new horse\n"), (self.AGAIN, "new horse\n")])
        assert self.id("k.pem", "--passphrase-file", "new") == self.id("k.pub.pem")

    def test_signals_leave_the_terminal_as_it_was(self):
        self.locked()
        for stop, code in (("\x03", 75), (signal.SIGINT, 75), (signal.SIGTERM, 2), (signal.SIGHUP, 2), (signal.SIGQUIT, 2), (signal.SIGTSTP, 2)):
            self.typed(["id", "k.pem"], [(self.ASKED, stop)], code)

    def test_change(self):
        wanted = self.locked()
        self.typed(["passphrase", "k.pem"], [(self.ASKED, "old horse\n"), (self.NEW, "new horse\n"), (self.AGAIN, "new horse\n")])
        assert self.id("k.pem", "--passphrase-file", "new") == wanted
        assert "wrong passphrase" in self.run("id", "k.pem", "--passphrase-file", "old", code=77)
        self.run("passphrase", "k.pem", "--passphrase-file", "new", "--remove")
        assert self.id("k.pem") == wanted
        os.chmod(self.path("k.pem"), 0o640)
        self.run("passphrase", "k.pem", "--new-passphrase-file", "old")
        assert self.id("k.pem", "--passphrase-file", "old") == wanted and os.stat(self.path("k.pem")).st_mode & 0o777 == 0o600

    def test_change_of_a_link_and_of_none(self):
        wanted = self.locked()
        os.symlink("k.pem", self.path("link.pem"))
        self.run("passphrase", "link.pem", "--passphrase-file", "old", "--new-passphrase-file", "new")
        assert os.readlink(self.path("link.pem")) == "k.pem" and self.id("k.pem", "--passphrase-file", "new") == wanted
        before = pathlib.Path(self.path("k.pem")).read_bytes()
        for words, code in ((["k.pub.pem", "--remove"], 65), (["none.pem", "--remove"], 66), (["-", "--remove"], 2), (["k.pem", "--passphrase-file", "old", "--remove"], 77),
                            (["k.pem", "--passphrase-file", "new", "--remove", "-o", "k.pub.pem"], 73)):
            self.run("passphrase", *words, code=code)
        assert pathlib.Path(self.path("k.pem")).read_bytes() == before
        os.unlink(self.path("link.pem"))

    def test_killed_change(self):
        """At any moment the file is whole, of one passphrase or the other, and its owner's alone."""
        wanted, random_moment = self.locked(), random.Random(7)
        now, other, changed = "old", "new", 0
        for _ in range(30):
            before = pathlib.Path(self.path("k.pem")).read_bytes()
            process = subprocess.Popen([self.program, "passphrase", "k.pem", "--passphrase-file", now, "--new-passphrase-file", other], cwd=self.folder,
                                       stdout=subprocess.DEVNULL, start_new_session=True)
            # Nearly all of the time goes to the two derivations; the file is replaced after them, within the time that a disk takes.
            while not any(name.endswith(".tmp") for name in os.listdir(self.folder)) and process.poll() is None:
                time.sleep(0.0002)
            until = time.monotonic() + 10 ** random_moment.uniform(-4, 0)
            while time.monotonic() < until and process.poll() is None:
                time.sleep(0.0002)
            process.kill()
            process.wait()
            for name in os.listdir(self.folder):
                if name.endswith(".tmp"):
                    assert os.stat(self.path(name)).st_mode & 0o077 == 0, name
                    os.unlink(self.path(name))
            assert os.stat(self.path("k.pem")).st_mode & 0o777 == 0o600
            # The same bytes are the old key, which was opened when it was written; other bytes must open by the new passphrase.
            if pathlib.Path(self.path("k.pem")).read_bytes() != before:
                now, other, changed = other, now, changed + 1
                assert self.id("k.pem", "--passphrase-file", now) == wanted
        assert changed, "every change was killed before it was made"


class Tools(Keys):
    """What the two programs make and read, and dgx-key likewise."""

    def __init__(self, bin_folder, folder):
        super().__init__(bin_folder, folder)
        self.openssl, self.ssh_keygen = needs.program("openssl"), needs.program("ssh-keygen")

    def tool(self, *words):
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, start_new_session=True, timeout=100)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    def test_openssl_reads_ours(self):
        self.run("new", "k", "--passphrase-file", "old", "--force")
        assert self.tool(self.openssl, "pkey", "-in", "k.pem", "-passin", "file:old", "-pubout") == pathlib.Path(self.path("k.pub.pem")).read_text()

    def test_ours_reads_openssl(self):
        for cipher in ("-aes-128-cbc", "-aes-192-cbc", "-aes-256-cbc"):
            self.tool(self.openssl, "genpkey", "-algorithm", "ed25519", cipher, "-pass", "file:old", "-out", "k.pem")
            self.tool(self.openssl, "pkey", "-in", "k.pem", "-passin", "file:old", "-pubout", "-out", "k.pub.pem")
            assert self.id("k.pem", "--passphrase-file", "old") == self.id("k.pub.pem")
            self.run("passphrase", "k.pem", "--passphrase-file", "old", "--new-passphrase-file", "new")
            assert self.tool(self.openssl, "pkey", "-in", "k.pem", "-passin", "file:new", "-pubout") == pathlib.Path(self.path("k.pub.pem")).read_text()

    def test_ssh_keygen(self):
        """A key of ssh-keygen signs as it is; as PEM it is the same key; encrypted, it says how to go on."""
        self.tool(self.ssh_keygen, "-q", "-t", "ed25519", "-N", "", "-C", "a comment of words", "-f", "id")
        wanted = self.id("id.pub")
        assert self.id("id") == wanted
        self.put("payload", '{"hello":"world"}')
        self.run("sign", "payload", "--key", "id", "-o", "envelope.json", "--force")
        assert "world" in self.run("open", "envelope.json", "--pub", "id.pub")
        kept = pathlib.Path(self.path("id")).read_bytes()
        assert "-o" in self.run("passphrase", "id", "--new-passphrase-file", "new", code=2)
        self.run("passphrase", "id", "--new-passphrase-file", "new", "-o", "made.pem", "--force")
        assert self.id("made.pem", "--passphrase-file", "new") == wanted and pathlib.Path(self.path("id")).read_bytes() == kept
        self.tool(self.openssl, "pkey", "-in", "made.pem", "-passin", "file:new", "-noout")
        self.tool(self.ssh_keygen, "-q", "-p", "-P", "", "-N", "old horse", "-f", "id")
        assert "ssh-keygen -p" in self.run("id", "id", "--passphrase-file", "old", code=77)
        self.tool(self.ssh_keygen, "-q", "-p", "-P", "old horse", "-N", "", "-f", "id")
        assert self.id("id") == wanted

    def test_many_lengths(self):
        """Comments of every length, so that the padding has every length."""
        for length in range(9):
            self.tool(self.ssh_keygen, "-q", "-t", "ed25519", "-N", "", "-C", "x" * length, "-f", f"id{length}")
            assert self.id(f"id{length}") == self.id(f"id{length}.pub")

    def test_other_types(self):
        self.tool(self.ssh_keygen, "-q", "-t", "ecdsa", "-N", "", "-f", "ec")
        assert "ecdsa-sha2-nistp256" in self.run("id", "ec", code=65)
        assert "ecdsa-sha2-nistp256" in self.run("id", "ec.pub", code=65)
        self.tool(self.openssl, "genpkey", "-algorithm", "ed448", "-out", "ed448.pem")
        assert "ED448" in self.run("id", "ed448.pem", code=65)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--part", choices=["prompts", "tools"], default="prompts")
    options = parser.parse_args()
    failed = 0
    for name in (name for name in dir(PARTS[options.part]) if name.startswith("test_")):
        with tempfile.TemporaryDirectory(prefix="dgx-keys-") as folder:
            try:
                getattr(PARTS[options.part](options.bin, folder), name)()
            except AssertionError as failure:
                failed += 1
                print(f"FAILED: {name}: {failure}")
    sys.exit(1 if failed else 0)


PARTS = {"prompts": Prompts, "tools": Tools}

if __name__ == "__main__":
    main()
