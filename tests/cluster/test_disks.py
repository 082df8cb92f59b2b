"""Disks that fail a node: it alone suffers, the others go on."""

import os
import subprocess

import pytest

from cluster.nodes import Cluster, Node, free_ports, said, shape, wait_until
from server.conftest import PANIC

DISK_MEBIBYTES = 4
FILE_NAME = "tollgate.cluster"


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a disk of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    options = f"size={DISK_MEBIBYTES}m,mode=777"
    subprocess.run([*as_root, "mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True)
    yield folder
    subprocess.run([*as_root, "umount", "-l", folder], check=True)


@pytest.fixture
def three(tmp_path, small_disk):
    """Three primaries, the last of them on a small disk."""
    folders = [tmp_path / "0", tmp_path / "1", small_disk / "2"]
    nodes = [Node(folder, port) for folder, port in zip(folders, free_ports(3))]
    cluster = Cluster(nodes, shape(3, 0))
    try:
        yield cluster.start().create().wait_until_well()
    finally:
        cluster.kill()


def changes(node: Node) -> None:
    """Has something agreed upon."""
    said(node, ["CLUSTER", "DELSLOTS", 1])
    said(node, ["CLUSTER", "ADDSLOTS", 1])


def others_go_on(cluster: Cluster) -> None:
    first, second, _ = cluster.nodes
    changes(first)
    for node in (first, second):
        assert node.is_running and PANIC not in node.log()


def test_a_node_whose_disk_is_full_ends_and_comes_back(three, small_disk):
    last = three.nodes[-1]
    filling = small_disk / "filling"
    with filling.open("wb", buffering=0) as file, pytest.raises(OSError):
        for _ in range(DISK_MEBIBYTES * 1024):
            file.write(bytes(1024))

    def has_ended() -> bool:
        if last.is_running:
            changes(three.nodes[0])
        return not last.is_running

    wait_until(has_ended, 20.0, "it goes on without a disk")
    assert last.process.returncode != 0 and "cannot be kept" in last.log(), last.log()
    others_go_on(three)
    filling.unlink()
    last.start()
    three.wait_until_well()


def test_a_voter_that_has_forgotten_what_it_agreed_to_ends_nobody(three):
    """Its file is an older one, put back from a backup, which no node may do; it must not take others with it."""
    last = three.nodes[-1]
    last.stop()
    file = last.folder / FILE_NAME
    old = file.read_bytes()
    last.start()
    three.wait_until_well()
    for _ in range(10):
        changes(three.nodes[0])
    last.stop()
    file.write_bytes(old)
    last.start()
    three.wait_until_well()
    others_go_on(three)
