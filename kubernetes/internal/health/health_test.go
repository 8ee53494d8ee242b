package health

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"quiver/kubernetes/internal/nstest"
)

// alone goes on in a namespace with a device behind which nobody is.
func alone(t *testing.T) {
	nstest.Alone(t, "link set lo up", "link add silent type veth peer name end", "link set end up", "address add 192.0.2.2/24 dev silent", "link set silent up")
}

func TestWhoAnswersForwards(t *testing.T) {
	alone(t)
	// The kernel answers for itself.
	for _, here := range []string{"127.0.0.1", "::1"} {
		if err := Echo(t.Context(), netip.MustParseAddr(here)); err != nil {
			t.Error(err)
		}
	}
	const (
		answers4, silent4 = "192.0.2.2", "192.0.2.1"
		answers6, silent6 = "2001:db8::2", "2001:db8::1"
	)
	expect := func(addresses string, wanted ...string) {
		t.Helper()
		var all []netip.Addr
		for text := range strings.FieldsSeq(addresses) {
			all = append(all, netip.MustParseAddr(text))
		}
		err := Forwards(t.Context(), all)
		if err == nil && len(wanted) > 0 {
			t.Errorf("%s: forwards", addresses)
		}
		if err == nil {
			return
		}
		if len(wanted) == 0 {
			t.Errorf("%s: %v", addresses, err)
		}
		for _, words := range wanted {
			if !strings.Contains(err.Error(), words) {
				t.Errorf("%s: told %q, not %q", addresses, err, words)
			}
		}
		for _, family := range []string{"IPv4", "IPv6"} {
			if !slices.ContainsFunc(wanted, func(words string) bool { return strings.HasPrefix(words, family) }) && strings.Contains(err.Error(), family) {
				t.Errorf("%s: told %q, though %s is well", addresses, err, family)
			}
		}
	}
	// The host has no address of IPv6, though pods may: only IPv4 is asked.
	expect(answers4 + " " + silent6)
	expect(silent4+" "+silent6, "IPv4: ping "+silent4)
	expect(silent4 + " " + answers4)
	// On a device without a carrier one stays tentative.
	for _, words := range []string{"link add nobody type veth peer name down", "link set nobody up", "address add 2001:db8:1::1/64 dev nobody"} {
		nstest.IP(t, strings.Fields(words)...)
	}
	expect(answers4 + " " + silent6)
	// It gets one, so that both have to answer.
	nstest.IP(t, strings.Fields("address add 2001:db8::2/64 dev silent nodad")...)
	nstest.AwaitLocal(t, answers6)
	expect(answers4 + " " + answers6)
	expect(answers4+" "+silent6, "IPv6: ping "+silent6)
	expect(silent4+" "+answers6, "IPv4: ping "+silent4)
	expect(silent4+" "+silent6, "IPv4: ping "+silent4, "IPv6: ping "+silent6)
	// Pods have one family.
	expect(answers4)
	expect(silent6, "IPv6: ping "+silent6)
	expect("")
}

// Until the kernel knows that an address is nobody else's it doesn't send from it: then the node isn't ready yet.
func TestAFamilyWhoseAddressIsStillTestedIsAwaited(t *testing.T) {
	nstest.Alone(t, "link set lo up", "link add silent type veth peer name end")
	// It is tested for a minute.
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/silent/dad_transmits", []byte("60"), 0); err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"link set end up", "link set silent up", "address add 192.0.2.2/24 dev silent", "address add 2001:db8::2/64 dev silent"} {
		nstest.IP(t, strings.Fields(words)...)
	}
	if shown := nstest.IP(t, "address", "show", "dev", "silent"); !strings.Contains(shown, "2001:db8::2/64 scope global tentative") {
		t.Fatal(shown)
	}
	if has, err := hasFamily(false); err != nil || !has {
		t.Errorf("the host has IPv6: %v, %v", has, err)
	}
}

func TestAnAddressThatIsSomebodyElsesIsNone(t *testing.T) {
	nstest.Alone(t, "link set lo up", "link add silent type veth peer name end", "address add 2001:db8::2/64 dev end nodad", "link set end up", "link set silent up",
		"address add 2001:db8::2/64 dev silent")
	// The kernel asks within two seconds.
	for end := time.Now().Add(time.Minute); !strings.Contains(nstest.IP(t, "address", "show", "dev", "silent"), "dadfailed"); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(nstest.IP(t, "address", "show"))
		}
	}
	nstest.IP(t, "address", "del", "2001:db8::2/64", "dev", "end")
	if has, err := hasFamily(false); err != nil || has {
		t.Errorf("the host has IPv6: %v, %v", has, err)
	}
}

// said is what a node says of itself.
type said struct{ fault, warning error }

func (s *said) Ready(context.Context) error { return s.fault }
func (s *said) Well() string                { return "all is well" }
func (s *said) Warning() error              { return s.warning }

func TestReadinessIsWhatIsSaidNowAndLifeIsNot(t *testing.T) {
	node := &said{}
	paths := handler(node, nil)
	ask := func(path string) (int, string) {
		recorder := httptest.NewRecorder()
		paths.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
		return recorder.Code, recorder.Body.String()
	}
	for _, fault := range []error{nil, errors.New("quiverd doesn't answer"), nil} {
		node.fault = fault
		status, body := ask("/readyz")
		if fault == nil && status != http.StatusOK || fault != nil && (status != http.StatusServiceUnavailable || !strings.Contains(body, fault.Error())) {
			t.Errorf("%v: %d %s", fault, status, body)
		}
		if status, _ := ask("/livez"); status != http.StatusOK {
			t.Errorf("%v: not alive", fault)
		}
	}
	node.warning = errors.New("the firewall drops")
	if status, body := ask("/readyz"); status != http.StatusOK || body != "all is well\nthe firewall drops\n" {
		t.Errorf("%d %q", status, body)
	}
	if status, _ := ask("/else"); status != http.StatusNotFound {
		t.Errorf("%d", status)
	}
}
