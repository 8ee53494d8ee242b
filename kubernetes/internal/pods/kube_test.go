package pods

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// apiServer answers the few requests that the agent makes, in the words of the Kubernetes API reference (v1: Pod, Node).
type apiServer struct {
	*httptest.Server
	// lists counts lists of pods, gets single pods asked for.
	lists, gets atomic.Int32
	// looks counts how often the node was asked for.
	looks atomic.Int32
	// ranged tells whether the node has its ranges.
	ranged atomic.Bool
	// events are told to who watches the nodes.
	events chan string
	// patched is the last pod whose status was written, how, and what.
	patched string
}

const podText = `{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":"default","name":%q,"uid":%q,"resourceVersion":"7","annotations":{"a":%q}},"spec":{"nodeName":"n1"}}`

// Pods that have addresses: of the network of pods, one of them ended, and of the host's.
const addressedText = `{"metadata":{"namespace":"default","name":"runs"},"spec":{"nodeName":"n1"},"status":{"phase":"Running","podIPs":[{"ip":"10.244.1.5"},{"ip":"fd00:10:244:1::5"}]}},` +
	`{"metadata":{"namespace":"default","name":"done"},"spec":{"nodeName":"n1"},"status":{"phase":"Succeeded","podIPs":[{"ip":"10.244.1.6"}]}},` +
	`{"metadata":{"namespace":"default","name":"host"},"spec":{"nodeName":"n1","hostNetwork":true},"status":{"phase":"Running","podIPs":[{"ip":"192.168.7.1"}]}}`

const nodeText = `{"kind":"Node","apiVersion":"v1","metadata":{"name":%q,"resourceVersion":"7","labels":{"topology.kubernetes.io/zone":"z","other":"o"}},"spec":{"podCIDRs":["10.244.%d.0/24","fd00:10:244:%d::/64"]},` +
	`"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":10250}},"addresses":[{"type":"Hostname","address":"10.9.9.9"},{"type":"ExternalIP","address":"192.0.2.1"},` +
	`{"type":"InternalIP","address":"192.168.7.%d"},{"type":"InternalIP","address":"fd00:7::%d"}]}}`

