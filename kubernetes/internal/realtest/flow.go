package realtest

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	quiver "quiver/kubernetes/internal/api/quiverv1"
	"quiver/kubernetes/internal/dataplane"
)

const (
	// Packets a second: a memif's ring holds those of half a second in which quiverd gets no core.
	flowRate = "2000"
	// Ports that they come from, each of which is a session.
	flowPorts = "1024-1123"
)

// What pods' packets pass.
var flowServices = []string{"l4-lifecycle", "balance", "acl"}

// Flow is packets that go through a quiverd while something else happens there: UDP from one address to another, of a hundred sessions.
type Flow struct {
	process *exec.Cmd
	out     bytes.Buffer
}

// Sent tells what became of a flow.
type Sent struct {
	// Sent and Lost are packets.
	Sent, Lost uint64
}

// StartFlow has packets go through the quiverd of a directory, by the services that pods' packets pass: from source to asked, which is
// destination itself, or where a VIP has it for a backend. Each flow has a name of its own.
func StartFlow(t testing.TB, directory string, quiverd *dataplane.Client, name string, source netip.Addr, asked netip.AddrPort, destination netip.Addr) *Flow {
	t.Helper()
	ends := map[string]string{}
	all := &quiver.Config{}
	tenant := &quiver.Tenant{Name: name, ForwardServices: flowServices, ReverseServices: flowServices}
	for _, end := range []string{"in", "out"} {
		ends[end] = filepath.Join(directory, name+"-"+end)
		device := &quiver.Interface{Name: name + "-" + end, Port: &quiver.Interface_Memif{Memif: &quiver.Memif{Socket: ends[end], Mode: quiver.MemifMode_MEMIF_MODE_IP}}}
		all.Interfaces = append(all.Interfaces, device)
		tenant.Interfaces = append(tenant.Interfaces, device.Name)
	}
	all.Tenants = append(all.Tenants, tenant)
	all.Routes = append(all.Routes, &quiver.Route{Prefix: netip.PrefixFrom(destination, destination.BitLen()).String(), NextHops: []*quiver.NextHop{{Interface: name + "-out"}}})
	if err := quiverd.Apply(t.Context(), all, nil); err != nil {
		t.Fatal(err)
	}
	f := &Flow{process: exec.Command(built(t, "quiver-tgen"), "--tx", ends["in"], "--rx", ends["out"], "--mode", "ip", "--source", source.String(), "--destination", asked.Addr().String(), "--destination-port", strconv.Itoa(int(asked.Port())),
		"--source-port", flowPorts, "--rate", flowRate, "--seconds", "3600", "--drain", "2", "--check", "sequence", "--output", "json")}
	f.process.Stdout, f.process.Stderr = &f.out, os.Stderr
	if err := f.process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.process.Process.Kill() })
	// It begins as soon as it is connected.
	Eventually(t, "packets flow", func() bool {
		memifs, err := quiverd.Memifs(t.Context())
		return err == nil && memifs[name+"-in"].GetConnected() && memifs[name+"-out"].GetConnected()
	})
	return f
}

// End stops a flow and tells what became of it.
func (f *Flow) End(t testing.TB) (sent Sent) {
	t.Helper()
	if err := f.process.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := f.process.Wait(); err != nil {
		t.Fatalf("quiver-tgen: %v: %s", err, f.out.String())
	}
	if err := json.Unmarshal(f.out.Bytes(), &sent); err != nil {
		t.Fatalf("quiver-tgen: %v: %s", err, f.out.String())
	}
	if sent.Sent == 0 {
		t.Fatalf("no packet was sent: %s", f.out.String())
	}
	return sent
}

// Report has a benchmark tell what became of a flow.
func (s Sent) Report(b *testing.B) {
	b.ReportMetric(float64(s.Sent), "packets")
	b.ReportMetric(float64(s.Lost), "lost")
}
