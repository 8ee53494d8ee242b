package chart

import (
	"bytes"
	plain "encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

const (
	chartDirectory = "../quiver"
	manifests      = "../../kubernetes"
	root           = "../../.."
)

func render(t *testing.T, values map[string]any) string {
	t.Helper()
	text, err := Render(chartDirectory, values)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// objects reads manifests as the API server does: a field that it doesn't know is an error.
func objects(t *testing.T, text string) (all []runtime.Object) {
	t.Helper()
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, json.SerializerOptions{Yaml: true, Strict: true})
	for part := range strings.SplitSeq(text, "---\n") {
		// (At the beginning stands what the file is.)
		if !strings.Contains(part, "kind:") {
			continue
		}
		object, _, err := strict.Decode([]byte(part), nil, nil)
		if err != nil {
			t.Fatalf("%v:\n%s", err, part)
		}
		all = append(all, object)
	}
	return all
}

func daemons(t *testing.T, text string) *apps.DaemonSet {
	t.Helper()
	for _, object := range objects(t, text) {
		if set, is := object.(*apps.DaemonSet); is {
			return set
		}
	}
	t.Fatal("there is no DaemonSet")
	return nil
}

func TestManifestsAreWhatTheChartSays(t *testing.T) {
	for _, manifest := range []struct {
		file, about string
		values      map[string]any
	}{
		{"quiver.yaml", "Quiver as the network of a cluster: docs/kubernetes.md.", nil},
		{"uninstall.yaml", "Applied over quiver.yaml, takes away what Quiver has made on every node: docs/kubernetes.md.", map[string]any{"uninstall": true}},
	} {
		path := filepath.Join(manifests, manifest.file)
		made := fmt.Sprintf("# %s\n# Made from the chart in deploy/helm: change that, then UPDATE_REFERENCE=1 scripts/pods.sh chart.\n%s", manifest.about, render(t, manifest.values))
		if os.Getenv("UPDATE_REFERENCE") != "" {
			if err := os.WriteFile(path, []byte(made), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if there, err := os.ReadFile(path); err != nil || !bytes.Equal(there, []byte(made)) {
			t.Errorf("%s isn't what the chart makes (%v): UPDATE_REFERENCE=1 scripts/pods.sh chart", path, err)
		}
		objects(t, made)
	}
}

// Where a cluster enforces, audits or warns of less by default, its pods are made all the same, and nobody is warned.
func TestTheNamespaceLetsItsPodsBe(t *testing.T) {
	for _, uninstall := range []bool{false, true} {
		var found *core.Namespace
		for _, object := range objects(t, render(t, map[string]any{"uninstall": uninstall})) {
			if one, is := object.(*core.Namespace); is {
				found = one
			}
		}
		if found == nil {
			t.Fatal("there is no namespace")
		}
		for _, mode := range []string{"enforce", "audit", "warn"} {
			if level := found.Labels["pod-security.kubernetes.io/"+mode]; level != "privileged" {
				t.Errorf("%s: %q", mode, level)
			}
		}
	}
}

func TestNoContainerMayMoreThanItNeeds(t *testing.T) {
	allowed := map[string][]core.Capability{
		"doctor": {"NET_ADMIN", "NET_RAW", "SYS_ADMIN", "IPC_LOCK"}, "install": nil, "quiverd": {"NET_ADMIN", "NET_RAW", "SYS_ADMIN", "IPC_LOCK"},
		"quiver-agent": {"NET_ADMIN", "NET_RAW", "SYS_ADMIN"}, "uninstall": {"NET_ADMIN", "NET_RAW", "SYS_ADMIN", "IPC_LOCK"},
	}
	for _, uninstall := range []bool{false, true} {
		pod := daemons(t, render(t, map[string]any{"uninstall": uninstall})).Spec.Template.Spec
		if pod.HostPID || pod.HostIPC || *pod.AutomountServiceAccountToken || pod.SecurityContext.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
			t.Errorf("the pod may more than it needs: %+v", pod)
		}
		for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
			may := container.SecurityContext
			if may.Privileged != nil || *may.AllowPrivilegeEscalation || !*may.ReadOnlyRootFilesystem || !slices.Equal(may.Capabilities.Drop, []core.Capability{"ALL"}) {
				t.Errorf("%s: %+v", container.Name, may)
			}
			if want, known := allowed[container.Name]; !known || !slices.Equal(may.Capabilities.Add, want) {
				t.Errorf("%s: %v", container.Name, may.Capabilities.Add)
			}
			for _, mount := range container.VolumeMounts {
				if mount.Name == "api-server" && container.Name != "quiver-agent" {
					t.Errorf("%s has a token for the API server", container.Name)
				}
			}
		}
	}
}

func TestValuesReachTheirPlace(t *testing.T) {
	text := render(t, map[string]any{
		"image": map[string]any{"repository": "registry.test/q", "tag": "7"}, "namespace": map[string]any{"name": "elsewhere", "create": false},
		"apiServer": map[string]any{"host": "192.0.2.7", "port": 443}, "cni": map[string]any{"plugins": "/p", "networks": "/n", "timeoutSeconds": 7, "versions": []any{"1.1.0"},
			"chained": []any{map[string]any{"type": "tuning", "sysctl": map[string]any{"net.core.somaxconn": "500"}}, map[string]any{"type": "sbr"}}},
		"agent": map[string]any{"mtu": 9000, "hostDevice": "q1", "healthPort": 99, "overlay": "cross-subnet", "overlayPort": 8472, "overlayVNI": 1}, "quiverd": map[string]any{"settings": "[workers]\ncount = 2\n"},
		"maxUnavailable": "10%", "seccompProfile": map[string]any{"type": "Localhost", "localhostProfile": "quiver.json"},
	})
	config := map[string]string{}
	for _, object := range objects(t, text) {
		switch object := object.(type) {
		case *core.ConfigMap:
			for key, value := range object.Data {
				config[key] = value
			}
		case *core.Namespace:
			t.Error("a namespace is made")
		}
	}
	if config["KUBERNETES_SERVICE_HOST"] != "192.0.2.7" || config["KUBERNETES_SERVICE_PORT"] != "443" || config["quiverd.toml"] != "[workers]\ncount = 2\n" ||
		!strings.Contains(config["10-quiver.conflist"], `"timeoutSeconds": 7`) || !strings.Contains(config["10-quiver.conflist"], `"cniVersions": ["1.1.0"],`) {
		t.Errorf("%q", config)
	}
	var list struct{ Plugins []map[string]any }
	if err := plain.Unmarshal([]byte(config["10-quiver.conflist"]), &list); err != nil || len(list.Plugins) != 3 ||
		list.Plugins[0]["type"] != "quiver-cni" || list.Plugins[1]["sysctl"].(map[string]any)["net.core.somaxconn"] != "500" || list.Plugins[2]["type"] != "sbr" {
		t.Errorf("%v, %v", list, err)
	}
	set := daemons(t, text)
	pod := set.Spec.Template.Spec
	if set.Namespace != "elsewhere" || set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable.String() != "10%" {
		t.Errorf("%+v", set.ObjectMeta)
	}
	if profile := pod.SecurityContext.SeccompProfile; profile.Type != core.SeccompProfileTypeLocalhost || *profile.LocalhostProfile != "quiver.json" {
		t.Errorf("%+v", profile)
	}
	agent := pod.Containers[1]
	for _, word := range []string{"--mtu=9000", "--host-device=q1", "--health=127.0.0.1:99", "--overlay=cross-subnet", "--overlay-port=8472", "--overlay-vni=1"} {
		if !slices.Contains(agent.Command, word) {
			t.Errorf("%q lacks %s", agent.Command, word)
		}
	}
	if agent.Image != "registry.test/q:7" || agent.ReadinessProbe.HTTPGet.Port.IntValue() != 99 {
		t.Errorf("%+v", agent)
	}
	if strings.Contains(render(t, nil), "KUBERNETES_SERVICE_HOST:") {
		t.Error("without a host for the API server it is given nevertheless")
	}
	if sum := func(text string) string {
		return daemons(t, text).Spec.Template.Annotations["quiver.io/configuration"]
	}; sum(text) == sum(render(t, nil)) {
		t.Error("other settings don't replace pods")
	}
}

func TestMetricsAreForOthersThanTheNodeWhereThatIsSaid(t *testing.T) {
	everywhere := "[metrics]\nlisten = \"[::]:9400\"\n"
	for _, c := range []struct {
		address, settings, health, probed string
		ports                             []int32
	}{
		{"", "", "127.0.0.1:9478", "127.0.0.1", nil},
		{"127.0.0.1", everywhere, "127.0.0.1:9478", "127.0.0.1", []int32{9400}},
		{"node", "[metrics]\nlisten = \"[::1]:9400\"\n", "[$(NODE_ADDRESS)]:9478", "", []int32{9478}},
		{"0.0.0.0", "[metrics]\nlisten = \"127.0.0.1:9477\"\n", "0.0.0.0:9478", "127.0.0.1", []int32{9478}},
		{"::", everywhere, "[::]:9478", "127.0.0.1", []int32{9400, 9478}},
		// As TOML has it: comments are none, and quotes are of two kinds.
		{"127.0.0.1", "# listen = \"0.0.0.0:9500\"\n" + everywhere, "127.0.0.1:9478", "127.0.0.1", []int32{9400}},
		{"127.0.0.1", "[metrics]\n#listen = '[::]:9500'\n  listen='127.0.0.1:9477' # not listen = \"[::]:9500\"\n", "127.0.0.1:9478", "127.0.0.1", nil},
		{"127.0.0.1", "[metrics]\n\tlisten = '0.0.0.0:9600'\n", "127.0.0.1:9478", "127.0.0.1", []int32{9600}},
	} {
		values := map[string]any{}
		if c.address != "" {
			values["agent"] = map[string]any{"healthAddress": c.address}
		}
		if c.settings != "" {
			values["quiverd"] = map[string]any{"settings": c.settings}
		}
		containers := daemons(t, render(t, values)).Spec.Template.Spec.Containers
		agent := containers[1]
		knows := slices.ContainsFunc(agent.Env, func(one core.EnvVar) bool {
			return one.Name == "NODE_ADDRESS" && one.ValueFrom.FieldRef.FieldPath == "status.hostIP"
		})
		if !slices.Contains(agent.Command, "--health="+c.health) || knows != (c.address == "node") {
			t.Errorf("%s: %q, %v", c.address, agent.Command, agent.Env)
		}
		for _, probe := range []*core.Probe{agent.LivenessProbe, agent.ReadinessProbe} {
			if probe.HTTPGet.Host != c.probed || probe.HTTPGet.Port.IntValue() != 9478 {
				t.Errorf("%s: %+v", c.address, probe.HTTPGet)
			}
		}
		var ports []int32
		for _, container := range containers {
			for _, port := range container.Ports {
				ports = append(ports, port.ContainerPort)
			}
		}
		if !slices.Equal(ports, c.ports) {
			t.Errorf("%s, %q: ports %v", c.address, c.settings, ports)
		}
	}
	if _, err := Render(chartDirectory, map[string]any{"agent": map[string]any{"healthAddress": "10.0.0.1"}}); err == nil || !strings.Contains(err.Error(), "agent.healthAddress: 10.0.0.1") {
		t.Errorf("%v", err)
	}
}

func TestThePodMonitorAsksWhoeverCanBeAsked(t *testing.T) {
	with := func(agent, quiverd map[string]any) map[string]any {
		monitor := map[string]any{"enabled": true, "interval": "7s", "labels": map[string]any{"release": "x"}}
		return map[string]any{"metrics": map[string]any{"podMonitor": monitor}, "agent": agent, "quiverd": quiverd}
	}
	monitor := func(values map[string]any) string {
		for part := range strings.SplitSeq(render(t, values), "---\n") {
			if strings.Contains(part, "kind: PodMonitor") {
				return part
			}
		}
		return ""
	}
	node, nothing := map[string]any{"healthAddress": "node"}, map[string]any{}
	if got := monitor(map[string]any{"agent": node}); got != "" {
		t.Errorf("nobody has asked for\n%s", got)
	}
	got := monitor(with(node, nothing))
	if !strings.Contains(got, "    - port: agent-metrics\n      interval: 7s\n") || strings.Contains(got, "quiverd-metrics") || !strings.Contains(got, "    release: x\n") {
		t.Errorf("without quiverd:\n%s", got)
	}
	if got := monitor(with(node, map[string]any{"settings": "[metrics]\nlisten = \"0.0.0.0:9477\"\n"})); !strings.Contains(got, "    - port: quiverd-metrics\n      interval: 7s") {
		t.Errorf("with quiverd:\n%s", got)
	}
	if _, err := Render(chartDirectory, with(nothing, nothing)); err == nil || !strings.Contains(err.Error(), "agent.healthAddress=node") {
		t.Errorf("%v", err)
	}
}

// found is the first group of a pattern in a file of the project.
func found(t *testing.T, file, pattern string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile("(?m)" + pattern).FindSubmatch(text)
	if match == nil {
		t.Fatalf("%s has no %s", file, pattern)
	}
	return string(match[1])
}

func TestHostPortsAreAskedForWhereTheyAreServed(t *testing.T) {
	for _, services := range []bool{true, false} {
		text := render(t, map[string]any{"agent": map[string]any{"services": services}})
		if got := strings.Contains(text, `"portMappings": true`); got != services {
			t.Errorf("services %t: the runtime tells of host ports: %t", services, got)
		}
	}
}

// settings are those that agents follow, by what a chart with these values makes of it.
func settings(t *testing.T, agent map[string]any) map[string]any {
	t.Helper()
	for _, object := range objects(t, render(t, map[string]any{"agent": agent})) {
		if found, is := object.(*core.ConfigMap); is && found.Name == "quiver-agent" {
			read := map[string]any{}
			if err := yaml.UnmarshalStrict([]byte(found.Data["agent.yaml"]), &read); err != nil {
				t.Fatal(err)
			}
			return read
		}
	}
	t.Fatal("there are none")
	return nil
}

func TestSettingsThatAgentsFollowDontReplacePods(t *testing.T) {
	template := func(agent map[string]any) core.PodTemplateSpec {
		return daemons(t, render(t, map[string]any{"agent": agent})).Spec.Template
	}
	live := map[string]any{"natOutgoing": "ipv4", "keepSessions": true, "memifFallback": "drop", "allowedSourcePrefixes": []any{"172.16.0.0/16", "fd01::7"}, "maxSessions": 268435456, "maxSessionsPerSource": 16777215, "countedSources": "all", "sessionServices": []any{"tcp-check", "session-stats"}}
	pod := template(map[string]any{})
	if !reflect.DeepEqual(pod, template(live)) || reflect.DeepEqual(pod, template(map[string]any{"mtu": 1400})) {
		t.Error("pods would be replaced, or wouldn't be where they must")
	}
	if got, want := fmt.Sprint(settings(t, live)), "map[allowedSourcePrefixes:[172.16.0.0/16 fd01::7] countedSources:all keepSessions:true maxSessions:2.68435456e+08 maxSessionsPerSource:1.6777215e+07 memifFallback:drop natOutgoing:ipv4 sessionServices:[tcp-check session-stats]]"; got != want {
		t.Error(got)
	}
	// Values of an older chart, or of somebody who has taken one away.
	without := map[string]any{"natOutgoing": nil, "keepSessions": nil, "memifFallback": nil, "allowedSourcePrefixes": nil, "maxSessions": nil, "maxSessionsPerSource": nil, "countedSources": nil, "sessionServices": nil}
	for _, agent := range []map[string]any{{}, without} {
		if got, want := fmt.Sprint(settings(t, agent)), "map[allowedSourcePrefixes:[] countedSources:pods keepSessions:false maxSessions:1e+06 maxSessionsPerSource:0 memifFallback:eth0 natOutgoing:both sessionServices:[]]"; got != want {
			t.Error(got)
		}
	}
	agent := pod.Spec.Containers[1]
	file, _ := strings.CutPrefix(agent.Command[slices.IndexFunc(agent.Command, func(word string) bool { return strings.HasPrefix(word, "--settings=") })], "--settings=")
	at := slices.IndexFunc(agent.VolumeMounts, func(mount core.VolumeMount) bool { return mount.MountPath == filepath.Dir(file) && mount.SubPath == "" })
	if at < 0 || filepath.Base(file) != "agent.yaml" {
		t.Fatalf("%q, %+v", file, agent.VolumeMounts)
	}
	if volume := slices.IndexFunc(pod.Spec.Volumes, func(volume core.Volume) bool { return volume.Name == agent.VolumeMounts[at].Name }); pod.Spec.Volumes[volume].ConfigMap.Name != "quiver-agent" {
		t.Errorf("%+v", pod.Spec.Volumes[volume])
	}
}

func TestWhoCarriesPacketsBetweenNodesIsCheckedBeforeAnythingIsInstalled(t *testing.T) {
	for want, values := range map[string]map[string]any{
		"": {}, "--uplink=af_packet": {"uplink": "af_packet"}, "--uplink=af_packet --uplink-interface=eth1": {"uplink": "af_packet", "uplinkInterface": "eth1"},
	} {
		agent := daemons(t, render(t, map[string]any{"agent": values})).Spec.Template.Spec.Containers[1]
		got := slices.DeleteFunc(slices.Clone(agent.Command), func(word string) bool { return !strings.HasPrefix(word, "--uplink") })
		if strings.Join(got, " ") != want {
			t.Errorf("%v: %q", values, agent.Command)
		}
	}
	for want, values := range map[string]map[string]any{
		"agent.uplink: af_xdp":   {"uplink": "af_xdp"},
		"not with agent.overlay": {"uplink": "af_packet", "overlay": "vxlan"},
	} {
		if _, err := Render(chartDirectory, map[string]any{"agent": values}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", values, err)
		}
	}
}

func TestValuesThatAreNoneAreRefusedByTheirName(t *testing.T) {
	for want, values := range map[string]map[string]any{
		"'natOutgoing' not allowed":          {"natOutgoing": "none"},
		"'natoutgoing' not allowed":          {"agent": map[string]any{"natoutgoing": "none"}},
		"at '/agent/mtu': minimum: got 100":  {"agent": map[string]any{"mtu": 100}},
		"at '/agent/mtu': got string":        {"agent": map[string]any{"mtu": "abc"}},
		"at '/agent/services': got string":   {"agent": map[string]any{"services": "nope"}},
		"at '/agent/keepSessions'":           {"agent": map[string]any{"keepSessions": "maybe"}},
		"at '/agent/healthPort': maximum":    {"agent": map[string]any{"healthPort": 99999}},
		"at '/agent/hostDevice'":             {"agent": map[string]any{"hostDevice": "averyveryverylongname"}},
		"at '/agent/overlayVNI': maximum":    {"agent": map[string]any{"overlayVNI": 99999999}},
		"at '/apiServer/host'":               {"apiServer": map[string]any{"host": "https://1.2.3.4:6443"}},
		"at '/cni/versions/0'":               {"cni": map[string]any{"versions": []any{"1.2.0"}}},
		"at '/maxUnavailable'":               {"maxUnavailable": 0},
		"at '/seccompProfile': got string":   {"seccompProfile": "RuntimeDefault"},
		"at '/uninstall': got string, want ": {"uninstall": "foo"},
	} {
		if _, err := Render(chartDirectory, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", values, err)
		}
	}
}

func TestSettingsAreCheckedBeforeAnythingIsInstalled(t *testing.T) {
	for _, value := range []any{"both", "ipv4", "ipv6", "none", true, false} {
		if got := settings(t, map[string]any{"natOutgoing": value})["natOutgoing"]; got != value {
			t.Errorf("%v: %v", value, got)
		}
	}
	for value, want := range map[any]any{0: 0.0, "": nil, 7: 7.0, "7": 7.0} {
		if got := settings(t, map[string]any{"maxSessionsPerSource": value})["maxSessionsPerSource"]; got != want {
			t.Errorf("%v: %v", value, got)
		}
	}
	for why, agent := range map[string]map[string]any{
		"agent.maxSessions: 268435457: take": {"maxSessions": 268435457}, "agent.maxSessions: many: take": {"maxSessions": "many"}, "agent.maxSessions: 0: take": {"maxSessions": 0},
		"agent.maxSessionsPerSource: -1: take": {"maxSessionsPerSource": -1}, "agent.maxSessionsPerSource: few: take": {"maxSessionsPerSource": "few"},
		"agent.maxSessionsPerSource: 16777216: take": {"maxSessionsPerSource": 16777216}, "agent.sessionServices: nat: take tcp-check": {"sessionServices": []any{"tcp-check", "nat"}},
		"agent.allowedSourcePrefixes: 172.16/x: take": {"allowedSourcePrefixes": []any{"fd01::/64", "172.16/x"}}, "agent.allowedSourcePrefixes: office: take": {"allowedSourcePrefixes": "10.0.0.0/8,office"},
	} {
		if _, err := Render(chartDirectory, map[string]any{"agent": agent}); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v: %v", agent, err)
		}
	}
	for key, value := range map[string]string{"natOutgoing": "v4", "memifFallback": "tun", "countedSources": "nodes"} {
		if _, err := Render(chartDirectory, map[string]any{"agent": map[string]any{key: value}}); err == nil || !strings.Contains(err.Error(), "agent."+key+": "+value) {
			t.Errorf("%v", err)
		}
	}
}

