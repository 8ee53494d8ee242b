package agent

import (
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"quiver/kubernetes/internal/annotation"
	agentv1 "quiver/kubernetes/internal/api/agentv1"
	"quiver/kubernetes/internal/pods"
)

func TestAPodIsToldWhatOfItsAnnotationsHasNoEffectOnce(t *testing.T) {
	p := newPlace(t, "10.9.0.0/24")
	told := &said{}
	p.settings.Teller = told
	request := p.asked(t, "web")
	request.Annotations = map[string]string{"quiver.io/extraMemifPort": "tcp:80", "quiver.io/interfacesSpec": `{"eth0": {"txqsz": 256}}`}
	// The runtime may ask again, since the answer was lost.
	for range 2 {
		p.add(t, request)
	}
	plain := p.asked(t, "plain")
	plain.Annotations = map[string]string{"quiver.io/extraMemifPorts": "tcp:80"}
	p.add(t, plain)
	want := "default/web  false QuiverIgnored annotation quiver.io/extraMemifPort is not known, and has no effect: see docs/kubernetes.md for those that are; " +
		"annotation quiver.io/interfacesSpec, position 20: eth0: txqsz is for memifs: the kernel decides about queues of an ordinary interface"
	if !slices.Equal(told.all, []string{want}) {
		t.Errorf("told %q", told.all)
	}
}

// By which a later change is known; others' annotations needn't be kept.
func TestARecordHasTheAnnotationsThatItWasMadeBy(t *testing.T) {
	p := newPlace(t, "10.9.0.0/24")
	for name, annotations := range map[string]map[string]string{"plain": nil, "web": {"quiver.io/extraMemifPorts": "tcp:80", "example.com/x": "1"}} {
		request := p.asked(t, name)
		request.Annotations = annotations
		p.add(t, request)
	}
	p.begin(t, "10.9.0.0/24")
	kept := map[string]map[string]string{}
	for _, record := range p.Attachments() {
		kept[record.PodName] = record.Annotations
	}
	if want := map[string]map[string]string{"plain": {}, "web": {"quiver.io/extraMemifPorts": "tcp:80"}}; !reflect.DeepEqual(kept, want) {
		t.Errorf("kept %v, want %v", kept, want)
	}
}

// As far as annotations go, quiverd has all ports, each by itself.
func TestAMemifMayHaveEveryPort(t *testing.T) {
	p := newPlace(t, "10.9.0.0/24")
	for pod, ports := range map[string]string{"first": "tcp:0,udp:0,sctp:0", "last": "tcp:65535", "all": "tcp:0-65535,udp:0-65535,sctp:0-65535"} {
		request := p.asked(t, pod)
		request.Annotations = map[string]string{"quiver.io/extraMemifPorts": ports}
		p.add(t, request)
	}
}

func TestWhatWasToldOfAnnotationsIsThereForTheNextAgent(t *testing.T) {
	p := newPlace(t, "10.9.0.0/24")
	request := p.asked(t, "web")
	p.add(t, request)
	before := p.Attachments()[0]
	made, told := map[string]string{"quiver.io/extraMemifPorts": "tcp:80"}, map[string]string{"quiver.io/extraMemifPorts": "tcp:81"}
	if err := p.KeepAnnotations(before.ID, before.Since, made, told); err != nil {
		t.Fatal(err)
	}
	if before.Told != nil {
		t.Error("a record that somebody may be reading was changed")
	}
	p.begin(t, "10.9.0.0/24")
	after := p.Attachments()[0]
	if !reflect.DeepEqual(after.Annotations, made) || !reflect.DeepEqual(after.Told, told) || !reflect.DeepEqual(after.Addresses, before.Addresses) || !after.Since.Equal(before.Since) {
		t.Errorf("%+v, and was %+v", after, before)
	}
	// Of one that went, nothing comes back.
	if _, err := p.Del(t.Context(), &agentv1.DelRequest{Attachment: request.Attachment}); err != nil {
		t.Fatal(err)
	}
	if err := p.KeepAnnotations(before.ID, before.Since, made, told); err != nil || len(p.Attachments()) != 0 {
		t.Errorf("%v, %v", p.Attachments(), err)
	}
	// Nor is it another one's that was made under the same ID.
	request.Annotations = map[string]string{"quiver.io/extraMemifPorts": "tcp:90"}
	p.add(t, request)
	if err := p.KeepAnnotations(before.ID, before.Since, made, told); err != nil {
		t.Fatal(err)
	}
	if anew := p.Attachments()[0]; anew.ID != before.ID || !reflect.DeepEqual(anew.Annotations, request.Annotations) || anew.Told != nil {
		t.Errorf("%+v", anew)
	}
}

