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
	network, local, protocol := "ip4:icmp", "0.0.0.0", protocol4
	var ask, answer icmp.Type = ipv4.ICMPTypeEcho, ipv4.ICMPTypeEchoReply
	if address.Is6() {
		network, local, protocol = "ip6:ipv6-icmp", "::", protocol6
		ask, answer = ipv6.ICMPTypeEchoRequest, ipv6.ICMPTypeEchoReply
	}
	socket, err := icmp.ListenPacket(network, local)
	if err != nil {
		return fmt.Errorf("ping %s: %w", address, err)
	}
	defer socket.Close()
	until := time.Now().Add(patience)
	if deadline, limited := ctx.Deadline(); limited && deadline.Before(until) {
		until = deadline
	}
	if err := socket.SetDeadline(until); err != nil {
		return err
	}
	// The socket hears the answers to all who ping: ours is known by what we sent.
	ours := make([]byte, 16)
	if _, err := rand.Read(ours); err != nil {
		return err
	}
	request, err := (&icmp.Message{Type: ask, Body: &icmp.Echo{Data: ours}}).Marshal(nil)
	if err != nil {
		return err
	}
	if _, err := socket.WriteTo(request, &net.IPAddr{IP: address.AsSlice()}); err != nil {
		return fmt.Errorf("ping %s: %w", address, err)
	}
	buffer := make([]byte, 1500)
	for {
		n, _, err := socket.ReadFrom(buffer)
		if late := (net.Error)(nil); errors.As(err, &late) && late.Timeout() {
			return fmt.Errorf("ping %s: no answer in %s", address, patience)
		}
		if err != nil {
			return fmt.Errorf("ping %s: %w", address, err)
		}
		message, err := icmp.ParseMessage(protocol, buffer[:n])
		if err != nil || message.Type != answer {
			continue
		}
		if echo, is := message.Body.(*icmp.Echo); is && bytes.Equal(echo.Data, ours) {
			return nil
		}
	}
}