func TestAgentsAreToldFromWhatPodsMaySend(t *testing.T) {
	for want, value := range map[string]any{"[]": []any{}, "[172.16.0.0/16 fd01::7]": []any{"172.16.0.0/16", "fd01::7"}, "[10.0.0.1]": "10.0.0.1"} {
		if got := fmt.Sprint(settings(t, map[string]any{"allowedSourcePrefixes": value})["allowedSourcePrefixes"]); got != want {
			t.Errorf("%v: %s", value, got)
		}
	}
}

func TestChartAndImageAreOfTheProgramsVersions(t *testing.T) {
	const chart, image = "deploy/helm/quiver/Chart.yaml", "deploy/image/Dockerfile"
	version := found(t, "Cargo.toml", `^version = "(.*)"$`)
	for _, said := range []string{
		found(t, chart, "^version: (.*)$"), found(t, chart, "^appVersion: (.*)$"),
		found(t, image, `image.version="(.*?)"`), found(t, image, `ghcr.io/quiver-dataplane/quiver:(\S+)`),
	} {
		if said != version {
			t.Errorf("%s, but the programs are %s", said, version)
		}
	}
	if rust, used := found(t, "rust-toolchain.toml", `^channel = "(.*)"$`), found(t, image, "^FROM rust:([0-9.]+)-"); rust != used {
		t.Errorf("the image is built with Rust %s, everything else with %s", used, rust)
	}
	if golang, used := found(t, "kubernetes/go.mod", "^go (.*)$"), found(t, image, "^FROM golang:([0-9.]+)-"); golang != used {
		t.Errorf("the image is built with Go %s, everything else with %s", used, golang)
	}
}

// The build in a container sees no git: what doesn't tell it the commit makes programs that can't say what they are.
func TestTheImageIsToldItsCommit(t *testing.T) {
	const image = "deploy/image/Dockerfile"
	if told := found(t, image, `--build-arg QUIVER_COMMIT=(\S+)`); told != "$(git" {
		t.Errorf("the command says %q", told)
	}
	found(t, image, `(?s)ARG (QUIVER_COMMIT)=unknown\nRUN cargo build`)
	found(t, image, `(?s)FROM debian\S+\nARG (QUIVER_COMMIT)=unknown\nLABEL [^\n]*image\.revision="\$QUIVER_COMMIT"`)
}
