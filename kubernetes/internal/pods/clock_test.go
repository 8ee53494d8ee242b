package pods

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// A node's clock that is off by more than certificates last is as good as no API server; what is said of it names the clock.
func TestANodeWhoseClockIsFarOffIsToldSo(t *testing.T) {
	for name, off := range map[string]time.Duration{"behind": 24 * time.Hour, "ahead": -24 * time.Hour, "right": 0} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		// Seen from a clock that is behind, it begins in the future.
		begins := time.Now().Add(off - time.Hour)
		about := &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "API server"}, NotBefore: begins, NotAfter: begins.Add(2 * time.Hour),
			IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		}
		certificate, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"kind":"Node","apiVersion":"v1","metadata":{"name":"n1"},"spec":{"podCIDRs":["10.244.1.0/24"]}}`)
		}))
		server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: key}}}
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.StartTLS()
		t.Cleanup(server.Close)
		access := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})}}
		cluster, err := Connect(access, "n1")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var told []string
		ranges, err := cluster.Ranges(ctx, func(why error) {
			told = append(told, why.Error())
			cancel()
		})
		if off == 0 {
			if err != nil || len(ranges) != 1 || told != nil {
				t.Errorf("%s: %v, %v, told %q", name, ranges, err, told)
			}
			continue
		}
		if err == nil || len(told) != 1 || !strings.Contains(told[0], "certificate has expired or is not yet valid: current time") {
			t.Errorf("%s: %v, told %q", name, err, told)
		}
	}
}
