package main

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// What is added to the time of day stands in a file, as for preload.c.
func init() {
	look := func() {
		text, _ := os.ReadFile(os.Getenv("CLOCK_FILE"))
		if added, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil {
			time.Added = added
		}
	}
	look()
	go func() {
		for range time.Tick(10 * time.Millisecond) {
			look()
		}
	}()
}
