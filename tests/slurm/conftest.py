"""A cluster of one node on this machine: munged, slurmctld and slurmd, with all their files in a folder."""
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BFM = os.environ.get("BFM", str(ROOT / "build" / "bfm"))
DAEMONS = ("munged", "slurmctld", "slurmd")

CONF = """
ClusterName=bfm
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
SchedulerParameters=sched_interval=1,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
SlurmdParameters=config_overrides
"""


def free_ports(count):
  sockets = [socket.socket() for _ in range(count)]
  for one in sockets:
    one.bind(("127.0.0.1", 0))
  ports = [one.getsockname()[1] for one in sockets]
  for one in sockets:
    one.close()
  return ports


def path_of(name):
  return shutil.which(name, path="/usr/sbin:" + os.environ["PATH"])


class Cluster:
  def __init__(self, folder):
    self.folder = folder
    self.env = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "BFM": BFM}
    self.daemons = []

  def start(self):
    host = socket.gethostname().split(".")[0]
    (self.folder / "slurm.conf").write_text(
        CONF.format(host=host, folder=self.folder, ports=free_ports(2)))
    # nothing here uses cgroups, but slurmd wants a plugin; version 1 needs no systemd
    version = float(".".join(self("sinfo", "--version").split()[1].split(".")[:2]))
    plugin = "disabled" if version >= 23.11 else "cgroup/v1"
    (self.folder / "cgroup.conf").write_text(f"CgroupPlugin={plugin}\n")
    for name in ("state", "spool"):
      (self.folder / name).mkdir()
    key = self.folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    files = [f"--{name}={self.folder}/munge.{name.split('-')[0]}"
             for name in ("socket", "key-file", "log-file", "pid-file", "seed-file")]
    self.daemon("munged", "--foreground", "--force", *files)
    while not (self.folder / "munge.socket").exists():
      self.check()
    self.daemon("slurmctld", "-D")
    self.daemon("slurmd", "-D", "-N", host)
    self.wait_for(lambda: "idle" in self("sinfo", "-h", "-o", "%T", check=False))

  def daemon(self, name, *arguments):
    log = open(self.folder / f"{name}.out", "w")
    self.daemons.append(subprocess.Popen([path_of(name), *arguments], env=self.env, stdout=log,
                                         stderr=log))

  def check(self):
    time.sleep(0.1)
    for daemon in self.daemons:
      assert daemon.poll() is None, "".join(
          path.read_text() for path in self.folder.glob("*.out")) + str(daemon.args)

  def wait_for(self, condition, seconds=60):
    until = time.monotonic() + seconds
    while not condition():
      self.check()
      assert time.monotonic() < until, self("squeue", check=False) + self("sinfo", check=False)

  def __call__(self, *command, check=True, **options):
    process = subprocess.run(list(map(str, command)), env=self.env, capture_output=True, text=True,
                             timeout=60, **options)
    assert not check or process.returncode == 0, process.stderr
    return process.stdout

  def submit(self, *arguments, cwd):
    """Submit a job and return its number."""
    return self("sbatch", "--parsable", *arguments, cwd=cwd).strip()

  def states(self, job):
    """The states of a job's tasks."""
    return self("squeue", "-h", "-r", "-t", "all", "-j", job, "-o", "%T").split()

  def stop(self):
    for daemon in reversed(self.daemons):
      daemon.terminate()
    for daemon in self.daemons:
      try:
        daemon.wait(timeout=20)
      except subprocess.TimeoutExpired:
        daemon.kill()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
  missing = [name for name in DAEMONS if not path_of(name)]
  if missing:
    pytest.skip(f"{', '.join(missing)} not installed: scripts/deps.sh slurm installs Slurm")
  if os.getuid():
    pytest.skip("Slurm's daemons need root")
  one = Cluster(tmp_path_factory.mktemp("cluster"))
  try:
    one.start()
    yield one
  finally:
    one.stop()
