package inspect

import (
	"slices"
	"strings"
	"sync"
)

const (
	// As many questions to one node are under way at once: one that doesn't answer keeps nobody else waiting.
	mostOfNode = 4
	// As many are to all nodes.
	mostAtOnce = 64
)

// asker runs the command line `quiver` on a node, for an answer in JSON. Several may do so at once.
type asker func(node string, words ...string) ([]byte, error)

// of is the same for one node.
func (a asker) of(node string) func(words ...string) ([]byte, error) {
	return func(words ...string) ([]byte, error) { return a(node, words...) }
}

// remembering is the same, by which each question is asked once, and not too many at once.
func (a asker) remembering() asker {
	var lock sync.Mutex
	known, turns := map[string]func() ([]byte, error){}, map[string]chan struct{}{}
	all := make(chan struct{}, mostAtOnce)
	find := func(node string, words []string) func() ([]byte, error) {
		lock.Lock()
		defer lock.Unlock()
		question := strings.Join(append([]string{node}, words...), "\n")
		if known[question] != nil {
			return known[question]
		}
		if turns[node] == nil {
			turns[node] = make(chan struct{}, mostOfNode)
		}
		own := turns[node]
		known[question] = sync.OnceValues(func() ([]byte, error) {
			own <- struct{}{}
			defer func() { <-own }()
			all <- struct{}{}
			defer func() { <-all }()
			return a(node, words...)
		})
		return known[question]
	}
	return func(node string, words ...string) ([]byte, error) { return find(node, words)() }
}

// together has verdicts found side by side; they are in the order of who finds them.
func together(finds []func() []Verdict) []Verdict {
	found := make([][]Verdict, len(finds))
	var waiting sync.WaitGroup
	for i, find := range finds {
		waiting.Go(func() { found[i] = find() })
	}
	waiting.Wait()
	return slices.Concat(found...)
}
