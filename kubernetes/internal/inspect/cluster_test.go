package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/client-go/util/exec"
)

func TestNothingIsRunWhereQuiverIsTakenAway(t *testing.T) {
	there := pod(core.ConditionFalse)
	there.Name, there.Spec.Containers = "quiver-x7", []core.Container{{Name: "uninstall"}}
	err := (&Cluster{}).Run(t.Context(), Node{Name: "n1", Pod: there}, []string{"show", "version"}, io.Discard, io.Discard)
	if err == nil || err.Error() != "Quiver is being uninstalled: see the log of pod quiver-x7" {
		t.Error(err)
	}
}

// What a node's program says is told, and its status isn't taken for one of ours.
func TestWhyAProgramOnANodeHasFailedIsTold(t *testing.T) {
	ended := exec.CodeExitError{Err: errors.New("command terminated with exit code 2"), Code: 2}
	for failures, want := range map[string]string{
		"quiver: \"tcp/99999\" is no protocol with a port; write tcp/80\n": `"tcp/99999" is no protocol with a port; write tcp/80`,
		" \n": "quiver has ended with status 2, and said nothing",
	} {
		err := whyFailed("quiver", fmt.Errorf("stream: %w", ended), failures, 0)
		var status exec.CodeExitError
		if err.Error() != want || errors.As(err, &status) {
			t.Errorf("%q: %v", failures, err)
		}
	}
	if gone := errors.New("no route"); !errors.Is(whyFailed("quiver", gone, "quiver: x", 0), gone) {
		t.Error("another error isn't itself any more")
	}
	silent := fmt.Errorf("exec: %w", context.DeadlineExceeded)
	if err := whyFailed("quiver", silent, "", 15*time.Second); err.Error() != "no answer within 15s" {
		t.Error(err)
	}
}

// What `quiver` said of a quiverd that was stopped, hung or had gone, on a host.
func TestRemediesFitAQuiverdInAPod(t *testing.T) {
	there := pod(core.ConditionTrue)
	there.Name = "quiver-x7"
	const log, anew = "(kubectl -n net logs quiver-x7 -c quiverd)", "delete the pod (kubectl -n net delete pod quiver-x7)"
	for said, want := range map[string]string{
		"quiver: show version: quiverd at /run/quiver/api.sock doesn't answer (within 5 s): it hangs, or isn't let run; look at its log (journalctl -u quiverd), and restart it (systemctl restart quiverd)\n": "quiverd at /run/quiver/api.sock doesn't answer (within 5 s): it hangs, or isn't let run; look at its log " + log + ", and " + anew,
		"quiver: can't reach quiverd at /x: no such file: is it running? (systemctl start quiverd); does it listen elsewhere? (--socket or QUIVER_SOCKET)":                                                     "can't reach quiverd at /x: no such file: is it running? " + log,
		"quiver: can't reach quiverd at /x: connection refused: it has ended; start it again (systemctl start quiverd)":                                                                                        "can't reach quiverd at /x: connection refused: it has ended; " + anew,
		"quiver: show: quiverd went away (broken pipe); see its log (journalctl -u quiverd)":                                                                                                                   "quiverd went away (broken pipe); see its log " + log,
		"quiver: showing is wrong": "showing is wrong",
	} {
		if got := (&Cluster{namespace: "net"}).fitting(Node{Name: "n1", Pod: there}, []string{"show", "version", "--output", "json"}, said); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}
