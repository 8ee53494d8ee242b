package inspect

import (
	"errors"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What `quiver` 0.1.0 printed.
const (
	version    = `{"version": "0.1.0", "commit": "b877341af588", "simd_tier": "avx512", "uptime_seconds": 61.9, "workers": 1}`
	interfaces = `{"generation": 3, "objects": [
		{"status": {"state": "applied", "generation": 1}, "object": {"interface": {"name": "pod:gateway", "addresses": ["10.3.0.1/24"], "loopback": {}}}},
		{"status": {"state": "applied", "generation": 1}, "object": {"interface": {"name": "pod:host"}}},
		{"status": {"state": "applied", "generation": 1}, "object": {"interface": {"name": "pod:underlay", "mtu": 1500}}},
		{"status": {"state": "applied", "generation": 1}, "object": {"interface": {"name": "pod:to-n2", "mtu": 1450}}},
		{"status": {"state": "applied", "generation": 2}, "object": {"interface": {"name": "pod:default.a:0f0f0f0f:eth0"}}},
		{"status": {"state": "applied", "generation": 2}, "object": {"interface": {"name": "pod:default.a:0f0f0f0f:memif-eth0"}}},
		{"status": {"state": "failed", "generation": 3, "failure": "network namespace /run/netns/x doesn't exist"}, "object": {"interface": {"name": "pod:default.b:1f0f0f0f:eth0"}}}]}`
	host = `{"interfaces": [{"name": "pod:host", "index": 2, "port": "tap", "mtu": 1450, "counters": {}}]}`
)

func pod(ready core.ConditionStatus, containers ...core.ContainerStatus) *core.Pod {
	return &core.Pod{
		Spec: core.PodSpec{Containers: []core.Container{{Name: "quiverd", Command: []string{"quiverd"}}, {Name: "quiver-agent", Command: []string{"quiver-agent", "--mtu=0", "--health=127.0.0.1:9478"}}}},
		Status: core.PodStatus{
			Conditions: []core.PodCondition{{Type: core.PodReady, Status: ready}}, ContainerStatuses: containers,
		},
	}
}

func TestStatusTellsWhatIsThereAndWhatIsAmiss(t *testing.T) {
	answers := func(words ...string) ([]byte, error) {
		switch words[1] {
		case "version":
			return []byte(version), nil
		case "interface":
			if words[0] == "show" {
				return []byte(host), nil
			}
		}
		return []byte(interfaces), nil
	}
	silent := func(...string) ([]byte, error) { return nil, errors.New("command terminated with exit code 3") }
	says := func(text string) func(words ...string) ([]byte, error) {
		return func(words ...string) ([]byte, error) {
			if got := strings.Join(words, " "); got != "probe get 127.0.0.1:9478/readyz" {
				t.Errorf("asked %q", got)
			}
			return []byte(text), nil
		}
	}
	sound := func(words ...string) ([]byte, error) {
		text, err := answers(words...)
		return []byte(strings.ReplaceAll(string(text), "failed", "applied")), err
	}
	elsewhere := pod(core.ConditionFalse)
	elsewhere.Spec.Containers = nil
	crashing := core.ContainerStatus{Name: "quiverd", RestartCount: 7, State: core.ContainerState{
		Waiting: &core.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 5m0s"},
	}}
	leaving := func(ready core.ConditionStatus, containers ...core.ContainerStatus) Node {
		there := pod(ready, containers...)
		there.Name = "quiver-x7"
		there.Spec.Containers = []core.Container{{Name: "uninstall", Command: []string{"quiver-agent", "--uninstall", "--health=127.0.0.1:9478", "--stay"}}}
		return Node{Name: "n8", Pod: there}
	}
	stuck := core.ContainerStatus{Name: "uninstall", RestartCount: 2, State: crashing.State}
	nobody := func(...string) ([]byte, error) {
		t.Error("asked, where nobody is")
		return nil, errors.New("container not found")
	}
	ending := pod(core.ConditionTrue)
	ending.Name, ending.DeletionTimestamp = "quiver-y8", &meta.Time{}
	over := core.ContainerStatus{Name: "quiver-agent", State: core.ContainerState{Terminated: &core.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}}}
	var out strings.Builder
	err := Print(&out, []Status{
		status(Node{Name: "n1", Pod: pod(core.ConditionTrue)}, answers, says("forwarding\nthe host's firewall drops IPv4\nand IPv6\n")),
		status(Node{Name: "node-2", Pod: pod(core.ConditionFalse, crashing)}, silent, silent),
		status(Node{Name: "n3", Pod: nil}, silent, silent),
		status(Node{Name: "n4", Pod: pod(core.ConditionFalse)}, sound, says("not forwarding: quiverd was told nothing\n")),
		status(Node{Name: "n5", Pod: pod(core.ConditionTrue)}, sound, silent),
		status(Node{Name: "n6", Pod: pod(core.ConditionFalse)}, sound, says("forwarding\n")),
		status(Node{Name: "n7", Pod: elsewhere}, sound, silent),
		status(leaving(core.ConditionTrue), nobody, nobody),
		status(leaving(core.ConditionFalse), nobody, nobody),
		status(leaving(core.ConditionFalse, stuck), nobody, nobody),
		status(Node{Name: "n9", Pod: ending}, nobody, nobody),
		status(Node{Name: "na", Pod: pod(core.ConditionFalse, over)}, sound, silent),
	})
	want := `NODE    FORWARDS  QUIVERD  UP    RESTARTS  PODS  MEMIFS  TUNNELS  MTU
n1      yes       0.1.0    1m2s  0         2     1       1        1450
node-2  no        -        -     7         -     -       -        -
n3      no        -        -     0         -     -       -        -
n4      no        0.1.0    1m2s  0         2     1       1        1450
n5      yes       0.1.0    1m2s  0         2     1       1        1450
n6      no        0.1.0    1m2s  0         2     1       1        1450
n7      no        0.1.0    1m2s  0         2     1       1        1450
n8      no        -        -     0         -     -       -        -
n8      no        -        -     0         -     -       -        -
n8      no        -        -     2         -     -       -        -
n9      no        -        -     0         -     -       -        -
na      no        0.1.0    1m2s  0         2     1       1        1450
n1: interface pod:default.b:1f0f0f0f:eth0 is failed: network namespace /run/netns/x doesn't exist
n1: the host's firewall drops IPv4
n1: and IPv6
node-2: quiverd waits: CrashLoopBackOff: back-off 5m0s
node-2: quiver show version: command terminated with exit code 3
n3: there is no pod of Quiver
n4: not forwarding: quiverd was told nothing
n5: the agent doesn't say how it is: command terminated with exit code 3
n6: the agent says that it isn't forwarding: see the log of its container
n7: the agent says that it isn't forwarding: see the log of its container
n8: Quiver is uninstalled: nothing of it is left but this pod, quiver-x7
n8: Quiver is being uninstalled: see the log of pod quiver-x7
n8: Quiver is being uninstalled: see the log of pod quiver-x7
n8: uninstall waits: CrashLoopBackOff: back-off 5m0s
n9: the pod of Quiver, quiver-y8, is being deleted
na: quiver-agent has ended: OOMKilled, exit status 137: see its log
na: the agent doesn't say how it is: command terminated with exit code 3
`
	if err != nil || out.String() != want {
		t.Errorf("%v:\n%s", err, out.String())
	}
}

func TestAgentsAreAskedWhereTheyAnswer(t *testing.T) {
	for option, want := range map[string]string{
		"--health=127.0.0.1:9478": "127.0.0.1:9478", "--health=[$(NODE_ADDRESS)]:99": "192.0.2.7:99", "--health=[::]:9478": "[::]:9478", "--health=": "", "--mtu=0": "",
	} {
		there := pod(core.ConditionTrue)
		there.Status.HostIP = "192.0.2.7"
		there.Spec.Containers[1].Command = []string{"quiver-agent", option}
		if got := (Node{Pod: there}).health(); got != want {
			t.Errorf("%s: %s", option, got)
		}
	}
}
