package balance

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/keeping"
	"quiver/kubernetes/internal/pods"
	"quiver/kubernetes/internal/realtest"
	"quiver/kubernetes/internal/service"
)

// cluster is an API server that has these objects, and tells of changes.
type cluster struct {
	services core.ServiceList
	slices   discovery.EndpointSliceList
	changes  map[string]*watch.FakeWatcher
}

func (c *cluster) objects(t testing.TB) *Objects {
	c.changes = map[string]*watch.FakeWatcher{}
	var services, slices cache.ListerWatcher
	services, c.changes["services"] = realtest.Source(&c.services)
	slices, c.changes["slices"] = realtest.Source(&c.slices)
	objects, err := newObjects(services, slices)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// many is a cluster with that many Services of ten endpoints each.
func many(number int) *cluster {
	c := &cluster{}
	c.services.ResourceVersion, c.slices.ResourceVersion = "1", "1"
	for i := range number {
		service, slice := numbered(i, 10)
		c.services.Items, c.slices.Items = append(c.services.Items, *service), append(c.slices.Items, *slice)
	}
	return c
}

func numbered(i, endpoints int) (*core.Service, *discovery.EndpointSlice) {
	name := fmt.Sprintf("web-%d", i)
	address := fmt.Sprintf("10.96.%d.%d", i/250, i%250+1)
	service := &core.Service{
		ObjectMeta: meta.ObjectMeta{Namespace: "default", Name: name, ResourceVersion: "1"},
		Spec:       core.ServiceSpec{ClusterIP: address, ClusterIPs: []string{address}, Ports: []core.ServicePort{{Name: "http", Port: 80, Protocol: core.ProtocolTCP}}},
	}
	slice := &discovery.EndpointSlice{
		ObjectMeta:  meta.ObjectMeta{Namespace: "default", Name: name + "-x", ResourceVersion: "1", Labels: map[string]string{discovery.LabelServiceName: name}},
		AddressType: discovery.AddressTypeIPv4, Ports: []discovery.EndpointPort{{Name: new("http"), Port: new(int32(8080)), Protocol: new(core.ProtocolTCP)}},
	}
	for j := range endpoints {
		number := i*10 + j
		slice.Endpoints = append(slice.Endpoints, discovery.Endpoint{Addresses: []string{fmt.Sprintf("10.%d.%d.%d", 128+number/62500, number/250%250, number%250+1)}})
	}
	return service, slice
}

// told are warnings by Service.
type told struct {
	mutex sync.Mutex
	texts map[string]string
}

func (t *told) TellService(key types.NamespacedName, _ types.UID, _, message string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.texts[key.Name] = message
}

func (t *told) Tell(pod pods.ID, well bool, reason, message string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.texts[pod.Name] = fmt.Sprint(pod.UID, " ", well, " ", reason, " ", message)
}

func (t *told) of(name string) string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.texts[name]
}

