package balance

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/realtest"
	"quiver/kubernetes/internal/service"
)

// own is a node whose kernel has two addresses, of which its object tells the first.
func own() service.Here {
	node := here
	node.Own = []netip.Addr{netip.MustParseAddr("192.168.7.1"), netip.MustParseAddr("203.0.113.9")}
	node.Addresses, node.Nodes = node.Own, map[netip.Addr]bool{node.Own[0]: true}
	return node
}

// asksOwn has a Service be asked at places of the node's own ("=": that a load balancer has given it), and gives what is told.
func (w *wanted) asksOwn(p party, node service.Here) string {
	set := p.set()
	for i := range set.VIPs {
		set.VIPs[i].External = slices.Contains(node.Own, set.VIPs[i].Address)
	}
	return strings.Join(w.put(p.key(), p.created, set, &node), "; ")
}

// ways are where ports of the node's own addresses lead, and who answers there.
func (w *wanted) ways() string {
	var lines []string
	for place, led := range w.external.led {
		vip := w.vips[led.name]
		line := fmt.Sprintf("%s > %s %s", place, led.to, strings.Split(vip.GetName(), ".")[1])
		if vip.GetAddress() != led.to.Address.String() || vip.GetPort() != uint32(led.to.Port) || w.external.from[led.to] != place {
			line += fmt.Sprintf(" but %v, %v", vip, w.external.from)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, ", ")
}

func at(text string) service.Place {
	place := netip.MustParseAddrPort(text)
	return service.Place{Address: place.Addr(), Protocol: core.ProtocolTCP, Port: place.Port()}
}

func TestWhoAnswersAtANodesOwnPortsGoesBeforeServices(t *testing.T) {
	node := own()
	pod := service.OfPod(&service.Pod{
		Name: types.NamespacedName{Namespace: "default", Name: "gate"}, Addresses: []netip.Addr{netip.MustParseAddr("10.244.1.7")},
		Ports: []service.PodPort{{Protocol: core.ProtocolTCP, Port: 443, Target: 443}},
	}, &node)
	const (
		named   = "192.168.7.1:443"
		given   = "=192.168.7.1:443"
		extra   = "=203.0.113.9:443"
		process = ":443 TCP is where a process of this node listens: only pods are answered there (take another port, or another address)"
	)
	for _, c := range []struct {
		asked    string
		occupied []string
		pod      bool
		told     string
	}{
		{named, nil, false, ""},
		{named, []string{"192.168.7.1:443"}, false, "192.168.7.1" + process},
		{named, []string{"0.0.0.0:443"}, false, "192.168.7.1" + process},
		{named, []string{"0.0.0.0:80", "192.168.7.2:443", "[::]:443"}, false, ""},
		{named, nil, true, "192.168.7.1:443 TCP is a host port of pod default/gate: only pods of this node are answered there by the Service"},
		// At an address that is the node's by its object, programs expect all ports that they listen at.
		{given, []string{"0.0.0.0:443"}, false, "192.168.7.1" + process},
		{given, nil, true, ""},
		{extra, []string{"0.0.0.0:443"}, false, ""},
		{extra, []string{"203.0.113.9:443"}, false, "203.0.113.9" + process},
	} {
		occupied := map[service.Place]bool{}
		for _, text := range c.occupied {
			occupied[at(text)] = true
		}
		led := ""
		if c.told == "" {
			led = strings.TrimPrefix(c.asked, "=") + " TCP > 10.244.1.254:1024 TCP web"
		}
		one := party{"web", 1, []string{c.asked}, []string{"10.128.0.1:80"}}
		key := types.NamespacedName{Namespace: "default", Name: "gate/a"}
		// Whoever comes first.
		for _, later := range []bool{false, true} {
			w := newWanted()
			put := func() string { return w.asksOwn(one, node) }
			now := time.Now()
			there := func() {
				if w.occupy(occupied, now); c.pod {
					w.put(key, ofPods, pod, &node)
				}
			}
			var told string
			if later {
				put()
				there()
				if told = ""; w.moved[one.key()] {
					told = put()
				}
			} else {
				there()
				told = put()
			}
			if told != c.told || w.ways() != led {
				t.Errorf("%s, %v, %t, %t: told %q, led %q", c.asked, c.occupied, c.pod, later, told, w.ways())
			}
			// And it is led there once they have gone.
			clear(w.moved)
			// (Processes may be started anew.)
			w.occupy(nil, now.Add(barredFor-time.Second))
			if len(w.moved) > 0 {
				t.Errorf("%s, %v: it is led away while a process is briefly gone", c.asked, c.occupied)
			}
			w.occupy(nil, now.Add(barredFor))
			w.put(key, 0, service.Set{}, &node)
			if c.told != "" && !w.moved[one.key()] {
				t.Errorf("%s, %v, %t: it isn't looked at again", c.asked, c.occupied, c.pod)
			}
			if told := put(); told != "" || !strings.Contains(w.ways(), "> 10.244.1.254:") {
				t.Errorf("%s, %v, %t: in the end told %q, led %q", c.asked, c.occupied, c.pod, told, w.ways())
			}
			w.put(one.key(), 0, service.Set{}, &node)
			if rest := w.rest() + w.ways(); rest != "" || len(w.external.wanted)+len(w.external.from) > 0 {
				t.Errorf("left: %s", rest)
			}
		}
	}
}

func TestKubeletsPortIsItsOwnAtTheAddressesOfItsNodesObject(t *testing.T) {
	for _, c := range []struct {
		asked  string
		port   uint16
		barred bool
	}{
		{"192.168.7.1:10250", 0, true}, {"=192.168.7.1:10250", 0, true}, {"192.168.7.1:10250", 10999, false}, {"192.168.7.1:10999", 10999, true}, {"203.0.113.9:10250", 0, false},
	} {
		w, node := newWanted(), own()
		node.Kubelet = c.port
		told := w.asksOwn(party{"web", 1, []string{c.asked}, []string{"10.128.0.1:80"}}, node)
		if barred := strings.Contains(told, "is where a process of this node listens"); barred != c.barred || (w.ways() == "") != c.barred {
			t.Errorf("%s, %d: told %q, led %q", c.asked, c.port, told, w.ways())
		}
	}
}

// Of a client's socket nothing stays.
func TestPortsThatPassAreBarredWhileTheyAreThere(t *testing.T) {
	w, now := newWanted(), time.Now()
	w.occupy(map[service.Place]bool{at("0.0.0.0:80"): true, at("0.0.0.0:40000"): false}, now)
	for place, lasts := range map[string]bool{"0.0.0.0:80": true, "0.0.0.0:40000": false} {
		if !w.external.taken(at(place), false) {
			t.Errorf("%s isn't taken", place)
		}
		w.occupy(nil, now)
		if w.external.taken(at(place), false) != lasts {
			t.Errorf("%s: %t", place, !lasts)
		}
		w.occupy(map[service.Place]bool{at("0.0.0.0:40000"): false}, now)
	}
}

// Without it, all other Services are served, and those that ask at the node's own places as before.
func TestServicesAreServedThoughItIsNotKnownWhereProcessesListen(t *testing.T) {
	failing, now := error(nil), time.Now()
	reads := 0
	keeper := New(Settings{Now: func() time.Time { return now }, Occupied: func() (map[service.Place]bool, error) {
		reads++
		return map[service.Place]bool{at("192.168.7.1:443"): true}, failing
	}}, nil, nil, slog.New(slog.DiscardHandler))
	node := own()
	if keeper.learnOccupied(); reads != 0 {
		t.Error("read though nobody asks")
	}
	ask := func() string {
		return keeper.wanted.asksOwn(party{"web", 1, []string{"192.168.7.1:443"}, []string{"10.128.0.1:80"}}, node)
	}
	ask()
	for _, failing = range []error{nil, errors.New("no /proc"), errors.New("no /proc"), nil} {
		now = now.Add(time.Hour)
		keeper.learnOccupied()
		if told := ask(); told == "" || keeper.wanted.ways() != "" || (keeper.blind != "") != (failing != nil) {
			t.Errorf("%v: told %q, led %q", failing, told, keeper.wanted.ways())
		}
	}
	if reads != 4 {
		t.Errorf("read %d times", reads)
	}
}

func TestAPortBelongsToWhoeverHasThePlace(t *testing.T) {
	w, node := newWanted(), own()
	expect := func(told, wantTold, want string) {
		t.Helper()
		if got := w.ways(); told != wantTold || got != want {
			t.Errorf("told %q, led %q", told, got)
		}
	}
	asks := func(name string, created int64, asked ...string) string {
		return w.asksOwn(party{name, created, asked, []string{"10.128.0.1:1"}}, node)
	}
	expect(asks("b", 2, "203.0.113.9:80", "203.0.113.9:81"), "", w.ways())
	ports := map[service.Place]uint16{at("203.0.113.9:80"): 0, at("203.0.113.9:81"): 0}
	for place := range ports {
		ports[place] = w.external.led[place].to.Port
	}
	way := func(place, whose string) string {
		return fmt.Sprintf("%s TCP > 10.244.1.254:%d TCP %s", place, ports[at(place)], whose)
	}
	// An older one takes one of them over, at the same port, and leaves it.
	expect(asks("a", 1, "203.0.113.9:80"), "", way("203.0.113.9:80", "a")+", "+way("203.0.113.9:81", "b"))
	expect(asks("a", 1), "", way("203.0.113.9:80", "b")+", "+way("203.0.113.9:81", "b"))
	// A Service is given a node port of that number.
	taken := fmt.Sprintf("=10.244.1.254:%d", ports[at("203.0.113.9:80")])
	asks("n", 3, taken)
	if now := w.external.led[at("203.0.113.9:80")].to.Port; now == ports[at("203.0.113.9:80")] || now == ports[at("203.0.113.9:81")] {
		t.Errorf("led to port %d", now)
	} else {
		ports[at("203.0.113.9:80")] = now
	}
	expect("", "", way("203.0.113.9:80", "b")+", "+way("203.0.113.9:81", "b"))
	if vip := w.vips[w.placed[at(taken[1:])]]; !strings.Contains(vip.GetName(), ".n.") {
		t.Errorf("the node port is that of %v", vip)
	}
	// What has become free isn't used at once: the kernel may still lead there.
	asks("b", 2)
	asks("c", 4, "192.168.7.1:80")
	if got := w.external.led[at("192.168.7.1:80")].to.Port; got <= slices.Max(slices.Collect(maps.Values(ports))) {
		t.Errorf("led to port %d", got)
	}
	// No port is left.
	w.external.next = firstExternal
	for port := uint16(firstExternal); port <= lastExternal; port++ {
		w.external.from[service.Place{Address: here.Sources[0], Protocol: core.ProtocolTCP, Port: port}] = service.Place{}
	}
	if told := asks("d", 5, "192.168.7.1:81"); !strings.HasPrefix(told, "192.168.7.1:81 TCP: no port is left of 10.244.1.254") {
		t.Errorf("told %q", told)
	}
}

// A load balancer puts an address on an interface of the node: the kernel leads its port to a VIP, by the same port after the agent has been started anew.
func TestAnAddressThatComesToTheNodeIsAnsweredThere(t *testing.T) {
	quiverd, _ := realtest.Start(t, t.TempDir())
	node := own()
	node.Own = node.Own[:1]
	node.Addresses = node.Own
	var mutex sync.Mutex
	c := many(2)
	for i := range c.services.Items {
		one := &c.services.Items[i]
		one.CreationTimestamp, one.Spec.Type = meta.Unix(int64(1000+i), 0), core.ServiceTypeLoadBalancer
		one.Spec.Ports[0].Port = int32(80 + i)
		one.Spec.LoadBalancerSourceRanges = []string{"198.51.100.0/24"}
		one.Status.LoadBalancer.Ingress = []core.LoadBalancerIngress{{IP: "203.0.113.9"}}
	}
	objects := c.objects(t)
	begin := func(t *testing.T) (*Keeper, *led) {
		host := &led{}
		keeper := New(Settings{Host: host, Here: func() (service.Here, bool) {
			mutex.Lock()
			defer mutex.Unlock()
			return node, true
		}, Occupied: func() (map[service.Place]bool, error) { return map[service.Place]bool{at("0.0.0.0:80"): true}, nil }}, objects, quiverd, slog.New(slog.DiscardHandler))
		go keeper.Run(t.Context())
		realtest.Eventually(t, "all are there", func() bool { return keeper.Ready() == nil })
		return keeper, host
	}
	addresses := func(host *led) string {
		host.mutex.Lock()
		defer host.mutex.Unlock()
		return fmt.Sprint(slices.SortedFunc(slices.Values(host.lead.Addresses), netip.Addr.Compare))
	}
	var ports []string
	t.Run("first", func(t *testing.T) {
		keeper, host := begin(t)
		if got := host.externalPorts(); got != nil || addresses(host) != "[10.96.0.1 10.96.0.2 203.0.113.9]" {
			t.Errorf("led away: %q; ways to %s", got, addresses(host))
		}
		mutex.Lock()
		node = own()
		mutex.Unlock()
		keeper.Wake()
		realtest.Eventually(t, "its ports are led", func() bool { return len(host.externalPorts()) == 2 && addresses(host) == "[10.96.0.1 10.96.0.2]" })
		ports = host.externalPorts()
		found, err := quiverd.VIPs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		there := map[string]*quiver.Vip{}
		for _, vip := range found.VIPs {
			there[fmt.Sprintf("%s:%d", vip.Address, vip.Port)] = vip
		}
		for i, text := range ports {
			words := strings.Fields(text)
			from, to := there[words[0]], there[words[2]]
			if words[0] != fmt.Sprintf("203.0.113.9:%d", 80+i) || len(to.GetBackends()) != 10 || fmt.Sprint(to.GetSources()) != "[198.51.100.0/24]" || fmt.Sprint(to.GetBackends()) != fmt.Sprint(from.GetBackends()) {
				t.Errorf("%s: %v and %v", text, from, to)
			}
		}
	})
	for range 3 {
		t.Run("again", func(t *testing.T) {
			keeper, host := begin(t)
			realtest.Eventually(t, "its ports are led", func() bool { return len(host.externalPorts()) == 2 })
			if got := host.externalPorts(); !slices.Equal(got, ports) {
				t.Errorf("led %q, before %q", got, ports)
			}
			if keeper.wanted.external.before != nil {
				t.Error("it remembers more than it needs")
			}
		})
	}
	mutex.Lock()
	node.Own = node.Own[:1]
	node.Addresses = node.Own
	mutex.Unlock()
	t.Run("gone", func(t *testing.T) {
		_, host := begin(t)
		found, err := quiverd.VIPs(t.Context())
		if got := host.externalPorts(); err != nil || got != nil || len(found.VIPs) != 4 || addresses(host) != "[10.96.0.1 10.96.0.2 203.0.113.9]" {
			t.Errorf("%v; led %q, ways to %s; %d VIPs", err, got, addresses(host), len(found.VIPs))
		}
	})
}
