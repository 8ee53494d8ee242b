// Command echo is a host on a memif: it answers ARP requests, neighbour solicitations and pings for every address, sends UDP
// datagrams back from every port, and sleeps in between.
//
//	go run ./examples/echo -client @quiver/demo
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"quiver/memif"
)

func main() {
	server := flag.String("server", "", "serve an interface at this `socket`")
	client := flag.String("client", "", "connect to an interface at this `socket`")
	id := flag.Uint("id", 0, "interface id")
	flag.Parse()
	if flag.NArg() > 0 || (*server == "") == (*client == "") {
		fmt.Fprintln(os.Stderr, "one of -server and -client is needed, and nothing beside options")
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *server, *client, uint32(*id)); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, server, client string, id uint32) error {
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
	batch := memif.NewBatch(256)
	var answers [][]byte
	for {
		if _, err := port.ReadBatch(ctx, batch); err != nil {
			return err
		}
		answers = answers[:0]
		for _, frame := range batch.Packets() {
			if answer(frame) {
				answers = append(answers, frame)
			}
		}
		if _, err := port.WriteBatch(answers); err != nil {
			return err
		}
	}
}
