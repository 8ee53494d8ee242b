package memif

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Who calls an example in a way that means nothing is told how to call it.
func TestExamplesAreCalledWithOptions(t *testing.T) {
	programs := t.TempDir()
	if said, err := exec.Command("go", "build", "-o", programs, "./examples/...").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	for _, words := range [][]string{
		{"echo"}, {"echo", "client", "@nobody"}, {"echo", "-client", "@nobody", "0"}, {"echo", "-client", "@nobody", "-server", "@nobody"},
		{"count"}, {"count", "-send", "64"}, {"count", "-client", "@nobody", "send"},
		{"forward", "@left", "@right"},
	} {
		said, err := exec.CommandContext(within(t), filepath.Join(programs, words[0]), words[1:]...).CombinedOutput()
		failed := new(exec.ExitError)
		if !errors.As(err, &failed) || failed.ExitCode() != 2 || !strings.Contains(string(said), "Usage of ") {
			t.Errorf("%v: %v: %s", words, err, said)
		}
	}
}