func TestWhatIsAnsweredOfAMemifIsWhatItsApplicationIsOffered(t *testing.T) {
	p := newPlace(t, "10.9.0.0/24")
	for spec, want := range map[string]*agentv1.Memif{
		`{}`: {Socket: "@vpp/memif-eth0", RxQueues: 1, TxQueues: 1, RingSize: 16384},
		`{"rx": 2, "tx": 3, "rxqsz": 256, "txqsz": 512, "isl3": true}`: {Socket: "@vpp/memif-eth0", L3: true, RxQueues: 2, TxQueues: 3, RingSize: 512},
	} {
		request := p.asked(t, "web"+strconv.Itoa(len(spec)))
		request.Annotations = map[string]string{"quiver.io/extraMemifPorts": "tcp:80", "quiver.io/extraMemifSpec": spec}
		answer, err := p.Add(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(answer.Memif, want) {
			t.Errorf("%s: %v", spec, answer.Memif)
		}
		there, err := p.quiverd.Memifs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var offered []uint32
		for name, memif := range there {
			if strings.Contains(name, "."+request.PodName+":") {
				offered = append(offered, memif.MaxRingSize)
			}
		}
		if !slices.Equal(offered, []uint32{want.RingSize}) {
			t.Errorf("%s: quiverd offers %d", spec, offered)
		}
	}
}

func TestTheAgentsSettingIsForPodsThatSayNothing(t *testing.T) {
	p := newPlace(t, "10.9.0.0/24")
	p.settings.Defaults = annotation.Defaults{MemifDrops: true}
	for name, fallback := range map[string]string{"silent": "", "asks": "eth0", "same": "drop"} {
		request := p.asked(t, name)
		request.Annotations = map[string]string{"quiver.io/extraMemifPorts": "tcp:80"}
		if fallback != "" {
			request.Annotations["quiver.io/memifFallback"] = fallback
		}
		p.add(t, request)
		if record := p.store.Get(idOf(request.Attachment)); record.Memif.Drops != (fallback != "eth0") {
			t.Errorf("%s: %+v", name, record.Memif)
		}
	}
	// Who leaves it to the agent keeps what it has got, whatever the next agent's setting is: it is on disk.
	p.begin(t, "10.9.0.0/24")
	records, drops := p.Attachments(), 0
	for _, record := range records {
		if record.Memif.Drops {
			drops++
		}
	}
	if len(records) != 3 || drops != 2 {
		t.Errorf("%d of %d drop", drops, len(records))
	}
}

func TestAFaultOfAnAnnotationIsTheCallersToKnowWithItsPlace(t *testing.T) {
	p := newPlace(t, "10.9.0.0/24")
	request := p.asked(t, "web")
	request.Annotations = map[string]string{"quiver.io/extraMemifPorts": "tcp:80", "quiver.io/extraMemifSpec": "{\n  \"rx\": 99\n}"}
	_, err := p.Add(t.Context(), request)
	want := "pod default/web: annotation quiver.io/extraMemifSpec, line 2, column 9: rx = 99 is not possible"
	if err == nil || err.Error() != want || status.Code(err) != codes.InvalidArgument {
		t.Errorf("%v; want %s", err, want)
	}
	if len(p.Attachments()) != 0 || p.pods(t) != 0 {
		t.Errorf("half a pod was made: %v", p.Attachments())
	}
}

// An agent permits less than the one before it: who is there already is answered as before, when the runtime asks again.
func TestAPodThatIsThereNeedsNotBePermittedAgain(t *testing.T) {
	p := newPlace(t, "10.9.0.0/24")
	p.settings.Defaults = annotation.Defaults{Sources: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}}
	request := p.asked(t, "web")
	request.Annotations = map[string]string{"quiver.io/allowedSourcePrefixes": `["198.51.100.0/24"]`}
	first := p.add(t, request)
	p.begin(t, "10.9.0.0/24")
	// Nor does it need the API server.
	p.Agent.pods = gone{why: errors.New("no route to host")}
	if again := p.add(t, request); !slices.Equal(again, first) || len(p.store.Get(idOf(request.Attachment)).Sources) != 1 {
		t.Errorf("%v, then %v", first, again)
	}
	p.Agent.pods = pods.Standalone{}
	fresh := p.asked(t, "fresh")
	fresh.Annotations = request.Annotations
	_, err := p.Add(t.Context(), fresh)
	refusal(t, err, codes.InvalidArgument, "quiver.io/allowedSourcePrefixes")
}