// keep keeps quiverd at what a cluster has, until the test ends.
func keep(t testing.TB, c *cluster, quiverd *dataplane.Client) (*Keeper, *told) {
	teller := &told{texts: map[string]string{}}
	settings := Settings{Here: func() (service.Here, bool) { return here, true }, Teller: teller}
	keeper := New(settings, c.objects(t), quiverd, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		keeper.Run(ctx)
		close(done)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return keeper, teller
}

// answering is how many backends quiverd has at a place; -1: nobody is asked there.
func answering(t testing.TB, quiverd *dataplane.Client, address string) int {
	found, err := quiverd.VIPs(t.Context())
	if err != nil {
		return -2
	}
	for _, vip := range found.VIPs {
		if vip.Address == address {
			return len(vip.Backends)
		}
	}
	return -1
}

func TestQuiverdFollowsWhatTheClusterHas(t *testing.T) {
	directory := t.TempDir()
	quiverd, end := realtest.Start(t, directory)
	c := many(20)
	keeper, teller := keep(t, c, quiverd)
	realtest.Eventually(t, "all are there", func() bool { return keeper.Ready() == nil })
	for _, address := range []string{"10.96.0.1", "10.96.0.20"} {
		if got := answering(t, quiverd, address); got != 10 {
			t.Errorf("%s: %d backends", address, got)
		}
	}
	becomes := func(address string, want int) {
		t.Helper()
		realtest.Eventually(t, fmt.Sprintf("%s has %d backends", address, want), func() bool { return answering(t, quiverd, address) == want })
	}
	// Endpoints go, all of them, and come; a Service comes, and one goes.
	for _, endpoints := range []int{9, 0, 3} {
		_, slice := numbered(4, endpoints)
		c.changes["slices"].Modify(slice)
		becomes("10.96.0.5", endpoints)
	}
	fresh, slice := numbered(300, 2)
	c.changes["services"].Add(fresh)
	becomes("10.96.1.51", 0)
	c.changes["slices"].Add(slice)
	becomes("10.96.1.51", 2)
	gone, _ := numbered(0, 0)
	c.changes["services"].Delete(gone)
	becomes("10.96.0.1", -1)
	// One that can't be as it says: it is told where, and the others go on. Its backend is where another Service is asked.
	wrong, slice := numbered(301, 1)
	slice.Endpoints[0].Addresses[0], slice.Ports[0].Port = "10.96.0.2", new(int32(80))
	c.changes["slices"].Add(slice)
	c.changes["services"].Add(wrong)
	realtest.Eventually(t, "it is told", func() bool {
		return strings.Contains(teller.of("web-301"), "an endpoint listens at 10.96.0.2:80 TCP, where Service default/web-1 is asked")
	})
	becomes("10.96.1.52", 0)
	_, slice = numbered(4, 7)
	c.changes["slices"].Modify(slice)
	becomes("10.96.0.5", 7)
	if err := keeper.Ready(); err != nil {
		t.Error(err)
	}
	// Without it all is well again, also for a quiverd that begins with nothing.
	_, slice = numbered(301, 1)
	slice.ResourceVersion = "2"
	c.changes["slices"].Modify(slice)
	becomes("10.96.1.52", 1)
	end()
	if err := os.RemoveAll(filepath.Join(directory, "state")); err != nil {
		t.Fatal(err)
	}
	again, _ := realtest.Start(t, directory)
	keeper.Compare()
	realtest.Eventually(t, "all are there again", func() bool { return answering(t, again, "10.96.0.5") == 7 })
	if found, err := again.VIPs(t.Context()); err != nil || len(found.VIPs) != 21 || len(found.Routes) != 21 {
		t.Errorf("%d VIPs, %v", len(found.VIPs), err)
	}
}

// What a Service says of itself counts from when it says so, and for the VIP that is there: sessions are kept with that.
func TestAServiceIsServedAsItSaysWhileItIsThere(t *testing.T) {
	quiverd, _ := realtest.Start(t, t.TempDir())
	c := many(1)
	_, slice := numbered(0, 2)
	slice.Endpoints[0].NodeName, slice.Endpoints[1].NodeName = new("n1"), new("n2")
	c.slices.Items[0] = *slice
	keeper, teller := keep(t, c, quiverd)
	realtest.Eventually(t, "all are there", func() bool { return keeper.Ready() == nil })
	names := map[string]bool{}
	version := 1
	becomes := func(what string, change func(*core.Service), is func(*quiver.Vip) bool) {
		t.Helper()
		version++
		next, _ := numbered(0, 0)
		next.ResourceVersion = fmt.Sprint(version)
		change(next)
		c.changes["services"].Modify(next)
		realtest.Eventually(t, what, func() bool {
			found, err := quiverd.VIPs(t.Context())
			if err != nil || len(found.VIPs) != 1 {
				t.Fatalf("%s: %v, %v", what, found, err)
			}
			for name, vip := range found.VIPs {
				names[name] = true
				return is(vip)
			}
			return false
		})
	}
	annotated := func(key, value string) func(*core.Service) {
		return func(next *core.Service) { next.Annotations = map[string]string{key: value} }
	}
	leastFlows := func(vip *quiver.Vip) bool {
		return vip.Algorithm == quiver.BalanceAlgorithm_BALANCE_ALGORITHM_LEAST_FLOWS
	}
	maglev := func(vip *quiver.Vip) bool { return !leastFlows(vip) }
	becomes("fewest sessions", annotated(service.Algorithm, "least_flows"), leastFlows)
	becomes("Maglev", annotated(service.Algorithm, "maglev"), maglev)
	becomes("fewest sessions again", annotated(service.Algorithm, "least_flows"), leastFlows)
	becomes("a hash, as Calico/VPP calls it", annotated("cni.projectcalico.org/vppLBType", "ecmp"), maglev)
	// What can't be is told, and nothing else comes of it.
	becomes("still that", annotated(service.Algorithm, "roulette"), func(vip *quiver.Vip) bool {
		return maglev(vip) && strings.Contains(teller.of("web-0"), `"roulette" is neither maglev nor least_flows`)
	})
	becomes("affinity", func(next *core.Service) {
		next.Spec.SessionAffinity = core.ServiceAffinityClientIP
		next.Spec.SessionAffinityConfig = &core.SessionAffinityConfig{ClientIP: &core.ClientIPConfig{TimeoutSeconds: new(int32(60))}}
	}, func(vip *quiver.Vip) bool { return vip.AffinitySeconds == 60 })
	becomes("none any more", func(*core.Service) {}, func(vip *quiver.Vip) bool { return vip.AffinitySeconds == 0 && len(vip.Backends) == 2 })
	becomes("pods of the node only", func(next *core.Service) {
		next.Spec.InternalTrafficPolicy = new(core.ServiceInternalTrafficPolicyLocal)
	}, func(vip *quiver.Vip) bool { return len(vip.Backends) == 1 })
	becomes("all of them again", func(*core.Service) {}, func(vip *quiver.Vip) bool { return len(vip.Backends) == 2 })
	if len(names) != 1 {
		t.Errorf("its VIP was made anew: %v", names)
	}
}

func TestWhoHasLostAPlaceToAnOlderServiceIsToldEachTime(t *testing.T) {
	quiverd, _ := realtest.Start(t, t.TempDir())
	c := many(2)
	older, younger := &c.services.Items[0], &c.services.Items[1]
	older.CreationTimestamp, younger.CreationTimestamp = meta.Unix(1000, 0), meta.Unix(2000, 0)
	younger.Spec.ExternalIPs = []string{"203.0.113.1"}
	keeper, teller := keep(t, c, quiverd)
	realtest.Eventually(t, "all are there", func() bool { return keeper.Ready() == nil })
	whose := func() string {
		found, err := quiverd.VIPs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for name, vip := range found.VIPs {
			if vip.Address == "203.0.113.1" {
				return strings.Split(name, ".")[1]
			}
		}
		return ""
	}
	for round := range 2 {
		next := older.DeepCopy()
		next.ResourceVersion, next.Spec.ExternalIPs = fmt.Sprint(2+2*round), []string{"203.0.113.1"}
		c.changes["services"].Modify(next)
		realtest.Eventually(t, "the younger one is told", func() bool {
			return whose() == "web-0" && strings.Contains(teller.of("web-1"), "203.0.113.1:80 TCP is that of Service default/web-0, which is older")
		})
		teller.TellService(types.NamespacedName{Name: "web-1"}, "", "", "")
		next = older.DeepCopy()
		next.ResourceVersion = fmt.Sprint(3 + 2*round)
		c.changes["services"].Modify(next)
		realtest.Eventually(t, "the younger one has it", func() bool { return whose() == "web-1" })
	}
	if text := teller.of("web-0") + teller.of("web-1"); text != "" {
		t.Errorf("told %q", text)
	}
}

func TestWhatAnEarlierAgentLeftStaysUntilAllIsKnown(t *testing.T) {
	quiverd, _ := realtest.Start(t, t.TempDir())
	t.Run("earlier", func(t *testing.T) {
		keeper, _ := keep(t, many(3), quiverd)
		realtest.Eventually(t, "all are there", func() bool { return keeper.Ready() == nil })
	})
	silent := &cluster{}
	objects := silent.objects(t)
	keeper := New(Settings{Here: func() (service.Here, bool) { return here, true }}, objects, quiverd, slog.New(slog.DiscardHandler))
	if err := keeper.bring(t.Context(), true); err != keeping.ErrUnknown {
		t.Errorf("%v", err)
	}
	if got := answering(t, quiverd, "10.96.0.3"); got != 10 {
		t.Errorf("%d backends", got)
	}
	t.Run("later", func(t *testing.T) {
		keeper, _ := keep(t, many(2), quiverd)
		realtest.Eventually(t, "all are there", func() bool { return keeper.Ready() == nil })
	})
	found, err := quiverd.VIPs(t.Context())
	if err != nil || len(found.VIPs) != 2 || len(found.Routes) != 2 {
		t.Errorf("%v, %v", found, err)
	}
}

// An agent is killed between two batches, and what it was about to make is wanted by nobody when the next one comes.
func TestWhoIsKilledLeavesNothingThatTheNextOneWouldntKnow(t *testing.T) {
	quiverd, _ := realtest.Start(t, t.TempDir())
	settings := Settings{Here: func() (service.Here, bool) { return here, true }}
	killed := New(settings, many(3*batch).objects(t), quiverd, slog.New(slog.DiscardHandler))
	ctx, kill := context.WithCancel(t.Context())
	go killed.objects.Run(ctx)
	realtest.Eventually(t, "all are known", killed.objects.Known)
	done := make(chan error)
	go func() { done <- killed.bring(ctx, true) }()
	realtest.Eventually(t, "something is there", func() bool {
		found, err := quiverd.VIPs(t.Context())
		return err == nil && len(found.VIPs) > 0
	})
	kill()
	t.Logf("killed: %v", <-done)
	keeper, _ := keep(t, many(0), quiverd)
	realtest.Eventually(t, "all is as it shall be", func() bool { return keeper.Ready() == nil })
	found, err := quiverd.VIPs(t.Context())
	if err != nil || len(found.VIPs) > 0 {
		t.Errorf("%d VIPs are left, %v", len(found.VIPs), err)
	}
	rest, err := quiverd.Objects(t.Context())
	if err != nil || len(rest.Others) > 0 {
		t.Errorf("left: %d objects, %v", len(rest.Others), err)
	}
}

// led is a host that remembers what it has to do.
type led struct {
	mutex sync.Mutex
	lead  service.Lead
}

func (l *led) Bring(lead service.Lead, _ bool) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.lead = lead
	return nil
}

