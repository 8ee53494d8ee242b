// Command forward carries packets between two memif interfaces, both ways, each way with its own goroutine.
//
//	go run ./examples/forward -a @left -b @right
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"

	"quiver/memif"
)

func main() {
	a := flag.String("a", "@left", "serve an interface at this `socket`")
	b := flag.String("b", "@right", "and at this one")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "nothing is needed beside options")
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *a, *b); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, sockets ...string) error {
	var ports []*memif.Port
	for _, socket := range sockets {
		link := func(event memif.LinkEvent) { fmt.Fprintln(os.Stderr, socket, event) }
		port, err := memif.OpenServer(socket, memif.ListenConfig{}, memif.ServerConfig{}, link)
		if err != nil {
			return err
		}
		defer port.Close()
		ports = append(ports, port)
	}
	var both sync.WaitGroup
	both.Go(func() { carry(ctx, ports[0], ports[1]) })
	both.Go(func() { carry(ctx, ports[1], ports[0]) })
	both.Wait()
	return nil
}

// carry moves packets until ctx is done. What finds no room is dropped, as everywhere.
func carry(ctx context.Context, from, to *memif.Port) {
	batch := memif.NewBatch(256)
	for {
		if _, err := from.ReadBatch(ctx, batch); err != nil {
			return
		}
		if _, err := to.WriteBatch(batch.Packets()); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}
