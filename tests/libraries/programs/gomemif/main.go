// Sends every packet back unchanged, on the queue of the same number, with gomemif: called as reflect.c is.
package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"go.fd.io/govpp/extras/gomemif/memif"
)

func main() {
	if len(os.Args) < 4 {
		os.Exit(2)
	}
	queues, _ := strconv.Atoi(os.Args[3])
	for {
		if err := run(os.Args[1], os.Args[2] == "master", queues); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// run serves one connection after another as a master, one as a slave.
func run(path string, master bool, queues int) error {
	socket, err := memif.NewSocket("reflect-go", path)
	if err != nil {
		return err
	}
	defer socket.Delete()
	var quit chan struct{}
	ended := make(chan struct{}, 1)
	args := &memif.Arguments{
		IsMaster:     master,
		Name:         "reflect0",
		MemoryConfig: memif.MemoryConfig{NumQueuePairs: uint16(queues), Log2RingSize: 10, PacketBufferSize: 2048},
		ConnectedFunc: func(i *memif.Interface) error {
			quit = make(chan struct{})
			for queue := range queues {
				go reflect(i, queue, quit)
			}
			return nil
		},
		DisconnectedFunc: func(*memif.Interface) error {
			close(quit)
			ended <- struct{}{}
			return nil
		},
	}
	if master {
		// A master of gomemif never masks interrupts, and takes one without a function for it as an error.
		args.InterruptFunc = taken
	}
	iface, err := socket.NewInterface(args)
	if err != nil {
		return err
	}
	failed := make(chan error, 16)
	socket.StartPolling(failed)
	for !master && !iface.IsConnecting() {
		if err := iface.RequestConnection(); err != nil {
			time.Sleep(20 * time.Millisecond)
		}
	}
	for {
		select {
		case err := <-failed:
			return err
		case <-ended:
			if !master {
				return nil
			}
		}
	}
}

// taken takes the signal of a queue back; the queue is polled anyway.
func taken(i *memif.Interface, number int) error {
	queue, err := i.GetRxQueue(number)
	if err != nil {
		return err
	}
	fd, err := queue.GetEventFd()
	if err != nil {
		return err
	}
	_, err = syscall.Read(fd, make([]byte, 8))
	return err
}

func reflect(i *memif.Interface, number int, quit chan struct{}) {
	rx, err := i.GetRxQueue(number)
	if err != nil {
		return
	}
	tx, err := i.GetTxQueue(number)
	if err != nil {
		return
	}
	packet := make([]byte, 2048)
	for {
		select {
		case <-quit:
			return
		default:
		}
		length, err := rx.ReadPacket(packet)
		if err != nil {
			return
		}
		if length == 0 {
			time.Sleep(10 * time.Microsecond)
			continue
		}
		for tx.WritePacket(packet[:length]) == 0 {
			time.Sleep(10 * time.Microsecond)
		}
	}
}
