package memif

import (
	"bufio"
	"encoding/hex"
	"os"
	"strconv"
	"strings"
	"testing"
)

// The table of byte vectors that all implementations share; its format stands in its head.
const tablePath = "../../../tests/conformance/memif/memif-2.0.txt"

type vector struct {
	name, kind string
	fields     map[string]string
	bytes      []byte
}

// entry is a line with words and the lines below that belong to it.
type entry struct {
	words []string
	lines [][]string
}

// large says whether the client has one large ring instead of two.
func (e entry) large() bool { return e.words[len(e.words)-1] == "large" }

type table struct {
	constants   map[string]uint64
	descriptors [][]string
	messages    []*vector
	rejects     []*vector // kind is the phrase
	handshakes  []entry
	receives    []entry
	transmits   []entry
}

func (t *table) message(tb testing.TB, name string) []byte {
	for _, m := range t.messages {
		if m.name == name {
			return m.bytes
		}
	}
	tb.Fatalf("no message %q in the table", name)
	return nil
}

func number(tb testing.TB, text string) uint64 {
	tb.Helper()
	n, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

func phrase(word string) string { return strings.ReplaceAll(word, "-", " ") }

func readTable(tb testing.TB) *table {
	tb.Helper()
	file, err := os.Open(tablePath)
	if err != nil {
		tb.Fatal(err)
	}
	defer file.Close()
	t := &table{constants: map[string]uint64{}}
	var current *vector
	var lines *[][]string
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		text, _, _ := strings.Cut(scanner.Text(), "#")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "constant":
			t.constants[words[1]] = number(tb, words[2])
		case "descriptor":
			t.descriptors = append(t.descriptors, words[1:])
		case "message":
			current = &vector{name: words[1], kind: words[2], fields: map[string]string{}}
			current.bytes = make([]byte, 128)
			for _, word := range words[4:] {
				field, value, _ := strings.Cut(word, "=")
				current.fields[field] = value
			}
			t.messages = append(t.messages, current)
		case "reject":
			current = &vector{name: words[1], kind: phrase(words[3]), bytes: make([]byte, number(tb, words[2]))}
			t.rejects = append(t.rejects, current)
		case "bytes":
			b, err := hex.DecodeString(strings.Join(words[2:], ""))
			if err != nil {
				tb.Fatal(err)
			}
			copy(current.bytes[number(tb, words[1]):], b)
		case "handshake", "receive", "transmit":
			list := map[string]*[]entry{
				"handshake": &t.handshakes, "receive": &t.receives, "transmit": &t.transmits,
			}[words[0]]
			*list = append(*list, entry{words: words[1:]})
			lines = &(*list)[len(*list)-1].lines
		case "send", "hear", "slot", "slots", "head", "packets", "fault", "sent":
			*lines = append(*lines, words)
		default:
			tb.Fatalf("unknown keyword %q in the table", words[0])
		}
	}
	return t
}