func startAPI(t *testing.T) *apiServer {
	api := &apiServer{events: make(chan string)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/pods", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("fieldSelector") != "spec.nodeName=n1" {
			http.Error(w, "asked for more than this node's pods", http.StatusForbidden)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if r.FormValue("watch") != "" {
			if r.FormValue("sendInitialEvents") == "true" {
				// As servers that are older than watch-list do.
				w.WriteHeader(http.StatusUnprocessableEntity)
				fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
				return
			}
			fmt.Fprintf(w, `{"type":"ADDED","object":`+podText+"}\n", "watched", "u2", "from the watch")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		api.lists.Add(1)
		fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[`+podText+","+addressedText+`]}`, "listed", "u1", "from the list")
	})
	mux.HandleFunc("GET /api/v1/namespaces/default/pods/{name}", func(w http.ResponseWriter, r *http.Request) {
		api.gets.Add(1)
		w.Header().Set("Content-Type", "application/json")
		if name := r.PathValue("name"); name != "absent" {
			fmt.Fprintf(w, podText, name, "u9", "asked for")
			return
		}
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
	})
	mux.HandleFunc("PATCH /api/v1/namespaces/default/pods/{name}/status", func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		api.patched = r.PathValue("name") + " " + r.Header.Get("Content-Type") + " " + string(text)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, podText, r.PathValue("name"), "u1", "patched")
	})
	mux.HandleFunc("GET /api/v1/nodes/n1", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		spec := "{}"
		api.looks.Add(1)
		if api.ranged.Load() {
			spec = `{"podCIDR":"10.244.1.0/24","podCIDRs":["10.244.1.0/24","fd00:10:244:1::/64"]}`
		}
		fmt.Fprintf(w, `{"kind":"Node","apiVersion":"v1","metadata":{"name":"n1"},"spec":%s}`, spec)
	})
	mux.HandleFunc("GET /api/v1/nodes", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.FormValue("watch") == "" {
			fmt.Fprintf(w, `{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[`+nodeText+","+nodeText+`]}`,
				"n1", 1, 1, 1, 1, "n3", 3, 3, 3, 3)
			return
		}
		if r.FormValue("sendInitialEvents") == "true" {
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
			return
		}
		for {
			select {
			case <-r.Context().Done():
				return
			case event := <-api.events:
				fmt.Fprintln(w, event)
				w.(http.Flusher).Flush()
			}
		}
	})
	api.Server = httptest.NewServer(mux)
	t.Cleanup(api.CloseClientConnections)
	return api
}

func connect(t *testing.T, api *apiServer) (*Cluster, context.Context) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: k, cluster: {server: %q}}]\n"+
		"contexts: [{name: c, context: {cluster: k, user: u}}]\nusers: [{name: u, user: {}}]\n", api.URL)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := Access(path)
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := Connect(config, "n1")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return cluster, ctx
}

func TestAnnotationsAreThoseOfTheAPIServer(t *testing.T) {
	api := startAPI(t)
	cluster, ctx := connect(t, api)
	go cluster.Run(ctx)
	for len(cluster.informer.GetStore().ListKeys()) < 5 && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	for _, c := range []struct {
		pod  ID
		want string
		gets int32
	}{
		{ID{"default", "listed", "u1"}, "from the list", 0},
		{ID{"default", "watched", "u2"}, "from the watch", 0},
		{ID{"default", "watched", ""}, "from the watch", 0},
		// Not seen yet, or made anew since: the API server is asked.
		{ID{"default", "fresh", "u9"}, "asked for", 1},
		{ID{"default", "listed", "u9"}, "asked for", 2},
	} {
		got, err := cluster.Annotations(ctx, c.pod, map[string]string{"a": "from the runtime"})
		if err != nil || got["a"] != c.want || api.gets.Load() != c.gets {
			t.Errorf("%v: got %v, %v, asked %d times; want %q, %d", c.pod, got, err, api.gets.Load(), c.want, c.gets)
		}
	}
	for pod, want := range map[ID]string{{"default", "watched", "u2"}: "from the watch", {"default", "fresh", "u9"}: "", {"default", "listed", "u9"}: ""} {
		// Nobody is asked for it.
		if got, known := cluster.Seen(pod); got["a"] != want || known != (want != "") || api.gets.Load() != 2 {
			t.Errorf("%v: seen %v, %t", pod, got, known)
		}
	}
	var gone *GoneError
	for _, pod := range []ID{{"default", "absent", "u1"}, {"default", "fresh", "an older one"}} {
		if _, err := cluster.Annotations(ctx, pod, nil); !errors.As(err, &gone) || gone.Pod != pod {
			t.Errorf("%v: %v", pod, err)
		}
	}
	// Without the API server what is known stays known, and what isn't is told as such.
	api.CloseClientConnections()
	api.Listener.Close()
	if got, err := cluster.Annotations(ctx, ID{"default", "listed", "u1"}, nil); err != nil || got["a"] != "from the list" {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := cluster.Annotations(ctx, ID{"default", "fresh", "u9"}, nil); err == nil || errors.As(err, &gone) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestRangesAreWaitedFor(t *testing.T) {
	api := startAPI(t)
	cluster, ctx := connect(t, api)
	var troubles []string
	go func() {
		for api.looks.Load() < 3 && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		api.ranged.Store(true)
	}()
	// Trouble that stays is told once, however often it was looked.
	ranges, err := cluster.Ranges(ctx, func(err error) { troubles = append(troubles, err.Error()) })
	if err != nil || len(ranges) != 2 || ranges[0].String() != "10.244.1.0/24" || ranges[1].String() != "fd00:10:244:1::/64" {
		t.Fatalf("got %v, %v", ranges, err)
	}
	if len(troubles) != 1 || !strings.Contains(troubles[0], "n1 has no podCIDRs") {
		t.Errorf("told %q", troubles)
	}
}

func TestOtherNodesAreFollowed(t *testing.T) {
	api := startAPI(t)
	cluster, ctx := connect(t, api)
	if others, known := cluster.Others(); known {
		t.Errorf("known before anything was asked: %v", others)
	}
	go cluster.Run(ctx)
	expect := func(want string) {
		t.Helper()
		for {
			others, known := cluster.Others()
			if got := fmt.Sprint(others); known && got == want {
				return
			} else if ctx.Err() != nil {
				t.Fatalf("got %s, want %s", got, want)
			}
			// A change is told.
			select {
			case <-cluster.NodesChanged():
			case <-ctx.Done():
			}
		}
	}
	n3 := "{n3 z [10.244.3.0/24 fd00:10:244:3::/64] [192.168.7.3 fd00:7::3] [192.0.2.1] 10250}"
	expect("[" + n3 + "]")
	if self, known := cluster.Self(); !known || fmt.Sprint(self) != "{n1 z [10.244.1.0/24 fd00:10:244:1::/64] [192.168.7.1 fd00:7::1] [192.0.2.1] 10250}" {
		t.Errorf("this node: %v, %t", self, known)
	}
	text := func(kind, name string, number int) string {
		return fmt.Sprintf(`{"type":%q,"object":`+nodeText+"}", kind, name, number, number, number, number)
	}
	api.events <- text("ADDED", "n2", 2)
	expect("[{n2 z [10.244.2.0/24 fd00:10:244:2::/64] [192.168.7.2 fd00:7::2] [192.0.2.1] 10250} " + n3 + "]")
	api.events <- text("MODIFIED", "n2", 4)
	expect("[{n2 z [10.244.4.0/24 fd00:10:244:4::/64] [192.168.7.4 fd00:7::4] [192.0.2.1] 10250} " + n3 + "]")
	api.events <- text("DELETED", "n2", 4)
	expect("[" + n3 + "]")
}

func TestTwoRangesOfOneFamilyAreRefused(t *testing.T) {
	if got, err := ParseRanges([]string{"10.0.0.0/24", "10.0.1.0/24"}); err == nil {
		t.Errorf("got %v", got)
	}
}

func TestAnnotationsAreWrittenWithTheStatus(t *testing.T) {
	api := startAPI(t)
	cluster, ctx := connect(t, api)
	if err := cluster.Annotate(ctx, ID{"default", "listed", "u1"}, "quiver.io/status", `{"a":1}`); err != nil {
		t.Fatal(err)
	}
	// Not of a pod that has the name since.
	want := `listed application/merge-patch+json {"metadata":{"annotations":{"quiver.io/status":"{\"a\":1}"},"uid":"u1"}}`
	if api.patched != want {
		t.Errorf("asked for %s", api.patched)
	}
	if err := cluster.Annotate(ctx, ID{"other", "listed", "u1"}, "quiver.io/status", "{}"); err == nil {
		t.Error("what wasn't written is no error")
	}
}

func TestAddressesAreClaimedByPodsThatHaveThemAndGoOn(t *testing.T) {
	cluster, ctx := connect(t, startAPI(t))
	if cluster.Claimed(netip.MustParseAddr("10.244.1.5"), ID{}) {
		t.Error("before anything is known")
	}
	if err := cluster.Known(); err == nil || err.Error() != "the API server hasn't told yet which pods node n1 has" {
		t.Error(err)
	}
	go cluster.Run(ctx)
	for !cluster.informer.HasSynced() && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	if err := cluster.Known(); err != nil {
		t.Error(err)
	}
	web := ID{Namespace: "default", Name: "web"}
	for address, claimed := range map[string]bool{
		"10.244.1.5": true, "fd00:10:244:1::5": true, "10.244.1.6": false, "192.168.7.1": false, "10.244.1.7": false,
	} {
		if got := cluster.Claimed(netip.MustParseAddr(address), web); got != claimed {
			t.Errorf("%s: %v", address, got)
		}
	}
	if cluster.Claimed(netip.MustParseAddr("10.244.1.5"), ID{Namespace: "default", Name: "runs", UID: "of before"}) {
		t.Error("a pod that is made anew is kept from its own address")
	}
}
