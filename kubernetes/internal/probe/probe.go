// Package probe asks and answers over the network: what pods of `kubectl quiver connectivity-test` do. It is part of quiver-agent, whose image is
// there wherever Quiver runs.
package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
)

const (
	// So long it waits between two attempts: who is asked may not be there yet, and datagrams may be lost.
	again = 200 * time.Millisecond
	// So long it waits for an answer of one attempt, before the next one.
	attempt = 2 * time.Second
	// An answer is no longer than that.
	longest = 512
)

// Serve tells everybody who asks at a port, by TCP or UDP, the name of who answers and the address that they are seen with, until the context ends.
func Serve(ctx context.Context, port uint16, name string) error {
	at := netip.AddrPortFrom(netip.IPv6Unspecified(), port).String()
	var config net.ListenConfig
	streams, err := config.Listen(ctx, "tcp", at)
	if err != nil {
		return err
	}
	datagrams, err := config.ListenPacket(ctx, "udp", streams.Addr().String())
	if err != nil {
		return errors.Join(err, streams.Close())
	}
	stop := context.AfterFunc(ctx, func() {
		streams.Close()
		datagrams.Close()
	})
	defer stop()
	ended := make(chan error, 2)
	go func() { ended <- serveStreams(streams, name) }()
	go func() { ended <- serveDatagrams(datagrams, name) }()
	if err := <-ended; ctx.Err() == nil {
		return err
	}
	return nil
}

func serveStreams(listener net.Listener, name string) error {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return err
		}
		_, _ = connection.Write(answer(name, connection.RemoteAddr()))
		_ = connection.Close()
	}
}

func serveDatagrams(socket net.PacketConn, name string) error {
	packet := make([]byte, longest)
	for {
		_, from, err := socket.ReadFrom(packet)
		if err != nil {
			return err
		}
		_, _ = socket.WriteTo(answer(name, from), from)
	}
}

func answer(name string, from net.Addr) []byte {
	seen, _ := netip.ParseAddrPort(from.String())
	return fmt.Appendf(nil, "%s %s\n", name, seen.Addr().Unmap())
}

// Ask asks who serves at an address, by "tcp" or "udp", until there is an answer or the context ends: the name and the address that we are seen with.
// With "connect" no more is wanted than a TCP connection, and the answer is empty.
func Ask(ctx context.Context, how, address string) (answer string, err error) {
	if !slices.Contains([]string{"tcp", "udp", "connect"}, how) {
		return "", fmt.Errorf("%s: take tcp, udp or connect", how)
	}
	return insist(ctx, address, func(ctx context.Context) (string, error) { return once(ctx, how, address) })
}

func once(ctx context.Context, how, address string) (string, error) {
	network := how
	if how == "connect" {
		network = "tcp"
	}
	var dialer net.Dialer
	connection, err := dialer.DialContext(ctx, network, address)
	if err != nil || how == "connect" {
		if err == nil {
			err = connection.Close()
		}
		return "", err
	}
	defer connection.Close()
	if end, is := ctx.Deadline(); is {
		_ = connection.SetDeadline(end)
	}
	if how == "udp" {
		if _, err := connection.Write([]byte("?")); err != nil {
			return "", err
		}
	}
	text := make([]byte, longest)
	length, err := connection.Read(text)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	said := strings.TrimSpace(string(text[:length]))
	if said == "" {
		return "", fmt.Errorf("%s: connected, but nothing was said", address)
	}
	return said, nil
}

// Resolve looks up a name until there are addresses or the context ends.
func Resolve(ctx context.Context, name string) (addresses string, err error) {
	return insist(ctx, name, func(ctx context.Context) (string, error) {
		found, err := net.DefaultResolver.LookupHost(ctx, name)
		slices.Sort(found)
		return strings.Join(found, " "), err
	})
}

// Get writes what is said at a place, "ADDRESS:PORT/PATH", by HTTP, whatever its status: once.
func Get(ctx context.Context, place string, to io.Writer) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+place, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err == nil {
		defer answer.Body.Close()
		_, err = io.Copy(to, answer.Body)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s doesn't answer in time", place)
	}
	return err
}

// insist tries again and again; the error is the last one that says something.
func insist(ctx context.Context, what string, try func(context.Context) (string, error)) (string, error) {
	last := fmt.Errorf("%s: no answer", what)
	for {
		trying, cancel := context.WithTimeout(ctx, attempt)
		said, err := try(trying)
		cancel()
		if err == nil {
			return said, nil
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return "", last
		case <-time.After(again):
		}
	}
}
