"""SLURM's commands over processes of this machine: the first argument is the command's name, and FAKE_SLURM the folder of its state.

`nodes.json` has the state of each node, which tests write; `jobs/N` a job's script, state and processes. Names of nodes are addresses of
the loopback.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path(os.environ["FAKE_SLURM"])


def sbatch() -> int:
    """Take a script from stdin and start it, unless a node is not there, or the folder has a refusal."""
    script = sys.stdin.read()
    if (FOLDER / "refusal").exists():
        print((FOLDER / "refusal").read_text(), file=sys.stderr)
        return 1
    (FOLDER / "jobs").mkdir(exist_ok=True)
    parts = [dict(_words(part)) for part in script.split("#SBATCH hetjob\n")]
    number = str(1 + len(list((FOLDER / "jobs").iterdir())))
    folder = FOLDER / "jobs" / number
    folder.mkdir()
    (folder / "script").write_text(script)
    (folder / "parts").write_text(json.dumps(parts))
    variables = {
        "SLURM_JOB_ID": number,
        "SLURM_JOB_NODELIST": parts[0]["nodelist"],
        "SLURM_PROCID": "0",
        "SLURM_NTASKS": parts[0]["ntasks"],
    }
    with open(parts[0]["output"], "ab") as log:
        started = subprocess.Popen(
            [sys.executable, __file__, "keep", number],
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    (folder / "pid").write_text(str(started.pid))
    print(number)
    return 0


def keep() -> int:
    """Run a job's script to its end, and keep how it ended."""
    folder = FOLDER / "jobs" / sys.argv[1]
    while (FOLDER / "held").exists():
        time.sleep(0.05)
    (folder / "begun").touch()
    status = subprocess.run(["bash", str(folder / "script")], check=False).returncode
    (folder / "end.new").write_text(str(status))
    (folder / "end.new").rename(folder / "end")
    return 0


def srun() -> int:
    """The tasks of a step, on the nodes of the job or of one part of it."""
    first = next(k for k in range(1, len(sys.argv)) if not sys.argv[k].startswith("--"))
    words, command = dict(word[2:].split("=", 1) for word in sys.argv[1:first]), sys.argv[first:]
    parts = json.loads((FOLDER / "jobs" / os.environ["SLURM_JOB_ID"] / "parts").read_text())
    part = parts[int(words.get("het-group", 0))]
    nodes, each = sorted(part["nodelist"].split(",")), int(part["ntasks-per-node"])
    assert int(words["ntasks"]) == len(nodes) * each
    tasks = []
    for rank in range(int(words["ntasks"])):
        own = {"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank % each), "SLURMD_NODENAME": nodes[rank // each]}
        tasks.append(subprocess.Popen(command, env={**os.environ, **own}))
    return max(abs(task.wait()) for task in tasks)


def squeue() -> int:
    """The state of each job."""
    for folder in sorted((FOLDER / "jobs").glob("*")):
        comment = json.loads((folder / "parts").read_text())[0].get("comment", "(null)")
        print(folder.name, _state(folder), comment, "Priority" if _state(folder) == "PENDING" else "None", sep="|")
    return 0


def sacct() -> int:
    """The state and the exit status of each job."""
    for folder in sorted((FOLDER / "jobs").glob("*")):
        status = (folder / "end").read_text() if (folder / "end").exists() else "0"
        print(f"{folder.name}|{_state(folder)}|{status}:0")
    return 0


def scancel() -> int:
    """End jobs."""
    for number in sys.argv[1:]:
        folder = FOLDER / "jobs" / number
        if not (folder / "end").exists():
            (folder / "said").write_text("CANCELLED")
            os.killpg(int((folder / "pid").read_text()), signal.SIGTERM)
    return 0


def sinfo() -> int:
    """The nodes."""
    for name, state in json.loads((FOLDER / "nodes.json").read_text()).items():
        print(name, state)
    return 0


def scontrol() -> int:
    """The names of a list of hosts, or the address of a node."""
    if sys.argv[2] == "hostnames":
        print("\n".join(sorted(sys.argv[3].split(","))))
    else:
        print(f"NodeName={sys.argv[3]} NodeAddr={sys.argv[3]} State=MIXED")
    return 0


def _words(part: str) -> list[tuple[str, str]]:
    found = re.findall(r"^#SBATCH '?--([a-z-]+)(?:=(.*?))?'?$", part, re.MULTILINE)
    return [(name, value) for name, value in found]


def _state(folder: Path) -> str:
    if (folder / "said").exists():
        return (folder / "said").read_text()
    if not (folder / "begun").exists():
        return "PENDING"
    if not (folder / "end").exists():
        return "RUNNING"
    return "COMPLETED" if (folder / "end").read_text() == "0" else "FAILED"


if __name__ == "__main__":
    sys.exit(globals()[sys.argv.pop(1)]())