func (l *led) hostPorts() (ports []string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, port := range l.lead.HostPorts {
		ports = append(ports, fmt.Sprint(port.Place, " ", port.To))
	}
	slices.Sort(ports)
	return ports
}

func (l *led) externalPorts() (ports []string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, port := range l.lead.ExternalPorts {
		ports = append(ports, fmt.Sprint(port.Place, " ", port.To))
	}
	slices.Sort(ports)
	return ports
}

func TestPortsOfTheNodeComeAndGoWithPods(t *testing.T) {
	quiverd, _ := realtest.Start(t, t.TempDir())
	var mutex sync.Mutex
	var pods []service.Pod
	node := here
	node.Addresses = []netip.Addr{netip.MustParseAddr("192.168.7.1")}
	host := &led{}
	settings := Settings{Here: func() (service.Here, bool) { return node, true }, Host: host, Pods: func() []service.Pod {
		mutex.Lock()
		defer mutex.Unlock()
		return slices.Clone(pods)
	}}
	c := many(1)
	c.services.Items[0].Spec.Ports[0].NodePort = 30080
	keeper := New(settings, c.objects(t), quiverd, slog.New(slog.DiscardHandler))
	go keeper.Run(t.Context())
	realtest.Eventually(t, "all are there", func() bool { return keeper.Ready() == nil })
	pod := func(name, address string, port uint16) service.Pod {
		return service.Pod{
			Attachment: name, Name: types.NamespacedName{Namespace: "default", Name: "web"}, Addresses: []netip.Addr{netip.MustParseAddr(address)},
			Ports: []service.PodPort{{Protocol: core.ProtocolTCP, Port: port, Target: 80}},
		}
	}
	expect := func(wantPods, wantHost []string, there ...service.Pod) {
		t.Helper()
		mutex.Lock()
		pods = there
		mutex.Unlock()
		keeper.Wake()
		answers := func() (all []string) {
			found, err := quiverd.VIPs(t.Context())
			for _, vip := range found.VIPs {
				if vip.Address == "192.168.7.1" {
					all = append(all, fmt.Sprintf("%d: %s", vip.Port, vip.Backends[0].Address))
				}
			}
			slices.Sort(all)
			if err != nil {
				t.Error(err)
			}
			return all
		}
		realtest.Eventually(t, fmt.Sprintf("%q, %q", wantPods, wantHost), func() bool {
			return slices.Equal(answers(), wantPods) && slices.Equal(host.hostPorts(), wantHost)
		})
	}
	const service = "30080: 10.128.0.1"
	a, b := pod("a", "10.244.1.7", 8080), pod("b", "10.244.1.8", 8081)
	expect([]string{service}, nil)
	expect([]string{service, "8080: 10.244.1.7"}, []string{"0.0.0.0:8080 TCP 10.244.1.7:80"}, a)
	expect([]string{service, "8080: 10.244.1.7", "8081: 10.244.1.8"}, []string{"0.0.0.0:8080 TCP 10.244.1.7:80", "0.0.0.0:8081 TCP 10.244.1.8:80"}, a, b)
	// The one is made anew under its name, the other asks where a Service is.
	b = pod("b", "10.244.1.8", 30080)
	expect([]string{service, "8080: 10.244.1.9"}, []string{"0.0.0.0:30080 TCP 10.244.1.8:80", "0.0.0.0:8080 TCP 10.244.1.9:80"}, pod("c", "10.244.1.9", 8080), b)
	expect([]string{service}, nil)
	if err := keeper.Ready(); err != nil {
		t.Error(err)
	}
}

