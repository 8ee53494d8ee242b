package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	"quiver/kubernetes/internal/address"
	agentv1 "quiver/kubernetes/internal/api/agentv1"
	"quiver/kubernetes/internal/attachment"
	"quiver/kubernetes/internal/dataplane"
	"quiver/kubernetes/internal/keeping"
	"quiver/kubernetes/internal/nstest"
	"quiver/kubernetes/internal/pods"
	"quiver/kubernetes/internal/realtest"
)

// watchful is who keeps policies, as far as the agent sees it.
type watchful struct {
	unknown atomic.Bool
	refused error
	// Those who were guarded aren't yet, whatever is tried.
	unsafe atomic.Bool
	// Restore waits for this; nil: it doesn't.
	restore chan error
	here    map[string][]netip.Addr
	calls   []string
}

func (*watchful) Ready() error { return nil }
func (*watchful) Compare()     {}

func (w *watchful) Restore(ctx context.Context) error {
	if w.restore == nil {
		return nil
	}
	select {
	case why := <-w.restore:
		return why
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *watchful) Safe() error {
	if w.unsafe.Load() {
		return errors.New("the disk is on fire")
	}
	return nil
}

func (w *watchful) Known() error {
	if w.unknown.Load() {
		return fmt.Errorf("NetworkPolicies: %w", keeping.ErrUnknown)
	}
	return nil
}

func (w *watchful) Cover(_ context.Context, pod types.NamespacedName, _ string, addresses []netip.Addr) error {
	if w.refused != nil {
		return w.refused
	}
	w.Here(pod, "", addresses)
	w.calls = append(w.calls, "cover "+pod.String())
	return nil
}

func (w *watchful) Here(pod types.NamespacedName, _ string, addresses []netip.Addr) {
	if w.here == nil {
		w.here = map[string][]netip.Addr{}
	}
	w.here[pod.String()] = addresses
}

// gone is an API server that doesn't know a pod, or doesn't answer.
type gone struct {
	pods.Standalone
	why error
}

func (g gone) Annotations(context.Context, pods.ID, map[string]string) (map[string]string, error) {
	return nil, g.why
}

// place is a node of the test's own: a quiverd, an agent, and namespaces for pods.
type place struct {
	*Agent
	directory string
	quiverd   *dataplane.Client
	// Ends its quiverd.
	end func()
}

func newPlace(t *testing.T, ranges ...string) *place {
	t.Helper()
	nstest.Alone(t, "link set lo up")
	directory := t.TempDir()
	quiverd, end := realtest.Start(t, directory)
	p := &place{directory: directory, quiverd: quiverd, end: end}
	p.begin(t, ranges...)
	return p
}

// begin is an agent that comes, maybe after another one.
func (p *place) begin(t *testing.T, ranges ...string) {
	t.Helper()
	store, err := attachment.Open(filepath.Join(p.directory, "attachments"))
	if err != nil {
		t.Fatal(err)
	}
	settings := Settings{Farewells: attachment.Farewells(filepath.Join(p.directory, "deleted")), Last: address.Last(filepath.Join(p.directory, "last.json"))}
	p.Agent = New(settings, store, p.quiverd, pods.Standalone{}, slog.New(slog.DiscardHandler))
	var prefixes []netip.Prefix
	for _, text := range ranges {
		prefixes = append(prefixes, netip.MustParsePrefix(text))
	}
	if err := p.SetRanges(prefixes); err != nil {
		t.Fatal(err)
	}
	if _, err := p.SetPaths(dataplane.Paths{MTU: 1400}); err != nil {
		t.Fatal(err)
	}
}

// guarded is an agent with who keeps policies, whose quiverd has been told of them: Run does that elsewhere.
func (p *place) guarded(guard *watchful) {
	p.Guarding(guard)
	p.connection.Store(&connection{context.Background()})
}

// asked is a request for a pod in a namespace of its own.
func (p *place) asked(t *testing.T, pod string) *agentv1.AddRequest {
	t.Helper()
	namespace := fmt.Sprintf("qa%d-%s", os.Getpid(), pod)
	nstest.IP(t, "netns", "add", namespace)
	t.Cleanup(func() { nstest.IP(t, "netns", "del", namespace) })
	return &agentv1.AddRequest{
		Network:    "pods",
		Attachment: &agentv1.Attachment{ContainerId: pod, Interface: "eth0"}, Netns: "/run/netns/" + namespace, PodNamespace: "default", PodName: pod,
	}
}

func (p *place) add(t *testing.T, request *agentv1.AddRequest) []string {
	t.Helper()
	answer, err := p.Add(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	return answer.Addresses
}

// pods counts what quiverd has of pods.
func (p *place) pods(t *testing.T) int {
	t.Helper()
	there, err := p.quiverd.Objects(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return len(there.Pods)
}

func refusal(t *testing.T, err error, code codes.Code, words string) {
	t.Helper()
	if status.Code(err) != code || !strings.Contains(err.Error(), words) {
		t.Errorf("%v: not %v with %q", err, code, words)
	}
}

func TestAPodIsAddedCheckedAndDeleted(t *testing.T) {
	p := newPlace(t, "10.9.0.0/29", "fd00:9::/64")
	guard := &watchful{}
	p.guarded(guard)
	request := p.asked(t, "web")
	believed := []string{"0.0.0.0/0", "::/0"}
	check := func() error {
		_, err := p.Check(t.Context(), &agentv1.CheckRequest{
			Attachment: request.Attachment, Netns: request.Netns, Addresses: []string{"10.9.0.2", "192.0.2.7", "fd00:9::2"}, Routes: believed,
		})
		return err
	}
	refusal(t, check(), codes.NotFound, "is not known")
	got := p.add(t, request)
	if want := []string{"10.9.0.2/32", "fd00:9::2/128"}; !slices.Equal(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
	if want := []string{"cover default/web"}; !slices.Equal(guard.calls, want) || len(guard.here["default/web"]) != 2 {
		t.Errorf("%v, %v", guard.calls, guard.here)
	}
	if err := check(); err != nil {
		t.Error(err)
	}
	// The answer was lost: nothing new is made.
	if again := p.add(t, request); !slices.Equal(again, got) {
		t.Errorf("%v, then %v", got, again)
	}
	other := p.asked(t, "other")
	other.Attachment = request.Attachment
	_, err := p.Add(t.Context(), other)
	refusal(t, err, codes.InvalidArgument, "is there already")
	// Somebody has meddled: in the pod, in quiverd.
	name := filepath.Base(request.Netns)
	nstest.IP(t, "-n", name, "address", "del", "10.9.0.2/32", "dev", "eth0")
	refusal(t, check(), codes.NotFound, "lacks address 10.9.0.2")
	nstest.IP(t, "-n", name, "address", "add", "10.9.0.2/32", "dev", "eth0")
	// Its routes went with it.
	refusal(t, check(), codes.NotFound, "lacks the route to 0.0.0.0/0")
	nstest.IP(t, "-n", name, "route", "add", "default", "dev", "eth0")
	for _, family := range []struct{ flag, everything string }{{"-4", "0.0.0.0/0"}, {"-6", "::/0"}} {
		nstest.IP(t, "-n", name, family.flag, "route", "del", "default")
		refusal(t, check(), codes.NotFound, "lacks the route to "+family.everything)
		all := believed
		believed = slices.DeleteFunc(slices.Clone(all), func(one string) bool { return one == family.everything })
		if err := check(); err != nil {
			t.Errorf("a plugin behind us has taken it away: %v", err)
		}
		believed = all
		nstest.IP(t, "-n", name, family.flag, "route", "add", "default", "dev", "eth0")
	}
	there, err := p.quiverd.Objects(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.quiverd.Apply(t.Context(), nil, there.Pods); err != nil {
		t.Fatal(err)
	}
	refusal(t, check(), codes.NotFound, "quiverd has no")
	if err := p.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := check(); err != nil {
		t.Error(err)
	}
	for range 2 {
		if _, err := p.Del(t.Context(), &agentv1.DelRequest{Attachment: request.Attachment}); err != nil {
			t.Error(err)
		}
	}
	if p.pods(t) != 0 || len(p.store.All()) != 0 || guard.here["default/web"] != nil {
		t.Errorf("left: %d objects, %v, %v", p.pods(t), p.store.All(), guard.here)
	}
}

func TestNoHalfMadePodIsLeftOfAnAddThatFails(t *testing.T) {
	p := newPlace(t, "10.9.0.0/30")
	guard := &watchful{refused: errors.New("not everything is known yet")}
	p.guarded(guard)
	request := p.asked(t, "web")
	expect := func(code codes.Code, words string) {
		t.Helper()
		_, err := p.Add(t.Context(), request)
		refusal(t, err, code, words)
		if p.pods(t) != 0 || len(p.store.All()) != 0 {
			t.Errorf("left: %d objects, %v", p.pods(t), p.store.All())
		}
	}
	expect(codes.Unavailable, "not everything is known yet")
	guard.refused = nil
	request.Annotations = map[string]string{"quiver.io/extraMemifPorts": "tcp:80-90,tcp:85"}
	expect(codes.InvalidArgument, "quiver.io/extraMemifPorts")
	request.Annotations = nil
	p.Agent.pods = gone{why: &pods.GoneError{Pod: pods.ID{Namespace: "default", Name: "web", UID: "1"}}}
	expect(codes.InvalidArgument, "has no pod default/web")
	p.Agent.pods = gone{why: errors.New("no route to host")}
	expect(codes.Unavailable, "no route to host")
	p.Agent.pods = pods.Standalone{}
	namespace := request.Netns
	request.Netns = "/run/netns/nobody"
	expect(codes.InvalidArgument, "/run/netns/nobody")
	request.Netns = namespace
	// Somebody else has given it an interface of that name, which stays.
	inside := filepath.Base(namespace)
	nstest.IP(t, "-n", inside, "link", "add", "eth0", "type", "veth", "peer", "name", "theirs")
	expect(codes.FailedPrecondition, "eth0")
	if kind := nstest.IP(t, "-n", inside, "-d", "link", "show", "eth0"); !strings.Contains(kind, "veth") {
		t.Errorf("somebody else's interface is %s", kind)
	}
	nstest.IP(t, "-n", inside, "link", "del", "eth0")
	// The only address, of .0 to .3: it was given back each time.
	p.add(t, request)
	request = p.asked(t, "second")
	_, err := p.Add(t.Context(), request)
	refusal(t, err, codes.ResourceExhausted, "10.9.0.0/30")
}

// claimed are addresses that the cluster takes for those of a pod.
type claimed struct {
	pods.Standalone
	by  string
	all []netip.Addr
}

func (c claimed) Claimed(address netip.Addr, by pods.ID) bool {
	return by.Name != c.by && slices.Contains(c.all, address)
}

// Quiver was taken away and is there again: Services still lead to pods of before by their addresses.
func TestAddressesThatTheClusterTakesForOthersAreGivenLast(t *testing.T) {
	p := newPlace(t, "10.9.0.0/29")
	old := claimed{by: "old", all: []netip.Addr{netip.MustParseAddr("10.9.0.2"), netip.MustParseAddr("10.9.0.4")}}
	p.Agent.pods = old
	given := func(name string) string { return p.add(t, p.asked(t, name))[0] }
	var all []string
	for _, name := range []string{"a", "b", "old", "c", "d"} {
		all = append(all, given(name))
	}
	// Of .2 to .6.
	if want := []string{"10.9.0.3/32", "10.9.0.5/32", "10.9.0.6/32", "10.9.0.2/32", "10.9.0.4/32"}; !slices.Equal(all, want) {
		t.Errorf("given %v", all)
	}
}

func TestWhatTheRuntimeForgotAndWhatWasLeftAsWordGoes(t *testing.T) {
	p := newPlace(t, "10.9.0.0/24")
	var requests []*agentv1.AddRequest
	for _, name := range []string{"a", "b", "c"} {
		requests = append(requests, p.asked(t, name))
		p.add(t, requests[len(requests)-1])
	}
	left := func() (names []string) {
		for _, record := range p.store.All() {
			names = append(names, record.PodName)
		}
		slices.Sort(names)
		return names
	}
	all := p.pods(t)
	// Another network knows none of them, and asks for its own.
	for _, network := range []string{"backhaul", "pods"} {
		if got := left(); !slices.Equal(got, []string{"a", "b", "c"}) {
			t.Errorf("before %s: %v", network, got)
		}
		request := &agentv1.GcRequest{Network: network}
		if network == "pods" {
			request.Valid = []*agentv1.Attachment{requests[0].Attachment, requests[2].Attachment}
		}
		if _, err := p.Gc(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	if got := left(); !slices.Equal(got, []string{"a", "c"}) || p.pods(t) != all/3*2 {
		t.Errorf("%v, %d of %d objects", got, p.pods(t), all)
	}
	// An agent that was away while a pod went.
	if err := p.settings.Farewells.Leave(idOf(requests[0].Attachment)); err != nil {
		t.Fatal(err)
	}
	p.begin(t, "10.9.0.0/24")
	guard := &watchful{}
	p.guarded(guard)
	if len(guard.here) != 2 {
		t.Errorf("who guards was told of %v", guard.here)
	}
	if err := p.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := left(); !slices.Equal(got, []string{"c"}) || p.pods(t) != all/3 || guard.here["default/a"] != nil {
		t.Errorf("%v, %d of %d objects, %v", got, p.pods(t), all, guard.here)
	}
	// Addresses rest: the next one is behind the one that was given last.
	if got := p.add(t, p.asked(t, "d")); !slices.Equal(got, []string{"10.9.0.5/32"}) {
		t.Errorf("%v", got)
	}
}

// said is what owners of pods were told.
type said struct{ all []string }

func (s *said) Tell(pod pods.ID, well bool, reason, message string) {
	s.all = append(s.all, fmt.Sprintf("%s/%s %s %t %s %s", pod.Namespace, pod.Name, pod.UID, well, reason, message))
}

func TestWhoHasAnotherPodsAddressIsLeftOutAndAllOthersGoOn(t *testing.T) {
	p := newPlace(t, "10.9.0.0/24")
	requests := map[string]*agentv1.AddRequest{}
	for _, name := range []string{"a", "b", "c"} {
		requests[name] = p.asked(t, name)
		p.add(t, requests[name])
	}
	each := p.pods(t) / 3
	// Somebody puts back what he has saved, and an hour later.
	stolen := *p.store.Get(idOf(requests["b"].Attachment))
	stolen.Addresses = p.store.Get(idOf(requests["a"].Attachment)).Addresses
	if err := p.store.Put(&stolen); err != nil {
		t.Fatal(err)
	}
	path, later := filepath.Join(p.directory, "attachments", stolen.Key()+".json"), time.Now().Add(time.Hour)
	if err := os.Chtimes(path, later, later); err != nil {
		t.Fatal(err)
	}
	p.begin(t, "10.9.0.0/24")
	told, guard := &said{}, &watchful{}
	p.settings.Teller = told
	p.guarded(guard)
	for range 2 {
		if err := p.Reconcile(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	want := "default/b  false QuiverAddressTaken 10.9.0.2 is also the address of pod default/a, which had it first; this one has no network as long as that one is there: delete it, so that it is made anew"
	if !slices.Equal(told.all, []string{want}) || p.pods(t) != 2*each || guard.here["default/b"] != nil || len(guard.here["default/a"]) != 1 {
		t.Errorf("told %q; %d objects, each has %d; guarded %v", told.all, p.pods(t), each, guard.here)
	}
	registry := prometheus.NewRegistry()
	if err := p.Figures(registry); err != nil {
		t.Fatal(err)
	}
	// Also while a change waits, for a quiverd that hangs.
	for _, waits := range []bool{false, true} {
		if waits {
			p.mutex.Lock()
		}
		families, err := registry.Gather()
		if waits {
			p.mutex.Unlock()
		}
		if err != nil {
			t.Fatal(err)
		}
		figures := map[string]float64{}
		for _, family := range families {
			figures[family.GetName()] = family.Metric[0].GetGauge().GetValue()
		}
		if figures["quiver_agent_disputed"] != 1 || figures["quiver_agent_attachments"] != 2 {
			t.Errorf("%v, %v", figures["quiver_agent_disputed"], figures["quiver_agent_attachments"])
		}
	}
	_, err := p.Add(t.Context(), requests["b"])
	refusal(t, err, codes.FailedPrecondition, "10.9.0.2 is also the address of pod default/a")
	_, err = p.Check(t.Context(), &agentv1.CheckRequest{Attachment: requests["b"].Attachment, Netns: requests["b"].Netns, Addresses: []string{"10.9.0.2"}})
	refusal(t, err, codes.NotFound, "10.9.0.2 is also the address of pod default/a")
	// The others are served, and neither's address is given to anybody.
	if got := p.add(t, p.asked(t, "d")); !slices.Equal(got, []string{"10.9.0.5/32"}) {
		t.Errorf("%v", got)
	}
	// When the first goes, it is its turn.
	if _, err := p.Del(t.Context(), &agentv1.DelRequest{Attachment: requests["a"].Attachment}); err != nil {
		t.Fatal(err)
	}
	if err := p.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err = p.Check(t.Context(), &agentv1.CheckRequest{Attachment: requests["b"].Attachment, Netns: requests["b"].Netns, Addresses: []string{"10.9.0.2"}}); err != nil || p.pods(t) != 3*each {
		t.Errorf("%v, %d objects", err, p.pods(t))
	}
	if len(told.all) != 1 || len(guard.here["default/b"]) != 1 {
		t.Errorf("told %q, guarded %v", told.all, guard.here)
	}
}

func TestReadyIsWhoHasAddressesAndBroughtQuiverdToWhatShallBe(t *testing.T) {
	p := newPlace(t)
	refusal(t, p.Ready(t.Context()), codes.Unavailable, "no addresses for pods yet")
	_, err := p.Add(t.Context(), p.asked(t, "early"))
	refusal(t, err, codes.Unavailable, "no addresses for pods yet")
	if err := p.SetRanges([]netip.Prefix{netip.MustParsePrefix("10.9.0.0/24")}); err != nil {
		t.Fatal(err)
	}
	if err := p.Ready(t.Context()); !errors.Is(err, errNotCompared) {
		t.Error(err)
	}
	if sources, ranges := p.Sources(); sources != nil || ranges != nil {
		t.Errorf("%v, %v, before quiverd has been told", sources, ranges)
	}
	if err := p.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	if _, ranges := p.Sources(); len(ranges) != 1 {
		t.Errorf("%v", ranges)
	}
}
