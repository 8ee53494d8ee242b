"""The check that comes first on a node: one that isn't fit is told so, and nothing is begun there."""

from lab.process import HANGS, eventually
from workload import left, nothing_left, pods, server

TUN = "/dev/net/tun"


def container(pod, kind, name):
    """What became of a container: its status."""
    return next((one for one in pod["status"].get(f"{kind}Statuses", []) if one["name"] == name), {})


def checked(cluster, node):
    """Exit statuses of the check on a node, of the last time and the time before."""
    doctor = container(cluster.quiver.pod(node), "initContainer", "doctor")
    return [doctor.get(state, {}).get("terminated", {}).get("exitCode") for state in ("state", "lastState")]


def doctor_log(cluster, node):
    """What the check has said last."""
    return cluster.quiver.kubectl("logs", cluster.quiver.pod(node)["metadata"]["name"], "-c", "doctor", check=False).stdout


def test_on_a_node_that_is_not_fit_nothing_is_begun_and_its_log_says_what_to_do(cluster):
    n1, n2 = cluster.nodes
    before = left(cluster)
    # Both are fit, and that was looked at.
    for node in (n1, n2):
        assert checked(cluster, node) == [0, None]
        assert f"{TUN} can be opened" in doctor_log(cluster, node) and " 0 fail: " in doctor_log(cluster, node)
    # As on a machine whose kernel has no tun: a device without a driver.
    device = n1.directory / "no-driver"
    n1.run("mknod", device, "c", "240", "77")
    n1.run("mount", "--bind", device, TUN)
    try:
        cluster.quiver.kubectl("delete", "pod", cluster.quiver.pod(n1)["metadata"]["name"], f"--timeout={HANGS}s", timeout=2 * HANGS)
        eventually(lambda: 1 in checked(cluster, n1), lambda: cluster.quiver.pod(n1)["status"], timeout=HANGS, interval=0.3)
        said = eventually(lambda: doctor_log(cluster, n1), "it has said something", timeout=60)
        assert f"{TUN}: " in said and "modprobe tun" in said and " 1 fail: " in said, said
        # What comes after it waits, also when it has been tried again.
        eventually(lambda: checked(cluster, n1)[1] == 1, lambda: cluster.quiver.pod(n1)["status"], timeout=HANGS, interval=0.3)
        pod = cluster.quiver.pod(n1)
        after = [container(pod, "initContainer", "install"), *pod["status"]["containerStatuses"]]
        assert len(after) == 3 and all("waiting" in one["state"] and not one.get("lastState") for one in after), after
        assert n1.pids("quiverd") == n1.pids("quiver-agent") == [] and not cluster.quiver.ready(n1)
        # The other node is as it was.
        assert cluster.quiver.ready(n2) and checked(cluster, n2) == [0, None]
    finally:
        n1.run("umount", TUN)
        device.unlink()
    # As soon as the machine is mended all goes on by itself.
    eventually(lambda: cluster.quiver.ready(n1), lambda: cluster.quiver.pod(n1)["status"], timeout=HANGS, interval=0.3)
    assert checked(cluster, n1)[0] == 0
    with pods(cluster, server("a", n1)):
        pass
    nothing_left(cluster, before)
