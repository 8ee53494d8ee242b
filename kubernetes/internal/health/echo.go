package health

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// Protocol numbers (IANA) under which the kernel gives us ICMP.
const protocol4, protocol6 = 1, 58

// This long an answer may take.
const patience = time.Second

// Echo sends an address a ping and waits for the answer: whatever lies between moves packets, both ways. It needs CAP_NET_RAW.
func Echo(ctx context.Context, address netip.Addr) error {
	of, err := open(address.Is4())
	if err != nil {
		return fmt.Errorf("ping %s: %w", address, err)
	}
	defer of.socket.Close()
	return of.echo(ctx, address)
}

// pinger pings addresses of one family, one at a time.
type pinger struct {
	socket      *icmp.PacketConn
	protocol    int
	ask, answer icmp.Type
}

func open(v4 bool) (*pinger, error) {
	network, local := "ip4:icmp", "0.0.0.0"
	of := &pinger{protocol: protocol4, ask: ipv4.ICMPTypeEcho, answer: ipv4.ICMPTypeEchoReply}
	if !v4 {
		network, local = "ip6:ipv6-icmp", "::"
		of = &pinger{protocol: protocol6, ask: ipv6.ICMPTypeEchoRequest, answer: ipv6.ICMPTypeEchoReply}
	}
	var err error
	of.socket, err = icmp.ListenPacket(network, local)
	return of, err
}

func (p *pinger) echo(ctx context.Context, address netip.Addr) error {
	begun := time.Now()
	until := begun.Add(patience)
	if deadline, limited := ctx.Deadline(); limited && deadline.Before(until) {
		until = deadline
	}
	if !until.After(begun) {
		return fmt.Errorf("ping %s: no time was left for it", address)
	}
	if err := p.socket.SetDeadline(until); err != nil {
		return err
	}
	// The socket hears the answers to all who ping: ours is known by what we sent.
	ours := make([]byte, 16)
	if _, err := rand.Read(ours); err != nil {
		return err
	}
	request, err := (&icmp.Message{Type: p.ask, Body: &icmp.Echo{Data: ours}}).Marshal(nil)
	if err != nil {
		return err
	}
	if _, err := p.socket.WriteTo(request, &net.IPAddr{IP: address.AsSlice()}); err != nil {
		return fmt.Errorf("ping %s: %w", address, err)
	}
	buffer := make([]byte, 1500)
	for {
		n, _, err := p.socket.ReadFrom(buffer)
		if late := (net.Error)(nil); errors.As(err, &late) && late.Timeout() {
			return fmt.Errorf("ping %s: no answer in %s", address, until.Sub(begun).Round(10*time.Millisecond))
		}
		if err != nil {
			return fmt.Errorf("ping %s: %w", address, err)
		}
		message, err := icmp.ParseMessage(p.protocol, buffer[:n])
		if err != nil || message.Type != p.answer {
			continue
		}
		if echo, is := message.Body.(*icmp.Echo); is && bytes.Equal(echo.Data, ours) {
			return nil
		}
	}
}
