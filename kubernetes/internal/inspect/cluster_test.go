package inspect

import (
	"errors"
	"fmt"
	"testing"

	"k8s.io/client-go/util/exec"
)

// What a node's program says is told, and its status isn't taken for one of ours.
func TestWhyAProgramOnANodeHasFailedIsTold(t *testing.T) {
	ended := exec.CodeExitError{Err: errors.New("command terminated with exit code 2"), Code: 2}
	for failures, want := range map[string]string{
		"quiver: \"tcp/99999\" is no protocol with a port; write tcp/80\n": `n1: "tcp/99999" is no protocol with a port; write tcp/80`,
		" \n": "n1: quiver has ended with status 2, and said nothing",
	} {
		err := whyFailed("n1", fmt.Errorf("stream: %w", ended), failures)
		var status exec.CodeExitError
		if err.Error() != want || errors.As(err, &status) {
			t.Errorf("%q: %v", failures, err)
		}
	}
	if gone := errors.New("no route"); !errors.Is(whyFailed("n1", gone, "quiver: x"), gone) {
		t.Error("another error isn't itself any more")
	}
}
