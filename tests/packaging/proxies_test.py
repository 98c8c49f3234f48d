#!/usr/bin/env python3
"""proxies_test.py PROGRAM SOURCE FOLDER: two replicas of `slipstream serve` behind nginx and behind HAProxy, with the
configurations of packaging/ (ports replaced). For each proxy: sessions stay with their replica, streams pass at once, a
replica that is killed loses only the streams that had begun, and a rolling restart under load loses nothing."""

import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

PROGRAM, SOURCE, FOLDER = sys.argv[1:4]
MODEL = os.path.join(SOURCE, "models", "tiny")
GRACE = 2.5  # longer than two of HAProxy's checks and their timeouts
failures = []


def expect(holds, what):
    if not holds:
        failures.append(what)
        print("FAILED:", what, flush=True)


def until(holds, what, seconds=60):
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise SystemExit(f"FAILED: waited {seconds} s for {what}")
        time.sleep(0.02)


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Replica:
    def __init__(self, port, sequences):
        self.port, self.sequences, self.process = port, sequences, None
        self.start()

    def start(self):
        self.log = tempfile.NamedTemporaryFile("w+", dir=FOLDER, prefix=f"replica-{self.port}-", delete=False)
        self.process = subprocess.Popen(
            [PROGRAM, "serve", "-m", MODEL, "--port", str(self.port), "-t", "1", "--context", "4096", "--cache", "512MiB",
             "--max-sequences", str(self.sequences), "--drain-grace", str(GRACE)],
            stdout=self.log, stderr=self.log)
        until(self.healthy, f"the replica at {self.port}: {self.log.name}")

    def healthy(self):
        if self.process.poll() is not None:
            raise SystemExit(f"FAILED: a replica ended with {self.process.returncode}: {self.log.name}")
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except OSError:
            return False

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def restart_gently(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(120)
        expect(code == 0, f"SIGTERM ends with 0, not {code}: {self.log.name}")
        self.start()


class Answer:
    """One request through the proxy, on a thread of its own."""

    def __init__(self, port, session, body, pause=0.0):
        self.status, self.replica, self.text, self.pieces, self.error = 0, "", b"", 0, ""
        self.first, self.pause = threading.Event(), pause
        self.thread = threading.Thread(target=self.run, args=(port, session, body), daemon=True)
        self.thread.start()

    def run(self, port, session, body):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        try:
            connection.request("POST", "/v1/chat/completions", json.dumps(body),
                               {"Content-Type": "application/json", "x-session-affinity": session})
            response = connection.getresponse()
            self.status = response.status
            self.replica = (response.getheader("x-request-id") or "")[:20]
            while piece := response.read1(65536):
                self.text += piece
                self.pieces += 1
                self.first.set()
                time.sleep(self.pause)
        except (OSError, http.client.HTTPException) as error:
            self.error = repr(error)
        finally:
            self.first.set()
            connection.close()

    def whole(self, stream):
        if self.status != 200 or self.error:
            return False
        return self.text.endswith(b"data: [DONE]\n\n") if stream else b'"finish_reason"' in self.text


def chat(tokens, stream, padding=0):
    return {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": tokens, "ignore_eos": True,
            "stream": stream, "padding": "x" * padding}


def check_sessions(port):
    homes = {}
    for session in (f"session-{i}" for i in range(12)):
        answers = [Answer(port, session, chat(2, False)) for _ in range(3)]
        for answer in answers:
            answer.thread.join()
            expect(answer.whole(False), f"a session's request: {answer.status} {answer.error}")
        homes[session] = {answer.replica for answer in answers}
        expect(len(homes[session]) == 1, f"{session} went to {homes[session]}")
    expect(len(set.union(*homes.values())) == 2, "12 sessions went to one replica")
    return {session: next(iter(home)) for session, home in homes.items()}


def check_stream(port):
    answer = Answer(port, "s", chat(600, True))
    answer.thread.join()
    expect(answer.whole(True), f"a stream through the proxy: {answer.status} {answer.error}")
    expect(answer.pieces > 5, f"a stream of 600 tokens came in {answer.pieces} pieces")


def check_kill(port, replicas, homes):
    """Each replica writes two streams at once; the others wait without a byte, and are tried elsewhere."""
    victim_home = next(iter(homes.values()))
    mine = [s for s, home in homes.items() if home == victim_home]
    others = [s for s, home in homes.items() if home != victim_home]
    victim = None
    for replica in replicas:
        connection = http.client.HTTPConnection("127.0.0.1", replica.port, timeout=30)
        connection.request("GET", "/version")
        if (connection.getresponse().getheader("x-request-id") or "")[:20] == victim_home:
            victim = replica
    long_one = chat(3500, True)
    begun = [Answer(port, mine[i % len(mine)], long_one) for i in range(2)]
    for answer in begun:
        answer.first.wait(60)
    waiting = [Answer(port, mine[i % len(mine)], chat(20, i % 2 == 0)) for i in range(6)]
    beside = [Answer(port, others[i % len(others)], chat(200, True)) for i in range(2)]
    until(lambda: slots(victim.port) >= len(begun) + len(waiting), "requests to wait")
    expect(not any(answer.status for answer in waiting), "a request that waits has no byte of an answer")
    victim.kill()
    for answer in begun + waiting + beside:
        answer.thread.join()
    for answer in begun:
        expect(not answer.whole(True), "a stream that had begun on the killed replica is broken, never silently whole")
    for i, answer in enumerate(waiting):
        expect(answer.whole(i % 2 == 0), f"a request without a byte is tried elsewhere: {answer.status} {answer.error}")
        expect(answer.replica != victim_home, "it went elsewhere")
    for i, answer in enumerate(beside):
        expect(answer.replica == homes[others[i % len(others)]], "the other replica's sessions stay where they are")
        expect(answer.whole(True), f"streams of the other replica go on: {answer.status} {answer.error}")
    after = Answer(port, mine[0], chat(2, False))
    after.thread.join()
    expect(after.whole(False), "sessions of the killed replica move")
    victim.start()


def slots(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/slots")
    return len(json.load(connection.getresponse()))


def check_rolling_restart(port, replicas):
    stop, counts, lost = threading.Event(), [0], []

    def work(seed):
        rng = random.Random(seed)
        while not stop.is_set():
            stream = rng.random() < 0.5
            answer = Answer(port, f"session-{rng.randrange(40)}",
                            chat(rng.randrange(1, 60), stream, rng.choice([0, 100, 15_000, 200_000])))
            answer.thread.join()
            counts[0] += 1
            if not answer.whole(stream):
                lost.append(f"{answer.status} {answer.error} {answer.text[:200]}")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for replica in replicas:
        before = counts[0]
        until(lambda: counts[0] >= before + 20, "some load")
        replica.restart_gently()
        time.sleep(1.5)  # the proxies take it back before the other one goes
    stop.set()
    for thread in threads:
        thread.join()
    expect(not lost, f"a rolling restart lost {len(lost)} of {counts[0]} requests: {lost[:3]}")
    return counts[0]


def configuration(name, ports, port):
    with open(os.path.join(SOURCE, "packaging", name)) as file:
        text = file.read()
    text = text.replace("127.0.0.1:8081", f"127.0.0.1:{ports[0]}").replace("127.0.0.1:8082", f"127.0.0.1:{ports[1]}")
    return re.sub(r"(listen |bind :)8080", lambda match: match.group(1).replace(":", "127.0.0.1:") +
                  (f"127.0.0.1:{port}" if "listen" in match.group(1) else str(port)), text)


def start_proxy(kind, binary, ports, port):
    folder = tempfile.mkdtemp(dir=FOLDER, prefix=kind + "-")
    environment = dict(os.environ, LD_LIBRARY_PATH=os.path.join(FOLDER, "debs/usr/lib", os.uname().machine + "-linux-gnu"))
    path = os.path.join(folder, "conf")
    if kind == "nginx":
        paths = "\n".join(f"  {name}_temp_path {folder}/{name};" for name in
                          ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        text = (f"pid {folder}/pid;\nerror_log {folder}/error.log;\ndaemon off;\nworker_processes 2;\n"
                f"events {{ worker_connections 1024; }}\nhttp {{\n  access_log {folder}/access.log;\n{paths}\n"
                + configuration("nginx/slipstream.conf", ports, port) + "}\n")
        command = [binary, "-c", path, "-p", folder, "-e", os.path.join(folder, "error.log")]
    else:
        text = configuration("haproxy/haproxy.cfg", ports, port)
        command = [binary, "-db", "-f", path]
    with open(path, "w") as file:
        file.write(text)
    log = open(os.path.join(folder, "log"), "w")
    process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def answers():
        if process.poll() is not None:
            raise SystemExit(f"FAILED: {kind} ended at once: {folder}")
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except OSError:
            return False

    until(answers, kind)
    return process


def main():
    os.makedirs(FOLDER, exist_ok=True)
    found = subprocess.run([os.path.join(os.path.dirname(os.path.abspath(__file__)), "get_proxies.sh"),
                            os.path.join(FOLDER, "debs")], capture_output=True, text=True)
    if found.returncode != 0:
        raise SystemExit("FAILED: " + found.stderr)
    for kind, binary in zip(("nginx", "haproxy"), found.stdout.split()):
        start = time.monotonic()
        ports, port = [free_port(), free_port()], free_port()
        replicas = [Replica(ports[0], 2), Replica(ports[1], 2)]
        proxy = start_proxy(kind, binary, ports, port)
        try:
            homes = check_sessions(port)
            check_stream(port)
            check_kill(port, replicas, homes)
            time.sleep(2.5)  # until the proxy knows that it is back
            count = check_rolling_restart(port, replicas)
            print(f"{kind}: {count} requests during the rolling restart, {time.monotonic() - start:.0f} s", flush=True)
        finally:
            proxy.terminate()
            proxy.wait()
            for replica in replicas:
                replica.process.kill()
    print("FAILED" if failures else "passed")
    return 1 if failures else 0


sys.exit(main())
