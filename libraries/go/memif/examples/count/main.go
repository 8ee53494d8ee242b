// Command count counts what comes in on a memif; with -send N it keeps sending packets of N bytes, with -echo it sends back
// what came. It polls, and so takes a whole core.
//
//	go run ./examples/count -server @quiver/demo
//	go run ./examples/count -client @quiver/demo -send 64
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"quiver/memif"
)

func main() {
	server := flag.String("server", "", "serve an interface at this `socket`")
	client := flag.String("client", "", "connect to an interface at this `socket`")
	id := flag.Uint("id", 0, "interface id")
	size := flag.Int("send", 0, "send packets of so many `bytes`")
	echo := flag.Bool("echo", false, "send back what comes in")
	flag.Parse()
	if flag.NArg() > 0 || (*server == "") == (*client == "") {
		fmt.Fprintln(os.Stderr, "one of -server and -client is needed, and nothing beside options")
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *server, *client, uint32(*id), *size, *echo); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, server, client string, id uint32, size int, echo bool) error {
	link := func(event memif.LinkEvent) { fmt.Fprintln(os.Stderr, event) }
	var port *memif.Port
	var err error
	if server != "" {
		port, err = memif.OpenServer(server, memif.ListenConfig{}, memif.ServerConfig{ID: id}, link)
	} else {
		port, err = memif.OpenClient(client, memif.ClientConfig{ID: id}, link)
	}
	if err != nil {
		return err
	}
	defer port.Close()
	packets := make([][]byte, 0, 256)
	for size > 0 && len(packets) < cap(packets) {
		packets = append(packets, make([]byte, size))
	}
	for ctx.Err() == nil {
		conn, err := port.Conn(ctx)
		if err != nil {
			break
		}
		if err := poll(ctx, conn, packets, echo); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	return nil
}

// poll runs one connection until it ends.
func poll(ctx context.Context, conn *memif.Conn, packets [][]byte, echo bool) error {
	batch := memif.NewBatch(256)
	var received, bytes, sent uint64
	for since := time.Now(); ctx.Err() == nil; {
		for range 1000 {
			n, err := conn.TryReadBatch(batch)
			if err != nil {
				return err
			}
			received += uint64(n)
			for _, packet := range batch.Packets() {
				bytes += uint64(len(packet))
			}
			if echo {
				packets = batch.Packets()
			}
			if len(packets) > 0 {
				n, err := conn.TryWriteBatch(packets)
				if err != nil {
					return err
				}
				sent += uint64(n)
			}
		}
		if passed := time.Since(since); passed >= time.Second {
			per := passed.Seconds() * 1e6
			fmt.Printf("received %.3f Mpps, %.3f Gbit/s; sent %.3f Mpps\n",
				float64(received)/per, float64(bytes)*8/per/1e3, float64(sent)/per)
			received, bytes, sent, since = 0, 0, 0, time.Now()
		}
	}
	return nil
}
