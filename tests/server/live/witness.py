"""A job that leaves traces of its own, so that what a scheduler did can be told without asking the scheduler.

    witness.py FOLDER SECONDS KIND

Each run of it makes a file of its own (a second process for the same run finds it there), holds a lock for its job and, where it
lets go of its GPUs when it is told to leave (KIND is `checkpoint`), a lock for each GPU. What it finds wrong it writes down.
"""

import fcntl
import os
import signal
import sys
import time

folder, seconds, kind = sys.argv[1], float(sys.argv[2]), sys.argv[3]
job, run = os.environ["FAIRLEAD_JOB_ID"], os.environ["FAIRLEAD_RUN"]
node = os.environ.get("FAIRLEAD_NODE", "")


def wrong(what):
    with open(f"{folder}/wrong", "a") as out:
        out.write(f"{time.time():.3f} job {job} run {run} pid {os.getpid()}: {what}\n")


def lock(name):
    file = os.open(f"{folder}/locks/{name}", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        wrong(f"somebody else has {name}")
    return file


try:
    os.close(os.open(f"{folder}/runs/{job}.{run}", os.O_CREAT | os.O_EXCL))
except FileExistsError:
    wrong("this run was begun before")
held = [lock(f"job-{job}")]
if kind == "checkpoint":
    held += [lock(f"gpu-{node}-{gpu}") for gpu in os.environ["CUDA_VISIBLE_DEVICES"].split(",")]
progress = f"{folder}/progress/{job}"
done = 0.0
if kind == "checkpoint" and os.path.exists(f"{folder}/ends/{job}"):
    sys.exit(
        0
    )  # it ended while it was being asked for a checkpoint, which nobody can tell apart: there is nothing left to do
if kind == "checkpoint" and os.path.exists(progress):
    with open(progress) as saved:
        done = float(saved.read())
leave = []
signal.signal(signal.SIGUSR1, lambda *_: leave.append(1))
last = time.monotonic()
while done < seconds:
    time.sleep(0.01)
    now = time.monotonic()
    done += min(now - last, 0.1)
    last = now
    if leave:
        with open(progress, "w") as out:
            out.write(str(done))
        sys.exit(0)
try:
    os.close(os.open(f"{folder}/ends/{job}", os.O_CREAT | os.O_EXCL))
except FileExistsError:
    wrong("the job has ended before")