// What is read back must be what was asked for, or it would be asked for again and again.
func TestWhatQuiverdHasIsWhatWasAskedFor(t *testing.T) {
	quiverd, _ := realtest.Start(t, t.TempDir())
	c := many(2)
	refusing, limited := &c.services.Items[0], &c.services.Items[1]
	c.slices.Items = c.slices.Items[1:]
	limited.Spec.Type, limited.Spec.SessionAffinity = core.ServiceTypeLoadBalancer, core.ServiceAffinityClientIP
	limited.Spec.LoadBalancerSourceRanges = []string{"198.51.100.7/32", "10.0.0.0/8", "10.0.0.0/16", "0.0.0.0/1"}
	limited.Spec.ExternalTrafficPolicy = core.ServiceExternalTrafficPolicyLocal
	limited.Status.LoadBalancer.Ingress = []core.LoadBalancerIngress{{IP: "203.0.113.9"}}
	settings := Settings{Here: func() (service.Here, bool) { return here, true }}
	keeper := New(settings, c.objects(t), quiverd, slog.New(slog.DiscardHandler))
	go keeper.objects.Run(t.Context())
	realtest.Eventually(t, "all are there", func() bool { return keeper.bring(t.Context(), true) == nil })
	found, err := quiverd.VIPs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]*quiver.Vip{}
	for name, vip := range found.VIPs {
		seen[vip.Address] = vip
		if !proto.Equal(vip, keeper.wanted.vips[name]) {
			t.Errorf("quiverd has %v, asked for %v", vip, keeper.wanted.vips[name])
		}
	}
	if got := seen[refusing.Spec.ClusterIP].GetWithoutBackends(); len(seen) != 3 || got != quiver.WithoutBackends_WITHOUT_BACKENDS_REJECT {
		t.Errorf("%v", seen)
	}
	if got := fmt.Sprint(seen["203.0.113.9"].GetSources(), seen[limited.Spec.ClusterIP].GetSources()); got != "[0.0.0.0/1 10.0.0.0/16 10.0.0.0/8 198.51.100.7/32] []" {
		t.Error(got)
	}
}
